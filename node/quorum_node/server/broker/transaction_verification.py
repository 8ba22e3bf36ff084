"""Asks the transaction coordinator, before the first batch of a transaction is appended, whether the partition is part of it.

Owns the request, and the translation of its answer for the producer. Without the check, a transaction could stay open here forever, or its
marker could be written before the batch. Source: KIP-890; the rules of a stock broker's AddPartitionsToTxnManager.
"""

from collections.abc import Callable

from quorum_node.broker.batch import Batch
from quorum_node.protocol.add_partitions_to_txn import (
    AddedTopic,
    AddedTransaction,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from quorum_node.protocol.broker_apis import ADD_PARTITIONS_TO_TXN
from quorum_node.protocol.errors import ErrorCode
from quorum_node.raft.events import FailureReason
from quorum_node.schema.schema import Message
from quorum_node.server.broker.transaction_coordinators import TransactionCoordinators
from quorum_node.server.peers.port import Peers

_TIMEOUT_MS = 10_000
_LATER = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Errors that are replaced by NOT_ENOUGH_REPLICAS: producers retry on it, but do not expect these codes in a Produce response."""

_PRODUCER_FENCED = 90
"""The coordinator knows a newer epoch of the producer. In a Produce response, producers expect INVALID_PRODUCER_EPOCH."""
_TRANSACTION_ABORTABLE = 120
"""The partition is not part of a transaction of the producer: it has to abort, and may go on then (KIP-890, KIP-1050)."""

Verified = Callable[[int], None]
"""Called with an error code, or NONE. Codes that this broker does not know are passed on."""


class TransactionVerification:
    """The verification on one broker; allows any number of concurrent requests."""

    def __init__(self, coordinators: TransactionCoordinators, peers: Peers) -> None:
        self._coordinators = coordinators
        self._peers = peers

    def verify(
        self,
        transactional_id: str,
        batch: Batch,
        topic: str,
        partition: int,
        verified: Verified,
        *,
        adds: bool,
        knows_abortable: bool,
    ) -> None:
        """Verify the partition of a batch. `verified` is called once, possibly before this returns.

        `adds`: whether the coordinator is requested to add the partition to the transaction, on the producer's behalf.
        `knows_abortable`: whether the producer's version of Produce has TRANSACTION_ABORTABLE. Others get INVALID_TXN_STATE.
        """
        endpoint = self._coordinators.endpoint(transactional_id)
        if endpoint is None:
            # If the cluster has no coordinators, the producer could not have begun a transaction.
            missing = self._coordinators.are_missing()
            verified(ErrorCode.UNSUPPORTED_VERSION if missing else ErrorCode.NOT_ENOUGH_REPLICAS)
            return

        def answered(outcome: Message | FailureReason) -> None:
            code = _code(outcome)
            if code in _LATER or (code == ErrorCode.CONCURRENT_TRANSACTIONS and not adds):
                code = ErrorCode.NOT_ENOUGH_REPLICAS
            elif code == _PRODUCER_FENCED:
                code = ErrorCode.INVALID_PRODUCER_EPOCH
            elif code == _TRANSACTION_ABORTABLE and not knows_abortable:
                code = ErrorCode.INVALID_TXN_STATE
            verified(code)

        transaction = AddedTransaction(
            transactional_id=transactional_id,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            verify_only=not adds,
            topics=(AddedTopic(name=topic, partitions=(partition,)),),
        )
        self._peers.ask(
            endpoint,
            ADD_PARTITIONS_TO_TXN,
            AddPartitionsToTxnRequest(transactions=(transaction,)),
            answered,
            timeout_ms=_TIMEOUT_MS,
        )


def _code(outcome: Message | FailureReason) -> int:
    if not isinstance(outcome, AddPartitionsToTxnResponse):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if outcome.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        # This broker lacks the right, not the producer.
        return ErrorCode.INVALID_TXN_STATE
    if outcome.error_code:
        return outcome.error_code
    for transaction in outcome.results_by_transaction:
        for topic in transaction.topic_results:
            for each in topic.results_by_partition:
                return each.partition_error_code
    return ErrorCode.INVALID_TXN_STATE
