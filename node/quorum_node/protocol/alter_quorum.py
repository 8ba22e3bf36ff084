"""AlterQuorum (KIP-595, "AlterQuorum"): set or cancel the target voters of a quorum.

The KIP's schema, field for field, with a private API key. Fields that the KIP describes but its
schema lacks, or that KIP-853 requires, are tagged: replica UUIDs, the expected voters record, the
timeout, and in the response the leader and a message.
"""

from uuid import UUID

from quorum_node.protocol.api import Api
from quorum_node.protocol.elections import NodeEndpoint
from quorum_node.schema.schema import (
    INT16,
    INT32,
    INT64,
    STRING,
    UUID_TYPE,
    Array,
    Message,
    message,
    wire,
)

DEFAULT_TIMEOUT_MS = 30_000


@message()
class TargetVoter(Message):
    """A target voter; without a directory id any replica with the id."""

    voter_id: int = wire(INT32)
    voter_directory_id: UUID | None = wire(UUID_TYPE, tag=20000, default=None)


@message()
class AlterQuorumRequestPartition(Message):
    """The target voters of one partition; null cancels. An expected offset of -1: no comparison."""

    partition_index: int = wire(INT32)
    target_voters: tuple[TargetVoter, ...] | None = wire(
        Array(TargetVoter), nullable_since=0, default=None
    )
    expected_offset: int = wire(INT64, tag=20000, default=-1)
    expected_epoch: int = wire(INT32, tag=20001, default=-1)


@message()
class AlterQuorumRequestTopic(Message):
    """Partitions of one topic."""

    topic_name: str = wire(STRING)
    partitions: tuple[AlterQuorumRequestPartition, ...] = wire(Array(AlterQuorumRequestPartition))


@message(flexible_since=0)
class AlterQuorumRequest(Message):
    """AlterQuorum request."""

    cluster_id: str = wire(STRING)
    topics: tuple[AlterQuorumRequestTopic, ...] = wire(Array(AlterQuorumRequestTopic))
    timeout_ms: int = wire(INT32, tag=20000, default=DEFAULT_TIMEOUT_MS)


@message()
class AlterQuorumResponsePartition(Message):
    """Result for one partition, and the leader that the receiver knows (-1: none)."""

    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    leader_id: int = wire(INT32, tag=20000, default=-1)
    leader_epoch: int = wire(INT32, tag=20001, default=-1)
    error_message: str = wire(STRING, tag=20002, default="")
    voters_offset: int = wire(INT64, tag=20003, default=-1)
    voters_epoch: int = wire(INT32, tag=20004, default=-1)


@message()
class AlterQuorumResponseTopic(Message):
    """Results for one topic."""

    topic_name: str = wire(STRING)
    partitions: tuple[AlterQuorumResponsePartition, ...] = wire(Array(AlterQuorumResponsePartition))


@message(flexible_since=0)
class AlterQuorumResponse(Message):
    """AlterQuorum response; it follows the commit of the target, not the end of the changes."""

    topics: tuple[AlterQuorumResponseTopic, ...] = wire(Array(AlterQuorumResponseTopic))
    node_endpoints: tuple[NodeEndpoint, ...] = wire(Array(NodeEndpoint), tag=20000, default=())


ALTER_QUORUM = Api(20000, AlterQuorumRequest, AlterQuorumResponse, 0, 0, is_about_quorum=True)
