"""DescribeQuorum and DescribeCluster (KIP-595, KIP-919, KIP-853; as shipped, versions 0-2 each)."""

from uuid import UUID

from quorum_node.protocol.api import Api
from quorum_node.schema.schema import (
    BOOL,
    INT8,
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

TAG_TARGET_VOTERS = 20000
ENDPOINTS_OF_BROKERS = 1
ENDPOINTS_OF_CONTROLLERS = 2
NO_AUTHORIZED_OPERATIONS = -0x80000000


@message()
class DescribeQuorumRequestPartition(Message):
    """A partition to describe."""

    partition_index: int = wire(INT32)


@message()
class DescribeQuorumRequestTopic(Message):
    """Partitions of one topic."""

    topic_name: str = wire(STRING)
    partitions: tuple[DescribeQuorumRequestPartition, ...] = wire(
        Array(DescribeQuorumRequestPartition)
    )


@message(flexible_since=0)
class DescribeQuorumRequest(Message):
    """DescribeQuorum request."""

    topics: tuple[DescribeQuorumRequestTopic, ...] = wire(Array(DescribeQuorumRequestTopic))


@message()
class QuorumReplica(Message):
    """Progress of a voter or observer; -1 is unknown."""

    replica_id: int = wire(INT32)
    replica_directory_id: UUID | None = wire(UUID_TYPE, since=2, default=None, ignorable=True)
    log_end_offset: int = wire(INT64)
    last_fetch_timestamp_ms: int = wire(INT64, since=1, default=-1, ignorable=True)
    last_caught_up_timestamp_ms: int = wire(INT64, since=1, default=-1, ignorable=True)


@message()
class DescribeQuorumResponsePartition(Message):
    """The quorum of one partition as its leader sees it.

    `target_voters` is a tagged field of the KIP draft. A target is never empty, so an empty array
    means no target.
    """

    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(
        STRING, since=2, nullable_since=2, default=None, ignorable=True
    )
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32)
    high_watermark: int = wire(INT64)
    current_voters: tuple[QuorumReplica, ...] = wire(Array(QuorumReplica))
    observers: tuple[QuorumReplica, ...] = wire(Array(QuorumReplica))
    target_voters: tuple[QuorumReplica, ...] = wire(
        Array(QuorumReplica), tag=TAG_TARGET_VOTERS, default=(), ignorable=True
    )


@message()
class DescribeQuorumResponseTopic(Message):
    """Partitions of one topic."""

    topic_name: str = wire(STRING)
    partitions: tuple[DescribeQuorumResponsePartition, ...] = wire(
        Array(DescribeQuorumResponsePartition)
    )


@message()
class QuorumListener(Message):
    """One listener of a node."""

    name: str = wire(STRING, since=2, default="")
    host: str = wire(STRING, since=2, default="")
    port: int = wire(UINT16, since=2, default=0)


@message()
class QuorumNode(Message):
    """Listeners of a node. Ids must be unique in the array, otherwise stock admin clients fail."""

    node_id: int = wire(INT32, since=2, default=0)
    listeners: tuple[QuorumListener, ...] = wire(Array(QuorumListener), since=2, default=())


@message(flexible_since=0)
class DescribeQuorumResponse(Message):
    """DescribeQuorum response."""

    error_code: int = wire(INT16)
    error_message: str | None = wire(
        STRING, since=2, nullable_since=2, default=None, ignorable=True
    )
    topics: tuple[DescribeQuorumResponseTopic, ...] = wire(Array(DescribeQuorumResponseTopic))
    nodes: tuple[QuorumNode, ...] = wire(Array(QuorumNode), since=2, default=(), ignorable=True)


@message(flexible_since=0)
class DescribeClusterRequest(Message):
    """DescribeCluster request."""

    include_cluster_authorized_operations: bool = wire(BOOL)
    endpoint_type: int = wire(INT8, since=1, default=ENDPOINTS_OF_BROKERS)
    include_fenced_brokers: bool = wire(BOOL, since=2, default=False, ignorable=True)


@message()
class ClusterNode(Message):
    """A broker or, if requested, a controller."""

    broker_id: int = wire(INT32)
    host: str = wire(STRING)
    port: int = wire(INT32)
    rack: str | None = wire(STRING, nullable_since=0, default=None)
    is_fenced: bool = wire(BOOL, since=2, default=False, ignorable=True)


@message(flexible_since=0)
class DescribeClusterResponse(Message):
    """DescribeCluster response."""

    throttle_time_ms: int = wire(INT32, default=0)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)
    endpoint_type: int = wire(INT8, since=1, default=ENDPOINTS_OF_BROKERS, ignorable=True)
    cluster_id: str = wire(STRING)
    controller_id: int = wire(INT32, default=-1)
    brokers: tuple[ClusterNode, ...] = wire(Array(ClusterNode))
    cluster_authorized_operations: int = wire(INT32, default=NO_AUTHORIZED_OPERATIONS)


DESCRIBE_QUORUM = Api(
    55,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    0,
    2,
    is_forwardable=True,
    is_about_quorum=True,
)
DESCRIBE_CLUSTER = Api(
    60, DescribeClusterRequest, DescribeClusterResponse, 0, 2, is_about_quorum=True
)
