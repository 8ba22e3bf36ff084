"""DescribeTransactions: the state of transactional ids on their coordinator (KIP-664; as shipped in 4.3, version 0)."""

from quorum_node.protocol.api import Api
from quorum_node.schema.schema import INT16, INT32, INT64, STRING, Array, Message, message, wire


@message(flexible_since=0)
class DescribeTransactionsRequest(Message):
    """DescribeTransactions request."""

    transactional_ids: tuple[str, ...] = wire(Array(STRING))


@message()
class TransactionTopic(Message):
    """Partitions of one topic in a transaction."""

    topic: str = wire(STRING)
    partitions: tuple[int, ...] = wire(Array(INT32))


@message()
class DescribedTransaction(Message):
    """State of one transactional id. With an error all but the id is empty."""

    error_code: int = wire(INT16)
    transactional_id: str = wire(STRING)
    transaction_state: str = wire(STRING, default="")
    transaction_timeout_ms: int = wire(INT32, default=0)
    transaction_start_time_ms: int = wire(INT64, default=0)
    producer_id: int = wire(INT64, default=0)
    producer_epoch: int = wire(INT16, default=0)
    topics: tuple[TransactionTopic, ...] = wire(Array(TransactionTopic), default=())


@message(flexible_since=0)
class DescribeTransactionsResponse(Message):
    """DescribeTransactions response."""

    throttle_time_ms: int = wire(INT32, default=0)
    transaction_states: tuple[DescribedTransaction, ...] = wire(Array(DescribedTransaction))


DESCRIBE_TRANSACTIONS = Api(65, DescribeTransactionsRequest, DescribeTransactionsResponse, 0, 0)
