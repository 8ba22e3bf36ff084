"""The effect of a span of the log on any state, including one with an open transaction. PURE.

Owns metadata transactions, as in `quorum_node.image.transactions`. It is unknown whether one is open where the span
begins, so records before the first boundary are kept separately (`head`): they take effect, are held back until that
boundary, or are aborted there. `body` takes effect; `tail` is held back by a transaction open at the end. Composition
is associative. Source: KIP-868.
"""

from dataclasses import dataclass, field

from quorum_node.image.transactions import BOUNDARIES
from quorum_node.records import metadata as md
from quorum_node.schema.primitives import MalformedRecord
from quorum_pipeline.deltas.chain import Chain
from quorum_pipeline.deltas.contradiction import Contradiction
from quorum_pipeline.deltas.delta import Delta
from quorum_pipeline.deltas.partition_change import Change


@dataclass(frozen=True, slots=True)
class Boundary:
    """The first record of a span that begins or ends a transaction. `ends`: records held back before take effect there."""

    offset: int
    ends: bool


@dataclass(slots=True)
class Span:
    """An empty one is the span of no records. `replay`, `value` and `then` change it in place."""

    head: Chain = field(default_factory=Chain)
    boundary: Boundary | None = None
    body: Chain = field(default_factory=Chain)
    tail: Chain | None = None
    malformed: Contradiction | None = None
    """The first record that can't be decoded; later records do not count."""
    stopped: bool = False
    """Whether later records do not count for another reason."""

    def value(self, offset: int, value: bytes) -> bool:
        """Add the next record, encoded. False if it can't be decoded; then no more needs to be read."""
        if self.malformed is None:
            try:
                record = md.decode_metadata(value)
            except MalformedRecord as error:
                self.malformed = Contradiction(offset, str(error))
            else:
                self.replay(offset, record)
        return self.malformed is None

    def change(self, offset: int, topic: int, partition_id: int, change: Change) -> None:
        """Add combined changes of one partition, the first at `offset`, like one record."""
        self._current().deltas[-1].replay_change(offset, topic, partition_id, change)

    def replay(self, offset: int, record: md.AnyMetadata) -> None:
        """Add the next record."""
        kind = type(record)
        if kind not in BOUNDARIES:
            self._current().replay(offset, record)
            return
        ends = kind is md.EndTransactionRecord
        if self.boundary is None:
            self.boundary = Boundary(offset, ends)
        elif ends and self.tail is not None:
            self.body.then(self.tail.reported_at(offset))
        self.tail = Chain() if kind is md.BeginTransactionRecord else None

    def then(self, other: "Span") -> "Span":
        """Append `other` in place; `other` must not be used any more."""
        if self.malformed is not None or self.stopped:
            return self
        self.malformed, self.stopped = other.malformed, other.stopped
        if other.boundary is None:
            self._current().then(other.head)
            return self
        if self.boundary is None:
            self.head.then(other.head)
            self.boundary, self.body = other.boundary, other.body
        else:
            if self.tail is None:
                self.body.then(other.head)
            elif other.boundary.ends:
                self.body.then(self.tail.then(other.head).reported_at(other.boundary.offset))
            self.body.then(other.body)
        self.tail = other.tail
        return self

    def finish(self) -> "Outcome":
        """Complete the span as the beginning of the history."""
        delta = self.head.then(self.body).finish()
        wrong = min((each for each in (delta.wrong, self.malformed) if each), default=None)
        return Outcome(delta, self.tail is not None, wrong)

    def _current(self) -> Chain:
        if self.boundary is None:
            return self.head
        return self.body if self.tail is None else self.tail


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a complete log. `in_transaction`: a transaction is open at its end. `wrong`: a contradiction, so that there is no state."""

    delta: Delta
    in_transaction: bool
    wrong: Contradiction | None
