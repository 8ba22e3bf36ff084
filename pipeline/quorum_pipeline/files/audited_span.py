"""A span of a segment for an audit: digests of its batches by block, damage, and decreasing epochs.

Every checksum is verified, no record is decoded. Runs wherever the file is readable, with memory independent of the
size of the span. Different blocks are read again from their first byte.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from quorum_pipeline.audit.digests import (
    AFTER,
    BASE,
    BATCH_COLUMNS,
    CRC,
    END,
    EPOCH,
    NO_BATCHES,
    NO_BLOCKS,
    POSITION,
    Table,
    blocks_of,
    joined,
)
from quorum_pipeline.audit.log_matching import BatchFingerprint
from quorum_pipeline.files.log_directory import LogSpan
from quorum_pipeline.files.log_span import Damage, PlacedBatch, read_span
from quorum_pipeline.files.reduced_span import WORTH_BYTES

MAX_LISTED = 100
"""Maximum number of damaged places, or of decreasing epochs, listed for one task; the others are only counted."""
_AT_ONCE = 10_000
_NO_END = (1 << 63) - 1


@dataclass(slots=True)
class Audited:
    """Result of a task. `unread`: ranges that can't be read; an end of None: up to the first batch of a later task.

    `first`: the first batch. `last_epoch`: epoch of the last batch. `place`: the file that was read.
    """

    place: str
    blocks: Table = field(default_factory=NO_BLOCKS.copy)
    batches: int = 0
    size_bytes: int = 0
    first: BatchFingerprint | None = None
    last_epoch: int = 0
    end_offset: int | None = None
    damages: list[tuple[int | None, int, str]] = field(default_factory=list)
    unread: list[tuple[int, int | None]] = field(default_factory=list)
    backs: list[tuple[BatchFingerprint, int]] = field(default_factory=list)
    more: int = 0

    def damaged(self, position: int | None, offset: int, reason: str) -> None:
        """Record damage from this offset to the next batch."""
        if len(self.damages) >= MAX_LISTED:
            self.more += 1
            return
        self.damages.append((position, offset, reason))
        self.unread.append((offset, None))

    def add(self, batches: Table, *, placed: bool = True) -> None:
        """Add batches in order. `placed`: whether their positions in the file are known."""
        if not len(batches):
            return
        if self.first is None:
            self.first = fingerprint_of(self.place, batches[0], placed=placed)
            self.last_epoch = self.first.epoch
        self.unread = [
            (start, _until(batches, start) if end is None else end) for start, end in self.unread
        ]
        before = np.concatenate([[self.last_epoch], batches[:-1, EPOCH]])
        for row in np.flatnonzero(batches[:, EPOCH] < before).tolist():
            if len(self.backs) < MAX_LISTED:
                batch = fingerprint_of(self.place, batches[row], placed=placed)
                self.backs.append((batch, int(before[row])))
        self.last_epoch, self.end_offset = int(batches[-1, EPOCH]), int(batches[-1, END])
        self.batches += len(batches)
        self.size_bytes += int((batches[:, AFTER] - batches[:, POSITION]).sum())
        self.blocks = joined([self.blocks, blocks_of(batches)])


@dataclass(frozen=True, slots=True)
class AuditSpan:
    """An audit of a span."""

    span: LogSpan

    def audited(self) -> Audited:
        """Audit the span. Raises OSError."""
        found = Audited(Path(self.span.path).name)
        for each in self._read():
            if isinstance(each, Damage):
                found.damaged(each.position, each.offset, each.reason)
            else:
                found.add(each)
        return found

    def block(self, begin: int, finish: int, offset: int) -> Table:
        """Return the batches of complete batches between two positions of the file. Raises OSError."""
        span = LogSpan(self.span.path, begin, finish, offset, None, is_last=True)
        found = [each for each in _batches(read_span(span)) if not isinstance(each, Damage)]
        return np.concatenate([NO_BATCHES, *found])

    def _read(self) -> Iterator[Table | Damage]:
        if self.span.end_position - self.span.position < WORTH_BYTES:
            return _batches(read_span(self.span))
        return _batches_of_runs(self.span)


def _until(batches: Table, start: int) -> int | None:
    """Return the base offset of the first batch from `start` on; None if there is none."""
    row = int(np.searchsorted(batches[:, BASE], start))
    return int(batches[row, BASE]) if row < len(batches) else None


def fingerprint_of(place: str, row: Table, *, placed: bool = True) -> BatchFingerprint:
    """Convert a row of a table of batches."""
    base, end, epoch, crc, position, _ = row.tolist()
    return BatchFingerprint(base, end, epoch, crc, place, position if placed else None)


def _batches(found: Iterable[PlacedBatch | Damage]) -> Iterator[Table | Damage]:
    """Yield tables of batches, with damage at its place in the order."""
    rows: list[tuple[int, ...]] = []
    for each in found:
        if isinstance(each, Damage):
            yield _table(rows)
            rows = []
            yield each
            continue
        header, begin = each.batch.header, each.position
        rows.append(
            (
                *(header.base_offset, header.end_offset, header.leader_epoch, header.crc),
                *(begin, begin + header.size_bytes),
            )
        )
        if len(rows) >= _AT_ONCE:
            yield _table(rows)
            rows = []
    yield _table(rows)


def _table(rows: list[tuple[int, ...]]) -> Table:
    return np.array(rows, np.int64).reshape(len(rows), len(BATCH_COLUMNS))


def _batches_of_runs(span: LogSpan) -> Iterator[Table | Damage]:
    from quorum_pipeline.files.log_runs import read_runs
    from quorum_pipeline.rows import loops
    from quorum_pipeline.rows.runs import BatchRun

    for each in read_runs(span, 0, _NO_END):
        if not isinstance(each, BatchRun):
            yield from _batches([each])
            continue
        found = np.empty((len(each), len(BATCH_COLUMNS)), np.int64)
        found[:, BASE] = each.headers[:, loops.BASE_OFFSET]
        found[:, END] = found[:, BASE] + each.headers[:, loops.COUNT]
        found[:, EPOCH] = each.headers[:, loops.EPOCH]
        found[:, CRC] = each.headers[:, loops.CRC]
        found[:, POSITION] = each.positions
        found[:, AFTER] = each.positions + np.diff(each.borders)
        yield found
