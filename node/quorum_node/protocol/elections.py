"""Vote, BeginQuorumEpoch, EndQuorumEpoch (KIP-595; KIP-996 pre-vote; KIP-853 directory ids; as shipped)."""

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

TAG_STATIC_VOTERS = 20000
"""Private: the configured voter ids of a candidate in a static quorum that has no UUIDs yet."""

TAG_RECOVERED_EPOCH = 20001
"""Private: epoch of the last recovery that the sender knows (`raft/seen_recoveries.py`); -1: not sent."""

TAG_DRAFT_ERROR = 20000
"""Private: error code of the KIP draft (`errors.py`), where the shipped API has none."""


@message()
class NodeEndpoint(Message):
    """Address of the leader in a response."""

    node_id: int = wire(INT32)
    host: str = wire(STRING)
    port: int = wire(UINT16)


@message()
class LeaderEndpoint(Message):
    """One listener of the leader."""

    name: str = wire(STRING)
    host: str = wire(STRING)
    port: int = wire(UINT16)


@message()
class VoteRequestPartition(Message):
    """Vote request of a candidate or, with `pre_vote`, of a prospective candidate."""

    partition_index: int = wire(INT32)
    replica_epoch: int = wire(INT32)
    replica_id: int = wire(INT32)
    replica_directory_id: UUID | None = wire(UUID_TYPE, since=1, default=None, ignorable=True)
    voter_directory_id: UUID | None = wire(UUID_TYPE, since=1, default=None, ignorable=True)
    last_offset_epoch: int = wire(INT32)
    last_offset: int = wire(INT64)
    # Not ignorable: a pre-vote without the flag would count as a real vote.
    pre_vote: bool = wire(BOOL, since=2, default=False)
    static_voters: tuple[int, ...] = wire(
        Array(INT32), tag=TAG_STATIC_VOTERS, default=(), ignorable=True
    )
    recovered_epoch: int = wire(INT32, tag=TAG_RECOVERED_EPOCH, default=-1, ignorable=True)


@message()
class VoteRequestTopic(Message):
    """Partitions of one topic."""

    topic_name: str = wire(STRING)
    partitions: tuple[VoteRequestPartition, ...] = wire(Array(VoteRequestPartition))


@message(flexible_since=0)
class VoteRequest(Message):
    """Vote request."""

    cluster_id: str | None = wire(STRING, nullable_since=0, default=None)
    voter_id: int = wire(INT32, since=1, default=-1, ignorable=True)
    topics: tuple[VoteRequestTopic, ...] = wire(Array(VoteRequestTopic))


@message()
class VoteResponsePartition(Message):
    """Granted or not, with the leader and epoch that the voter knows."""

    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32)
    vote_granted: bool = wire(BOOL)
    draft_error: int = wire(INT16, tag=TAG_DRAFT_ERROR, default=0)
    recovered_epoch: int = wire(INT32, tag=TAG_RECOVERED_EPOCH, default=-1, ignorable=True)


@message()
class VoteResponseTopic(Message):
    """Partitions of one topic."""

    topic_name: str = wire(STRING)
    partitions: tuple[VoteResponsePartition, ...] = wire(Array(VoteResponsePartition))


@message(flexible_since=0)
class VoteResponse(Message):
    """Vote response."""

    error_code: int = wire(INT16)
    topics: tuple[VoteResponseTopic, ...] = wire(Array(VoteResponseTopic))
    node_endpoints: tuple[NodeEndpoint, ...] = wire(
        Array(NodeEndpoint), since=1, tag=0, default=(), ignorable=True
    )


@message()
class BeginQuorumEpochRequestPartition(Message):
    """Announcement of a new leader."""

    partition_index: int = wire(INT32)
    voter_directory_id: UUID | None = wire(UUID_TYPE, since=1, default=None, ignorable=True)
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32)
    recovered_epoch: int = wire(INT32, since=1, tag=TAG_RECOVERED_EPOCH, default=-1, ignorable=True)


