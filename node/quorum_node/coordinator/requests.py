"""Requests of members, consumers and administrators to a coordinator, and the responses. PURE.

Owns the types. Must not know the wire: fields that a version lacks are None. `request_id` is the caller's and is
returned with the response. Times are in milliseconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from quorum_node.coordinator.errors import GroupError
from quorum_node.coordinator.members import Protocol

NO_GENERATION = -1


class TopicPartition(NamedTuple):
    """A topic's name and the number of the partition."""

    topic: str
    partition: int


class Committed(NamedTuple):
    """Offset of the next record to read. `commit_time_ms` and `expire_time_ms`: since 1970; NO_TIME: it has no own expiry."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_time_ms: int
    expire_time_ms: int
    topic_id: UUID | None


@dataclass(frozen=True, slots=True)
class Join:
    """`new_id`: id for a member that has none. `needs_known_id`: the member has to repeat the request with that id.

    `may_skip`: the response may tell the leader to keep the assignments.
    """

    request_id: int
    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    protocol_type: str
    protocols: tuple[Protocol, ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    new_id: str
    needs_known_id: bool = True
    may_skip: bool = True


@dataclass(frozen=True, slots=True)
class Sync:
    """`assignments`: by member id, sent by the leader only. The protocol is None in requests without it."""

    request_id: int
    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol: str | None
    assignments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Heartbeat of a member."""

    request_id: int
    group_id: str
    member_id: str
    instance_id: str | None
    generation: int


@dataclass(frozen=True, slots=True)
class Leave:
    """`members`: (member id or "", instance id)."""

    request_id: int
    group_id: str
    members: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class Transaction:
    """The producer in whose transaction offsets are committed."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class CommitOffsets:
    """`generation`: NO_GENERATION without a member. `transaction`: the offsets take effect when it is committed.

    `knows_missing`: the response may tell that the group does not exist.
    """

    request_id: int
    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    offsets: Mapping[TopicPartition, Committed]
    transaction: Transaction | None = None
    knows_missing: bool = False


@dataclass(frozen=True, slots=True)
class DeleteOffsets:
    """Delete committed offsets of a group."""

    request_id: int
    group_id: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    """Delete a group."""

    request_id: int
    group_id: str


Request = Join | Sync | Heartbeat | Leave | CommitOffsets | DeleteOffsets | DeleteGroup


class JoinedMember(NamedTuple):
    """A member as the leader of the group sees it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class Joined:
    """Response to Join; `members` are for the leader only."""

    error: GroupError
    member_id: str = ""
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader_id: str = ""
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True)
class Synced:
    """Response to Sync."""

    error: GroupError
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class Left:
    """Response to Leave: `errors` in the order of the request."""

    error: GroupError
    errors: tuple[GroupError, ...] = ()


@dataclass(frozen=True, slots=True)
class Done:
    """Response to Heartbeat and DeleteGroup."""

    error: GroupError


@dataclass(frozen=True, slots=True)
class PartitionsDone:
    """Response to CommitOffsets and DeleteOffsets. `error` is that of the request; otherwise partitions may have their own."""

    error: GroupError
    errors: Mapping[TopicPartition, GroupError]


Answer = Joined | Synced | Left | Done | PartitionsDone


@dataclass(frozen=True, slots=True)
class DescribedMember:
    """A member as an administrator sees it."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class DescribedGroup:
    """A group as an administrator sees it; `state` is Kafka's name."""

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[DescribedMember, ...]


def refused(request: Request, error: GroupError) -> Answer:
    """Response to a request that was refused before it reached a group."""
    match request:
        case Join():
            return Joined(error, request.member_id)
        case Sync():
            return Synced(error)
        case Leave():
            return Left(error)
        case CommitOffsets() | DeleteOffsets():
            return PartitionsDone(error, {})
        case Heartbeat() | DeleteGroup():
            return Done(error)
