"""OffsetDelete: deletes committed offsets of a group (KIP-496)."""

from quorum_node.protocol.api import Api
from quorum_node.schema.schema import (
    INT16,
    INT32,
    STRING,
    Array,
    Message,
    message,
    wire,
)


@message()
class OffsetDeletePartition(Message):
    """A partition."""

    partition_index: int = wire(INT32)


@message()
class OffsetDeleteTopic(Message):
    """Partitions of a topic."""

    name: str = wire(STRING)
    partitions: tuple[OffsetDeletePartition, ...] = wire(Array(OffsetDeletePartition))


@message()
class OffsetDeleteRequest(Message):
    """OffsetDelete request."""

    group_id: str = wire(STRING)
    topics: tuple[OffsetDeleteTopic, ...] = wire(Array(OffsetDeleteTopic))


@message()
class OffsetDeletePartitionResponse(Message):
    """Result for one partition."""

    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)


@message()
class OffsetDeleteTopicResponse(Message):
    """Results for one topic."""

    name: str = wire(STRING)
    partitions: tuple[OffsetDeletePartitionResponse, ...] = wire(
        Array(OffsetDeletePartitionResponse)
    )


@message()
class OffsetDeleteResponse(Message):
    """OffsetDelete response."""

    error_code: int = wire(INT16)
    throttle_time_ms: int = wire(INT32, default=0, ignorable=True)
    topics: tuple[OffsetDeleteTopicResponse, ...] = wire(Array(OffsetDeleteTopicResponse))


OFFSET_DELETE = Api(47, OffsetDeleteRequest, OffsetDeleteResponse, 0, 0)
