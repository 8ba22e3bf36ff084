"""Reduces a span of the log to its remaining records, by compiled loops; like `deltas.span` without an object per record.
PURE.

Owns which records take effect: those before the first transaction boundary (HEAD) may be deferred or aborted by an
earlier transaction; BODY takes effect; TAIL is deferred by a transaction open at the end. `counted` decides for all
spans together. Unsupported or possibly malformed records raise Unsupported. Source: KIP-868.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from quorum_node.records import metadata as md
from quorum_node.schema.primitives import MalformedRecord
from quorum_pipeline.canonical_encoding import Unsupported
from quorum_pipeline.compaction.internal_records import COMBINED_CHANGE, LEFT_OUT_NAME
from quorum_pipeline.compaction.offset_runs import NO_RECORDS, OffsetRun, compacted
from quorum_pipeline.compaction.record_run import BOUNDARY_KINDS, RecordRun, decoded
from quorum_pipeline.compiled import Bytes, Numbers
from quorum_pipeline.deltas.pieces import BODY, HEAD, PIECES, TAIL
from quorum_pipeline.deltas.span import Boundary

_DROPPED, _HELD = 3, 4
_BLOCK_RECORDS, _BLOCK_BYTES, _BLOCK_TIMES_LEFT = 250_000, 32 << 20, 2
"""Waiting records are combined at _BLOCK_BYTES, or at _BLOCK_RECORDS but not fewer than _BLOCK_TIMES_LEFT times the remaining
records, which are processed again.
"""
_BEGIN, _END = md.BeginTransactionRecord.RECORD_TYPE, md.EndTransactionRecord.RECORD_TYPE


@dataclass(slots=True)
class _Growing:
    left: OffsetRun = NO_RECORDS
    waiting: list[OffsetRun] = field(default_factory=list)
    count: int = 0
    size_bytes: int = 0

    def add(self, records: OffsetRun) -> None:
        if not len(records):
            return
        self.waiting.append(records)
        self.count += len(records)
        self.size_bytes += len(records.run.data)
        if self.size_bytes >= _BLOCK_BYTES or self.count >= max(
            _BLOCK_RECORDS, _BLOCK_TIMES_LEFT * len(self.left)
        ):
            self.compact()

    def compact(self) -> OffsetRun:
        if self.waiting:
            self.left = compacted([self.left, *self.waiting])
            self.waiting, self.count, self.size_bytes = [], 0, 0
        return self.left


@dataclass(slots=True)
class CompiledSpan:
    """Reads records in order. Every method may raise Unsupported."""

    boundary: Boundary | None = None
    is_open: bool = False
    """Whether a transaction that began in this span is open at its end."""
    _pieces: list[_Growing] = field(default_factory=lambda: [_Growing() for _ in PIECES])

    def add(self, run: RecordRun, offsets: Numbers) -> None:
        """Read the next records."""
        records = OffsetRun(run, offsets)
        boundaries = np.flatnonzero(np.isin(run.kinds, BOUNDARY_KINDS)).tolist()
        if not boundaries:
            self._pieces[self._current()].add(records)
            return
        route = np.empty(len(run), np.uint8)
        begin = 0
        for index in boundaries:
            route[begin:index] = _HELD if self.is_open else self._current()
            self._pass(records, route, index)
            route[index] = _DROPPED
            begin = index + 1
        route[begin:] = _HELD if self.is_open else self._current()
        route[route == _HELD] = TAIL
        for piece in PIECES:
            self._pieces[piece].add(records.some(np.flatnonzero(route == piece)))

    def pieces(self) -> Iterator[tuple[int, OffsetRun]]:
        """Yield the remaining records of each piece. Records that can't be decoded raise Unsupported, here or when they are merged."""
        for piece in PIECES:
            left = self._pieces[piece].compact()
            _check(left.others())
            if len(left):
                yield piece, left

    def _current(self) -> int:
        if self.boundary is None:
            return HEAD
        return TAIL if self.is_open else BODY

    def _pass(self, records: OffsetRun, route: Bytes, index: int) -> None:
        kind = int(records.run.kinds[index])
        _check(records.some(slice(index, index + 1)))
        held = np.flatnonzero(route[:index] == _HELD)
        if self.boundary is None:
            self.boundary = Boundary(int(records.offsets[index]), kind == _END)
        elif self.is_open:
            before = self._pieces[TAIL].compact()
            if kind == _END:
                self._pieces[BODY].add(before)
                route[held] = BODY
            else:
                check_aborted(before)
                _check(records.some(held))
                route[held] = _DROPPED
            self._pieces[TAIL] = _Growing()
        self.is_open = kind == _BEGIN


def check_aborted(records: OffsetRun) -> None:
    """Raise Unsupported if a remaining record of an aborted transaction can't be decoded: a node decodes it, too."""
    _check(
        records.some(np.flatnonzero(~np.isin(records.run.kinds, (COMBINED_CHANGE, LEFT_OUT_NAME))))
    )


def _check(records: OffsetRun) -> None:
    """Raise Unsupported if a record can't be decoded."""
    try:
        decoded(records.run)
    except MalformedRecord:
        raise Unsupported from None
