"""ListOffsets: offsets of a partition by time, and its ends (as shipped in 4.3, versions 1-11)."""

from quorum_node.protocol.api import Api
from quorum_node.schema.schema import (
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    Array,
    Message,
    message,
    wire,
)

LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL_TIMESTAMP = -4
LATEST_TIERED_TIMESTAMP = -5
EARLIEST_PENDING_UPLOAD = -6


@message()
class ListOffsetsPartition(Message):
    """Requested timestamp of one partition: milliseconds since 1970, or one of the constants."""

    partition_index: int = wire(INT32)
    current_leader_epoch: int = wire(INT32, since=4, default=-1, ignorable=True)
    timestamp: int = wire(INT64)


@message()
class ListOffsetsTopic(Message):
    """Partitions of one topic."""

    name: str = wire(STRING)
    partitions: tuple[ListOffsetsPartition, ...] = wire(Array(ListOffsetsPartition))


@message(flexible_since=6)
class ListOffsetsRequest(Message):
    """ListOffsets request; `replica_id` is -1 for a consumer."""

    replica_id: int = wire(INT32)
    isolation_level: int = wire(INT8, since=2, default=0)
    topics: tuple[ListOffsetsTopic, ...] = wire(Array(ListOffsetsTopic))
    timeout_ms: int = wire(INT32, since=10, default=0, ignorable=True)


@message()
class ListOffsetsPartitionResponse(Message):
    """Result for one partition; offset -1: there is no such record."""

    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    timestamp: int = wire(INT64, since=1, default=-1)
    offset: int = wire(INT64, since=1, default=-1)
    leader_epoch: int = wire(INT32, since=4, default=-1, ignorable=True)


@message()
class ListOffsetsTopicResponse(Message):
    """Results for one topic."""

    name: str = wire(STRING)
    partitions: tuple[ListOffsetsPartitionResponse, ...] = wire(Array(ListOffsetsPartitionResponse))


@message(flexible_since=6)
class ListOffsetsResponse(Message):
    """ListOffsets response."""

    throttle_time_ms: int = wire(INT32, since=2, default=0, ignorable=True)
    topics: tuple[ListOffsetsTopicResponse, ...] = wire(Array(ListOffsetsTopicResponse))


LIST_OFFSETS = Api(2, ListOffsetsRequest, ListOffsetsResponse, 1, 11)
