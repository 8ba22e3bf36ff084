"""Tracks aborted transactions and obsolete markers during compaction.

Owns the state of transactions in a pass over a log from its beginning. Source: KIP-98,
"Compaction"; the rules of a stock broker (`CleanedTransactionMetadata`).
"""

from collections.abc import Iterable

from quorum_node.broker.batch import Marker
from quorum_node.storage.broker.batch_walk import FileBatch
from quorum_node.storage.broker.transaction_index import AbortedTransaction


class TransactionTracker:
    """`remaining_aborted`: entries for the transaction index of the new segments."""

    __slots__ = ("_aborted", "_coming", "_committed", "_seen", "remaining_aborted")

    def __init__(self) -> None:
        self._coming: list[AbortedTransaction] = []
        self._aborted: dict[int, AbortedTransaction] = {}
        self._seen: set[int] = set()
        """Producers with a batch of an aborted transaction in this pass."""
        self._committed: set[int] = set()
        self.remaining_aborted: list[AbortedTransaction] = []

    def expect(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Add aborted transactions that overlap with the next segments."""
        self._coming = sorted(
            {*self._coming, *aborted}, key=lambda each: each.first_offset, reverse=True
        )

    def is_aborted(self, batch: FileBatch) -> bool:
        """Whether the records of a batch were aborted. Call it once for each batch, in order."""
        self._begin_up_to(batch.end_offset)
        if not batch.is_transactional:
            return False
        if batch.producer_id in self._aborted:
            self._seen.add(batch.producer_id)
            return True
        self._committed.add(batch.producer_id)
        return False

    def is_obsolete(self, batch: FileBatch, marker: Marker | None) -> bool:
        """Whether the transaction that this marker ended has no records left."""
        self._begin_up_to(batch.end_offset)
        producer_id = batch.producer_id
        if marker is None:
            return True
        if not marker.is_abort:
            has_records = producer_id in self._committed
            self._committed.discard(producer_id)
            return not has_records
        aborted = self._aborted.pop(producer_id, None)
        has_records = producer_id in self._seen
        self._seen.discard(producer_id)
        if aborted is None or not has_records:
            return True
        self.remaining_aborted.append(aborted)
        return False

    def _begin_up_to(self, end_offset: int) -> None:
        while self._coming and self._coming[-1].first_offset < end_offset:
            aborted = self._coming.pop()
            self._aborted.setdefault(aborted.producer_id, aborted)
