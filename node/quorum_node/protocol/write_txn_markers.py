"""WriteTxnMarkers: a transaction coordinator ends transactions in partitions (KIP-98; as shipped in 4.3, KIP-1228)."""

from quorum_node.protocol.api import Api
from quorum_node.schema.schema import (
    BOOL,
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


@message()
class MarkedTopic(Message):
    """Partitions of a topic."""

    name: str = wire(STRING)
    partition_indexes: tuple[int, ...] = wire(Array(INT32))


@message()
class TransactionMarker(Message):
    """The end of one transaction: committed, or aborted."""

    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    transaction_result: bool = wire(BOOL)
    topics: tuple[MarkedTopic, ...] = wire(Array(MarkedTopic))
    coordinator_epoch: int = wire(INT32)
    transaction_version: int = wire(INT8, since=2, default=0, ignorable=True)


@message(flexible_since=1)
class WriteTxnMarkersRequest(Message):
    """WriteTxnMarkers request."""

    markers: tuple[TransactionMarker, ...] = wire(Array(TransactionMarker))


@message()
class MarkedPartitionResult(Message):
    """Result for one partition."""

    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)


@message()
class MarkedTopicResult(Message):
    """Results for one topic."""

    name: str = wire(STRING)
    partitions: tuple[MarkedPartitionResult, ...] = wire(Array(MarkedPartitionResult))


@message()
class MarkerResult(Message):
    """Results for one transaction."""

    producer_id: int = wire(INT64)
    topics: tuple[MarkedTopicResult, ...] = wire(Array(MarkedTopicResult))


@message(flexible_since=1)
class WriteTxnMarkersResponse(Message):
    """WriteTxnMarkers response."""

    markers: tuple[MarkerResult, ...] = wire(Array(MarkerResult))


WRITE_TXN_MARKERS = Api(27, WriteTxnMarkersRequest, WriteTxnMarkersResponse, 1, 2)
