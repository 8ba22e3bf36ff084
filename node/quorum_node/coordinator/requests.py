"""What members, consumers and administrators ask of a coordinator, and what they are answered. PURE.

Owns the types. Must not know the wire: versions are told apart by what a request may carry. `request_id` is the caller's;
it comes back with the answer. Times are in milliseconds.
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
    """The next offset that a group reads. `commit_time_ms` and `expire_time_ms`: since 1970, NO_TIME if it never expires by itself."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_time_ms: int
    expire_time_ms: int
    topic_id: UUID | None


@dataclass(frozen=True, slots=True)
class Join:
    """`new_id`: under which a member that has none may enter; `needs_known_id`: it has to come back with it first;
    `may_skip`: a leader that is told to may leave the assignments as they are."""

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
    """`assignments`: by member id, from the leader alone. The protocol is None in requests that do not name it."""

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
    """A member lives."""

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
    """`generation`: NO_GENERATION from who is no member. `transaction`: they count once that is committed."""

    request_id: int
    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    offsets: Mapping[TopicPartition, Committed]
    transaction: Transaction | None = None


@dataclass(frozen=True, slots=True)
class DeleteOffsets:
    """Forget how far the group has read."""

    request_id: int
    group_id: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    """Forget the group."""

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
    """The answer to Join; `members` are for the leader."""

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
    """The answer to Sync."""

    error: GroupError
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class Left:
    """The answer to Leave: `errors` in the order of the request."""

    error: GroupError
    errors: tuple[GroupError, ...] = ()


@dataclass(frozen=True, slots=True)
class Done:
    """The answer to Heartbeat and DeleteGroup."""

    error: GroupError


@dataclass(frozen=True, slots=True)
class PartitionsDone:
    """The answer to CommitOffsets and DeleteOffsets. `error` is that of the request; else partitions have their own."""

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
    """A group as an administrator sees it; `state` has Kafka's word."""

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[DescribedMember, ...]


def refused(request: Request, error: GroupError) -> Answer:
    """The answer to a request that no group has seen."""
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
