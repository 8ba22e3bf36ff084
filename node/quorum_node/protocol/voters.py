"""AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter (KIP-853; as shipped, KIP-1186 for AckWhenCommitted).

Private tagged fields, which stock peers ignore:
20000 and 20001 of all requests: expected offset and epoch of the committed voters record
(compare-and-set).
20002 of Add: the order "add first": the new voter, caught up, counts as live in the safety check.
20003 of all requests: the quorum partition; 0 by default.
20000 of the responses to Add and Remove: the current leader, as in the response to Update.
"""

from uuid import UUID

from quorum_node.protocol.api import Api
from quorum_node.schema.schema import (
    BOOL,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT16,
    UUID_TYPE,
    Array,
    Message,
    message,
    wire,
)

TAG_EXPECTED_OFFSET = 20000
TAG_EXPECTED_EPOCH = 20001
TAG_COUNT_NEWCOMER = 20002
TAG_PARTITION = 20003
TAG_CURRENT_LEADER = 20000


@message()
class VoterListener(Message):
    """One listener of the voter."""

    name: str = wire(STRING)
    host: str = wire(STRING)
    port: int = wire(UINT16)


@message()
class CurrentLeader(Message):
    """The leader that the receiver knows, -1 when unknown."""

    leader_id: int = wire(INT32, default=-1)
    leader_epoch: int = wire(INT32, default=-1)
    host: str = wire(STRING)
    port: int = wire(INT32)


NO_CURRENT_LEADER = CurrentLeader(host="", port=0)


@message(flexible_since=0)
class AddRaftVoterRequest(Message):
    """AddRaftVoter request; an expected offset of -1 means no comparison."""

    cluster_id: str | None = wire(STRING, nullable_since=0, default=None)
    timeout_ms: int = wire(INT32)
    voter_id: int = wire(INT32)
    voter_directory_id: UUID | None = wire(UUID_TYPE)
    listeners: tuple[VoterListener, ...] = wire(Array(VoterListener))
    ack_when_committed: bool = wire(BOOL, since=1, default=True)
    expected_offset: int = wire(INT64, tag=TAG_EXPECTED_OFFSET, default=-1)
    expected_epoch: int = wire(INT32, tag=TAG_EXPECTED_EPOCH, default=-1)
    partition: int = wire(INT32, tag=TAG_PARTITION, default=0)
    count_newcomer: bool = wire(BOOL, tag=TAG_COUNT_NEWCOMER, default=False)


@message(flexible_since=0)
class AddRaftVoterResponse(Message):
    """AddRaftVoter response."""

    throttle_time_ms: int = wire(INT32, default=0)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)
    current_leader: CurrentLeader = wire(
        CurrentLeader, tag=TAG_CURRENT_LEADER, default=NO_CURRENT_LEADER
    )


@message(flexible_since=0)
class RemoveRaftVoterRequest(Message):
    """RemoveRaftVoter request; an expected offset of -1 means no comparison."""

    cluster_id: str | None = wire(STRING, nullable_since=0, default=None)
    voter_id: int = wire(INT32)
    voter_directory_id: UUID | None = wire(UUID_TYPE)
    expected_offset: int = wire(INT64, tag=TAG_EXPECTED_OFFSET, default=-1)
    expected_epoch: int = wire(INT32, tag=TAG_EXPECTED_EPOCH, default=-1)
    partition: int = wire(INT32, tag=TAG_PARTITION, default=0)


@message(flexible_since=0)
class RemoveRaftVoterResponse(Message):
    """RemoveRaftVoter response."""

    throttle_time_ms: int = wire(INT32, default=0)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)
    current_leader: CurrentLeader = wire(
        CurrentLeader, tag=TAG_CURRENT_LEADER, default=NO_CURRENT_LEADER
    )


@message()
class KRaftVersionFeature(Message):
    """Range of kraft.version that the voter supports, both ends inclusive."""

    min_supported_version: int = wire(INT16)
    max_supported_version: int = wire(INT16)


@message(flexible_since=0)
class UpdateRaftVoterRequest(Message):
    """UpdateRaftVoter request: new endpoints or feature range of a voter.

    An expected offset of -1 means no comparison.
    """

    cluster_id: str | None = wire(STRING, nullable_since=0, default=None)
    current_leader_epoch: int = wire(INT32)
    voter_id: int = wire(INT32)
    voter_directory_id: UUID | None = wire(UUID_TYPE)
    listeners: tuple[VoterListener, ...] = wire(Array(VoterListener))
    kraft_version_feature: KRaftVersionFeature = wire(KRaftVersionFeature)
    expected_offset: int = wire(INT64, tag=TAG_EXPECTED_OFFSET, default=-1)
    expected_epoch: int = wire(INT32, tag=TAG_EXPECTED_EPOCH, default=-1)
    partition: int = wire(INT32, tag=TAG_PARTITION, default=0)


@message(flexible_since=0)
class UpdateRaftVoterResponse(Message):
    """UpdateRaftVoter response."""

    throttle_time_ms: int = wire(INT32, default=0)
    error_code: int = wire(INT16)
    current_leader: CurrentLeader = wire(
        CurrentLeader, tag=0, default=NO_CURRENT_LEADER, ignorable=True
    )


ADD_RAFT_VOTER = Api(
    80, AddRaftVoterRequest, AddRaftVoterResponse, 0, 1, is_forwardable=True, is_about_quorum=True
)
REMOVE_RAFT_VOTER = Api(
    81,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
    0,
    0,
    is_forwardable=True,
    is_about_quorum=True,
)
UPDATE_RAFT_VOTER = Api(
    82, UpdateRaftVoterRequest, UpdateRaftVoterResponse, 0, 0, is_about_quorum=True
)
