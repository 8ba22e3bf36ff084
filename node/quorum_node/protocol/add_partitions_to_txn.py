"""AddPartitionsToTxn, as sent by a partition leader to a transaction coordinator (KIP-890; versions 4-5)."""

from quorum_node.protocol.api import Api
from quorum_node.schema.schema import (
    BOOL,
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
class AddedTopic(Message):
    """Partitions of a topic."""

    name: str = wire(STRING)
    partitions: tuple[int, ...] = wire(Array(INT32))


@message()
class AddedTransaction(Message):
    """A producer and its partitions.

    `verify_only`: check whether they are part of its transaction, do not add them.
    """

    transactional_id: str = wire(STRING)
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    verify_only: bool = wire(BOOL, default=False)
    topics: tuple[AddedTopic, ...] = wire(Array(AddedTopic))


@message(flexible_since=3)
class AddPartitionsToTxnRequest(Message):
    """AddPartitionsToTxn request."""

    transactions: tuple[AddedTransaction, ...] = wire(Array(AddedTransaction))


@message()
class AddedPartitionResult(Message):
    """Result for one partition."""

    partition_index: int = wire(INT32)
    partition_error_code: int = wire(INT16)


@message()
class AddedTopicResult(Message):
    """Results for one topic."""

    name: str = wire(STRING)
    results_by_partition: tuple[AddedPartitionResult, ...] = wire(Array(AddedPartitionResult))


@message()
class AddedTransactionResult(Message):
    """Results for one producer."""

    transactional_id: str = wire(STRING)
    topic_results: tuple[AddedTopicResult, ...] = wire(Array(AddedTopicResult))


@message(flexible_since=3)
class AddPartitionsToTxnResponse(Message):
    """AddPartitionsToTxn response."""

    throttle_time_ms: int = wire(INT32, default=0)
    error_code: int = wire(INT16, ignorable=True)
    results_by_transaction: tuple[AddedTransactionResult, ...] = wire(Array(AddedTransactionResult))


ADD_PARTITIONS_TO_TXN = Api(24, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, 4, 5)
