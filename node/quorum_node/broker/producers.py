"""State of idempotent producers: recognizes duplicates, refuses gaps. PURE.

Owns the state per producer id and its snapshot. Must not know where batches are stored. Leader and followers build
the same state from the same batches, so a retry is recognized after a leader change as well.
Source: KIP-98, "Idempotent Producer Guarantees"; KIP-185; the rules of a stock broker's producer state manager.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from quorum_node.broker.batch import NO_PRODUCER, SEQUENCES, Batch, Marker
from quorum_node.broker.errors import BrokerError

NO_TRANSACTION = -1
NO_GUARD = 0
_STRICT_EPOCHS_SINCE = 2
"""Transaction version in which each transaction ends with its own epoch (KIP-890)."""
_LAST_EPOCH = 32_767
KEPT_BATCHES = 5
"""A producer has at most five requests in flight."""


@dataclass(frozen=True, slots=True)
class SequencedBatch:
    """Position of a producer's batch."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class ProducerEntry:
    """The newest batches of one producer, oldest first; none in an epoch that started with a marker.

    `transaction_start`: first offset of its open transaction; `coordinator_epoch`: of the last marker.
    """

    producer_id: int
    producer_epoch: int
    batches: tuple[SequencedBatch, ...]
    timestamp_ms: int
    transaction_start: int = NO_TRANSACTION
    coordinator_epoch: int = -1


