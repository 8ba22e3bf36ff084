"""DescribeTopicPartitions: topics page by page, with eligible leader replicas (KIP-966, as shipped
in 4.3, version 0).
"""

from uuid import UUID

from quorum_node.protocol.api import Api
from quorum_node.protocol.describe import NO_AUTHORIZED_OPERATIONS
from quorum_node.schema.schema import (
    BOOL,
    INT16,
    INT32,
    STRING,
    UUID_TYPE,
    Array,
    Message,
    message,
    wire,
)


@message()
class DescribedTopicName(Message):
    """A requested topic."""

    name: str = wire(STRING)


@message()
class PartitionCursor(Message):
    """Start of the next page."""

    topic_name: str = wire(STRING)
    partition_index: int = wire(INT32)


@message(flexible_since=0)
class DescribeTopicPartitionsRequest(Message):
    """DescribeTopicPartitions request; no topics: all of them."""

    topics: tuple[DescribedTopicName, ...] = wire(Array(DescribedTopicName))
    response_partition_limit: int = wire(INT32, default=2000)
    cursor: PartitionCursor | None = wire(PartitionCursor, nullable_since=0, default=None)


@message()
class DescribedPartition(Message):
    """One partition."""

    error_code: int = wire(INT16)
    partition_index: int = wire(INT32)
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32, default=-1)
    replica_nodes: tuple[int, ...] = wire(Array(INT32))
    isr_nodes: tuple[int, ...] = wire(Array(INT32))
    eligible_leader_replicas: tuple[int, ...] | None = wire(
        Array(INT32), nullable_since=0, default=None
    )
    last_known_elr: tuple[int, ...] | None = wire(Array(INT32), nullable_since=0, default=None)
    offline_replicas: tuple[int, ...] = wire(Array(INT32), default=())


@message()
class DescribedTopic(Message):
    """One topic, or a page of it."""

    error_code: int = wire(INT16)
    name: str | None = wire(STRING, nullable_since=0)
    topic_id: UUID | None = wire(UUID_TYPE, default=None)
    is_internal: bool = wire(BOOL, default=False)
    partitions: tuple[DescribedPartition, ...] = wire(Array(DescribedPartition))
    topic_authorized_operations: int = wire(INT32, default=NO_AUTHORIZED_OPERATIONS)


@message(flexible_since=0)
class DescribeTopicPartitionsResponse(Message):
    """DescribeTopicPartitions response; `next_cursor`: null at the end."""

    throttle_time_ms: int = wire(INT32, default=0)
    topics: tuple[DescribedTopic, ...] = wire(Array(DescribedTopic))
    next_cursor: PartitionCursor | None = wire(PartitionCursor, nullable_since=0, default=None)


DESCRIBE_TOPIC_PARTITIONS = Api(
    75, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse, 0, 0
)
