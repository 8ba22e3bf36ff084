"""ListTransactions: the transactions that a broker coordinates (KIP-664, KIP-994, KIP-1152; as shipped in 4.3)."""

from quorum_node.protocol.api import Api
from quorum_node.schema.schema import INT16, INT32, INT64, STRING, Array, Message, message, wire


@message(flexible_since=0)
class ListTransactionsRequest(Message):
    """ListTransactions request; an empty filter takes all, and so does a negative duration (in milliseconds)."""

    state_filters: tuple[str, ...] = wire(Array(STRING), default=())
    producer_id_filters: tuple[int, ...] = wire(Array(INT64), default=())
    duration_filter: int = wire(INT64, since=1, default=-1)
    transactional_id_pattern: str | None = wire(STRING, since=2, nullable_since=2, default=None)


@message()
class ListedTransaction(Message):
    """The transaction of one transactional id."""

    transactional_id: str = wire(STRING)
    producer_id: int = wire(INT64)
    transaction_state: str = wire(STRING)


@message(flexible_since=0)
class ListTransactionsResponse(Message):
    """ListTransactions response. `unknown_state_filters`: states in the request that do not exist."""

    throttle_time_ms: int = wire(INT32, default=0)
    error_code: int = wire(INT16, default=0)
    unknown_state_filters: tuple[str, ...] = wire(Array(STRING), default=())
    transaction_states: tuple[ListedTransaction, ...] = wire(Array(ListedTransaction), default=())


LIST_TRANSACTIONS = Api(66, ListTransactionsRequest, ListTransactionsResponse, 0, 2)