@dataclass(frozen=True, slots=True)
class _Guard:
    """`lowest_sequence`: of the batches of `producer_epoch` that were or are being verified. `adds`: see `guard`."""

    number: int
    producer_epoch: int
    lowest_sequence: int
    adds: bool
    since_ms: int


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The same batch is in the log already."""

    base_offset: int
    end_offset: int


class ProducerStates:
    """Producer id → its newest batches."""

    __slots__ = ("_entries", "_guards", "next_guard")

    def __init__(
        self, entries: Iterable[ProducerEntry] = (), before: "ProducerStates | None" = None
    ) -> None:
        """`before`: the state that this one replaces. Its guards are not valid any more."""
        self._entries = {each.producer_id: each for each in entries}
        self._guards: dict[int, _Guard] = {}
        self.next_guard: int = NO_GUARD + 1 if before is None else before.next_guard

    def snapshot(self) -> tuple[ProducerEntry, ...]:
        """The whole state, to be stored."""
        return tuple(self._entries.values())

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether the producer has an open transaction in this epoch with records in this partition.

        A transaction of an older epoch has ended, even if its marker is still missing here: a batch of the present epoch
        does not belong to it (KIP-890).
        """
        entry = self._entries.get(producer_id)
        is_open = entry is not None and entry.transaction_start != NO_TRANSACTION
        return is_open and entry is not None and entry.producer_epoch == producer_epoch

    def guard(self, batch: Batch, now_ms: int, *, adds: bool) -> int:
        """A guard for the first batch of a transaction, while the coordinator verifies it.

        A marker that arrives meanwhile invalidates it: the transaction has ended before the batch is appended
        (KIP-890). Of several batches that are verified at once, the one with the lowest sequence number is appended
        first. Otherwise it would be missing if its verification fails temporarily. `adds`: each transaction begins with
        a new epoch, so the first batch of an unknown producer has sequence number 0. `now_ms`: time of day.
        """
        known = self._guards.get(batch.producer_id)
        lowest = batch.base_sequence
        if known is None:
            number, self.next_guard = self.next_guard, self.next_guard + 1
        else:
            number = known.number
            if batch.producer_epoch < known.producer_epoch:
                return number
            if batch.producer_epoch == known.producer_epoch:
                lowest = min(lowest, known.lowest_sequence)
        self._guards[batch.producer_id] = _Guard(number, batch.producer_epoch, lowest, adds, now_ms)
        return number

    def check(self, batch: Batch, guard: int = NO_GUARD) -> Duplicate | BrokerError:
        """Whether a leader may append `batch`: NONE, the error, or the position of a duplicate."""
        if batch.marker is not None:
            return self._check_marker(batch, batch.marker)
        checked = self._check_sequence(batch)
        if checked is not BrokerError.NONE or batch.producer_id == NO_PRODUCER:
            return checked
        entry = self._entries.get(batch.producer_id)
        if not batch.is_transactional:
            is_open = entry is not None and entry.transaction_start != NO_TRANSACTION
            return BrokerError.INVALID_TXN_STATE if is_open else BrokerError.NONE
        if self.has_open_transaction(batch.producer_id, batch.producer_epoch):
            return BrokerError.NONE
        known = self._guards.get(batch.producer_id)
        if known is None or guard != known.number:
            return BrokerError.INVALID_TXN_STATE
        is_too_late = batch.base_sequence > known.lowest_sequence
        return _in_order(
            not is_too_late and not (known.adds and entry is None and batch.base_sequence)
        )

    def _check_marker(self, batch: Batch, marker: Marker) -> BrokerError:
        entry = self._entries.get(batch.producer_id)
        if entry is None:
            return BrokerError.NONE
        is_strict = marker.transaction_version >= _STRICT_EPOCHS_SINCE
        is_same = is_strict and batch.producer_epoch == entry.producer_epoch
        if batch.producer_epoch < entry.producer_epoch:
            return BrokerError.INVALID_PRODUCER_EPOCH
        # Without an open transaction it is sent again. The last epoch has no successor that could end its transaction.
        is_open = entry.transaction_start != NO_TRANSACTION
        if is_same and is_open and batch.producer_epoch < _LAST_EPOCH:
            return BrokerError.INVALID_PRODUCER_EPOCH
        if marker.coordinator_epoch < entry.coordinator_epoch:
            return BrokerError.TRANSACTION_COORDINATOR_FENCED
        return BrokerError.NONE

    def _check_sequence(self, batch: Batch) -> Duplicate | BrokerError:
        entry = self._entries.get(batch.producer_id)
        if batch.producer_id == NO_PRODUCER or entry is None:
            return BrokerError.NONE
        if batch.producer_epoch < entry.producer_epoch:
            return BrokerError.INVALID_PRODUCER_EPOCH
        if batch.producer_epoch > entry.producer_epoch:
            return _in_order(batch.base_sequence == 0)
        for kept in entry.batches:
            if (kept.base_sequence, kept.last_sequence) == (
                batch.base_sequence,
                batch.last_sequence,
            ):
                return Duplicate(kept.base_offset, kept.end_offset)
        if not entry.batches:
            return _in_order(batch.base_sequence == 0)
        return _in_order(batch.base_sequence == (entry.batches[-1].last_sequence + 1) % SEQUENCES)

    def append(self, batch: Batch) -> None:
        """`batch` was appended to the log."""
        is_empty_marker = batch.marker is not None and batch.marker.coordinator_epoch < 0
        if batch.producer_id == NO_PRODUCER or is_empty_marker:
            return
        entry = self._entries.get(batch.producer_id)
        same = entry is not None and entry.producer_epoch == batch.producer_epoch
        kept = entry.batches if entry is not None and same else ()
        coordinator_epoch = -1 if entry is None else entry.coordinator_epoch
        start = NO_TRANSACTION if entry is None else entry.transaction_start
        if batch.marker is not None:
            self._guards.pop(batch.producer_id, None)
            coordinator_epoch, start = batch.marker.coordinator_epoch, NO_TRANSACTION
        else:
            place = SequencedBatch(
                batch.base_sequence, batch.last_sequence, batch.base_offset, batch.end_offset
            )
            kept = (*kept[1 - KEPT_BATCHES :], place)
            if batch.is_transactional:
                self._guards.pop(batch.producer_id, None)
                start = batch.base_offset if start == NO_TRANSACTION else start
        self._entries[batch.producer_id] = ProducerEntry(
            batch.producer_id,
            batch.producer_epoch,
            kept,
            batch.max_timestamp_ms,
            start,
            coordinator_epoch,
        )

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Remove producers without a batch for `expiration_ms`. `now_ms`: time of day."""
        old = [
            each.producer_id
            for each in self._entries.values()
            if now_ms - each.timestamp_ms >= expiration_ms
            and each.transaction_start == NO_TRANSACTION
        ]
        for producer_id in old:
            del self._entries[producer_id]
        self._guards = {
            producer_id: each
            for producer_id, each in self._guards.items()
            if now_ms - each.since_ms < expiration_ms
        }


def _in_order(is_next: bool) -> BrokerError:
    return BrokerError.NONE if is_next else BrokerError.OUT_OF_ORDER_SEQUENCE_NUMBER