@message()
class BeginQuorumEpochRequestTopic(Message):
    """Partitions of one topic."""

    topic_name: str = wire(STRING)
    partitions: tuple[BeginQuorumEpochRequestPartition, ...] = wire(
        Array(BeginQuorumEpochRequestPartition)
    )


@message(flexible_since=1)
class BeginQuorumEpochRequest(Message):
    """BeginQuorumEpoch request."""

    cluster_id: str | None = wire(STRING, nullable_since=0, default=None)
    voter_id: int = wire(INT32, since=1, default=-1, ignorable=True)
    topics: tuple[BeginQuorumEpochRequestTopic, ...] = wire(Array(BeginQuorumEpochRequestTopic))
    leader_endpoints: tuple[LeaderEndpoint, ...] = wire(
        Array(LeaderEndpoint), since=1, default=(), ignorable=True
    )


@message()
class EpochResponsePartition(Message):
    """Response to Begin and End: error, and the leader and epoch that the receiver knows."""

    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32)
    draft_error: int = wire(INT16, since=1, tag=TAG_DRAFT_ERROR, default=0, ignorable=True)
    recovered_epoch: int = wire(INT32, since=1, tag=TAG_RECOVERED_EPOCH, default=-1, ignorable=True)


@message()
class EpochResponseTopic(Message):
    """Partitions of one topic."""

    topic_name: str = wire(STRING)
    partitions: tuple[EpochResponsePartition, ...] = wire(Array(EpochResponsePartition))


@message(flexible_since=1)
class BeginQuorumEpochResponse(Message):
    """BeginQuorumEpoch response."""

    error_code: int = wire(INT16)
    topics: tuple[EpochResponseTopic, ...] = wire(Array(EpochResponseTopic))
    node_endpoints: tuple[NodeEndpoint, ...] = wire(
        Array(NodeEndpoint), since=1, tag=0, default=(), ignorable=True
    )


@message()
class PreferredCandidate(Message):
    """A successor in order of preference."""

    candidate_id: int = wire(INT32, since=1, default=-1)
    candidate_directory_id: UUID | None = wire(UUID_TYPE, since=1, default=None)


@message()
class EndQuorumEpochRequestPartition(Message):
    """A leader resigns and names its successors."""

    partition_index: int = wire(INT32)
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32)
    preferred_successors: tuple[int, ...] = wire(Array(INT32), until=0, default=(), ignorable=True)
    preferred_candidates: tuple[PreferredCandidate, ...] = wire(
        Array(PreferredCandidate), since=1, default=(), ignorable=True
    )


@message()
class EndQuorumEpochRequestTopic(Message):
    """Partitions of one topic."""

    topic_name: str = wire(STRING)
    partitions: tuple[EndQuorumEpochRequestPartition, ...] = wire(
        Array(EndQuorumEpochRequestPartition)
    )


@message(flexible_since=1)
class EndQuorumEpochRequest(Message):
    """EndQuorumEpoch request."""

    cluster_id: str | None = wire(STRING, nullable_since=0, default=None)
    topics: tuple[EndQuorumEpochRequestTopic, ...] = wire(Array(EndQuorumEpochRequestTopic))
    leader_endpoints: tuple[LeaderEndpoint, ...] = wire(
        Array(LeaderEndpoint), since=1, default=(), ignorable=True
    )


@message(flexible_since=1)
class EndQuorumEpochResponse(Message):
    """EndQuorumEpoch response."""

    error_code: int = wire(INT16)
    topics: tuple[EpochResponseTopic, ...] = wire(Array(EpochResponseTopic))
    node_endpoints: tuple[NodeEndpoint, ...] = wire(
        Array(NodeEndpoint), since=1, tag=0, default=(), ignorable=True
    )


VOTE = Api(52, VoteRequest, VoteResponse, 0, 2, is_about_quorum=True)
BEGIN_QUORUM_EPOCH = Api(
    53, BeginQuorumEpochRequest, BeginQuorumEpochResponse, 0, 1, is_about_quorum=True
)
END_QUORUM_EPOCH = Api(
    54, EndQuorumEpochRequest, EndQuorumEpochResponse, 0, 1, is_about_quorum=True
)
