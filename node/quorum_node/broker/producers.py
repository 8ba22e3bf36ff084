"""What is known of idempotent producers: duplicates are found, gaps refused. PURE.

Owns the state per producer id and its snapshot. Must not know where batches are stored. Leader and followers build the
same state from the same batches, so a retry is recognised after a leader change too.
Source: KIP-98, "Idempotent Producer Guarantees"; KIP-185; the rules of a stock broker's producer state manager.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from quorum_node.broker.batch import NO_PRODUCER, SEQUENCES, Batch
from quorum_node.broker.errors import BrokerError

KEPT_BATCHES = 5
"""A producer has at most five requests in flight."""
EXPIRY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class SequencedBatch:
    """Where a batch of a producer lies."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class ProducerEntry:
    """The newest batches of one producer, oldest first."""

    producer_id: int
    producer_epoch: int
    batches: tuple[SequencedBatch, ...]
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The same batch is in the log already."""

    base_offset: int
    end_offset: int


class ProducerStates:
    """Producer id → its newest batches."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Iterable[ProducerEntry] = ()) -> None:
        self._entries = {each.producer_id: each for each in entries}

    def snapshot(self) -> tuple[ProducerEntry, ...]:
        """All of it, to be written down."""
        return tuple(self._entries.values())

    def check(self, batch: Batch) -> Duplicate | BrokerError:
        """Whether a leader may append `batch`: NONE, why not, or where it lies already."""
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
        return _in_order(batch.base_sequence == (entry.batches[-1].last_sequence + 1) % SEQUENCES)

    def append(self, batch: Batch) -> None:
        """`batch` is in the log, whoever checked it."""
        if batch.producer_id == NO_PRODUCER:
            return
        entry = self._entries.get(batch.producer_id)
        same = entry is not None and entry.producer_epoch == batch.producer_epoch
        kept = entry.batches[1 - KEPT_BATCHES :] if entry is not None and same else ()
        place = SequencedBatch(
            batch.base_sequence, batch.last_sequence, batch.base_offset, batch.end_offset
        )
        self._entries[batch.producer_id] = ProducerEntry(
            batch.producer_id, batch.producer_epoch, (*kept, place), batch.max_timestamp_ms
        )

    def begin_at(self, start_offset: int) -> None:
        """Records before `start_offset` are deleted; of each producer the last batch is still known."""
        for producer_id, entry in self._entries.items():
            if entry.batches[0].end_offset <= start_offset and len(entry.batches) > 1:
                later = tuple(each for each in entry.batches if each.end_offset > start_offset)
                batches = later or entry.batches[-1:]
                self._entries[producer_id] = replace(entry, batches=batches)

    def expire(self, now_ms: int) -> None:
        """Forget producers that wrote nothing for a day. `now_ms`: time of day."""
        old = [
            each.producer_id
            for each in self._entries.values()
            if now_ms - each.timestamp_ms >= EXPIRY_MS
        ]
        for producer_id in old:
            del self._entries[producer_id]


def _in_order(is_next: bool) -> BrokerError:
    return BrokerError.NONE if is_next else BrokerError.OUT_OF_ORDER_SEQUENCE_NUMBER
