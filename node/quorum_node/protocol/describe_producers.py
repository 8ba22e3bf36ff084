"""DescribeProducers: state of the producers of partitions (KIP-664; as shipped in 4.3, version 0)."""

from quorum_node.protocol.api import Api
from quorum_node.schema.schema import INT16, INT32, INT64, STRING, Array, Message, message, wire

UNKNOWN = -1


@message()
class DescribeProducersTopic(Message):
    """Partitions of one topic."""

    name: str = wire(STRING)
    partition_indexes: tuple[int, ...] = wire(Array(INT32))


@message(flexible_since=0)
class DescribeProducersRequest(Message):
    """DescribeProducers request."""

    topics: tuple[DescribeProducersTopic, ...] = wire(Array(DescribeProducersTopic))


@message()
class DescribedProducer(Message):
    """State of one producer in a partition.

    `last_timestamp`: of its last batch or marker, in milliseconds since the epoch; `coordinator_epoch`: of the last marker;
    `current_txn_start_offset`: first offset of its open transaction. Each is UNKNOWN if there is none.
    """

    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT32)
    last_sequence: int = wire(INT32, default=UNKNOWN)
    last_timestamp: int = wire(INT64, default=UNKNOWN)
    coordinator_epoch: int = wire(INT32)
    current_txn_start_offset: int = wire(INT64, default=UNKNOWN)


@message()
class DescribeProducersPartitionResult(Message):
    """Result for one partition."""

    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)
    active_producers: tuple[DescribedProducer, ...] = wire(Array(DescribedProducer), default=())


@message()
class DescribeProducersTopicResult(Message):
    """Results for one topic."""

    name: str = wire(STRING)
    partitions: tuple[DescribeProducersPartitionResult, ...] = wire(
        Array(DescribeProducersPartitionResult)
    )


@message(flexible_since=0)
class DescribeProducersResponse(Message):
    """DescribeProducers response."""

    throttle_time_ms: int = wire(INT32, default=0)
    topics: tuple[DescribeProducersTopicResult, ...] = wire(Array(DescribeProducersTopicResult))


DESCRIBE_PRODUCERS = Api(61, DescribeProducersRequest, DescribeProducersResponse, 0, 0)
