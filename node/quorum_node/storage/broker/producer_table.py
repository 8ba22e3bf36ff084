"""State of producers and their transactions, from the batches of a log.

Owns the state per producer, open transactions, and the last stable offset. Batches are not
validated here: that happened before the append. Must not know files.
Source: KIP-98; the rules of a stock broker's producer state manager (`ProducerStateEntry`,
`ProducerAppendInfo`).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import NamedTuple

from quorum_node.broker.batch import NO_PRODUCER, SEQUENCES, Marker
from quorum_node.broker.producers import KEPT_BATCHES, ProducerEntry, SequencedBatch
from quorum_node.storage.broker.transaction_index import AbortedTransaction

NO_OFFSET = -1
_GENERATIONS = count(1)


class LastBatch(NamedTuple):
    """End of a producer's last batch of records; None if only a marker is known."""

    end_offset: int | None
    producer_epoch: int


@dataclass(slots=True)
class ProducerState:
    """`batches`: the newest, oldest first. `transaction_start`: first offset of the open transaction.

    `generation`: of the table that may change it; others copy it first.
    """

    producer_id: int
    producer_epoch: int = -1
    batches: list[SequencedBatch] = field(default_factory=list)
    timestamp_ms: int = -1
    coordinator_epoch: int = -1
    transaction_start: int = NO_OFFSET
    generation: int = field(default=0, compare=False)


class ProducerTable:
    """`end_offset`: end of the last applied batch."""

    __slots__ = ("_decided", "_generation", "_open", "end_offset", "states")

    def __init__(self, end_offset: int = 0, states: Iterable[ProducerState] = ()) -> None:
        self.end_offset = end_offset
        self.states = {each.producer_id: each for each in states}
        self._open = {
            each.transaction_start: each.producer_id
            for each in sorted(self.states.values(), key=lambda each: each.transaction_start)
            if each.transaction_start != NO_OFFSET
        }
        """First offset → producer of each open transaction, ascending."""
        self._decided: dict[int, int] = {}
        """First offset → offset of the marker, of transactions whose marker may be above the high watermark."""
        self._generation = next(_GENERATIONS)

    def copied(self) -> "ProducerTable":
        """A copy of this table, which changes independently of it. They share the state of a producer until one of them changes it."""
        table = ProducerTable(self.end_offset)
        table.states = dict(self.states)
        table._open, table._decided = dict(self._open), dict(self._decided)
        self._generation = next(_GENERATIONS)
        return table

    def _to_change(self, producer_id: int) -> ProducerState:
        state, generation = self.states.get(producer_id), self._generation
        if state is None:
            state = self.states[producer_id] = ProducerState(producer_id, generation=generation)
        elif state.generation != generation:
            state = replace(state, batches=state.batches[:], generation=generation)
            self.states[producer_id] = state
        return state

    def add_batch(
        self,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        base_offset: int,
        end_offset: int,
        max_timestamp_ms: int,
        *,
        is_transactional: bool,
    ) -> None:
        """Apply a batch of records of an idempotent producer."""
        state = self._to_change(producer_id)
        if producer_epoch != state.producer_epoch:
            state.producer_epoch = producer_epoch
            state.batches.clear()
        elif len(state.batches) == KEPT_BATCHES:
            del state.batches[0]
        last_sequence = (base_sequence + end_offset - base_offset - 1) % SEQUENCES
        state.batches.append(SequencedBatch(base_sequence, last_sequence, base_offset, end_offset))
        state.timestamp_ms = max_timestamp_ms
        if is_transactional and state.transaction_start == NO_OFFSET:
            state.transaction_start = base_offset
            self._open[base_offset] = producer_id

    def add_marker(
        self, producer_id: int, producer_epoch: int, offset: int, timestamp_ms: int, marker: Marker
    ) -> AbortedTransaction | None:
        """Apply a marker; returns its entry for the transaction index, if any."""
        state = self._to_change(producer_id)
        start, state.transaction_start = state.transaction_start, NO_OFFSET
        if producer_epoch != state.producer_epoch:
            state.producer_epoch = producer_epoch
            state.batches.clear()
        state.coordinator_epoch = marker.coordinator_epoch
        state.timestamp_ms = timestamp_ms
        if start == NO_OFFSET:
            return None
        self._open.pop(start, None)
        self._decided[start] = offset
        if not marker.is_abort:
            return None
        stable = next(iter(self._open), offset + 1)
        return AbortedTransaction(producer_id, start, offset, stable)

    @property
    def first_undecided_offset(self) -> int | None:
        """Start of the oldest open transaction."""
        return next(iter(self._open), None)

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Last stable offset: end for readers with isolation level read_committed; None: no open
        transaction.

        A transaction is decided when its marker is below `high_watermark`, which never decreases.
        """
        if self._decided:
            over = [start for start, end in self._decided.items() if end < high_watermark]
            for start in over:
                del self._decided[start]
        starts = [*self._decided, *((self.first_undecided_offset,) if self._open else ())]
        return min((start for start in starts if start is not None), default=None)

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Remove producers without a batch for that time and without an open transaction."""
        old = [
            each.producer_id
            for each in self.states.values()
            if each.transaction_start == NO_OFFSET and now_ms - each.timestamp_ms >= expiration_ms
        ]
        for producer_id in old:
            del self.states[producer_id]

    def last_batches(self) -> dict[int, LastBatch]:
        """Producer → its last batch."""
        return {
            each.producer_id: LastBatch(
                each.batches[-1].end_offset if each.batches else None, each.producer_epoch
            )
            for each in self.states.values()
        }

    def entries(self) -> tuple[ProducerEntry, ...]:
        """The state in the form of the replication core."""
        return tuple(
            ProducerEntry(
                each.producer_id,
                each.producer_epoch,
                tuple(each.batches),
                each.timestamp_ms,
                each.transaction_start,
                each.coordinator_epoch,
            )
            for each in self.states.values()
            if each.producer_id != NO_PRODUCER
        )
