"""DeleteRecords: delete records before an offset (KIP-107; as shipped in 4.3, versions 0-2)."""

from quorum_node.protocol.api import Api
from quorum_node.schema.schema import INT16, INT32, INT64, STRING, Array, Message, message, wire

TO_HIGH_WATERMARK = -1


@message()
class DeleteRecordsPartition(Message):
    """`offset`: the first one to keep; TO_HIGH_WATERMARK deletes everything that is committed."""

    partition_index: int = wire(INT32)
    offset: int = wire(INT64)


@message()
class DeleteRecordsTopic(Message):
    """Partitions of one topic."""

    name: str = wire(STRING)
    partitions: tuple[DeleteRecordsPartition, ...] = wire(Array(DeleteRecordsPartition))


@message(flexible_since=2)
class DeleteRecordsRequest(Message):
    """DeleteRecords request."""

    topics: tuple[DeleteRecordsTopic, ...] = wire(Array(DeleteRecordsTopic))
    timeout_ms: int = wire(INT32)


@message()
class DeleteRecordsPartitionResult(Message):
    """`low_watermark`: lowest start offset of the live replicas' logs; -1 with an error."""

    partition_index: int = wire(INT32)
    low_watermark: int = wire(INT64)
    error_code: int = wire(INT16)


@message()
class DeleteRecordsTopicResult(Message):
    """Results for one topic."""

    name: str = wire(STRING)
    partitions: tuple[DeleteRecordsPartitionResult, ...] = wire(Array(DeleteRecordsPartitionResult))


@message(flexible_since=2)
class DeleteRecordsResponse(Message):
    """DeleteRecords response."""

    throttle_time_ms: int = wire(INT32, default=0)
    topics: tuple[DeleteRecordsTopicResult, ...] = wire(Array(DeleteRecordsTopicResult))


DELETE_RECORDS = Api(21, DeleteRecordsRequest, DeleteRecordsResponse, 0, 2)
