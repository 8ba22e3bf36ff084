"""Reduces a span of a segment, or a snapshot file, to its effect on any state.

Reads up to the first damage or the end of the wanted period. Runs wherever the file is readable and reads nothing
outside of the span. Errors have an offset, so that the first one of all spans can be reported.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from quorum_node.records.batches import Batch, CorruptBatch, decode_records
from quorum_node.records.metadata_batch import decode_batch
from quorum_node.schema.primitives import MalformedRecord
from quorum_pipeline.deltas.contradiction import Contradiction, first_of
from quorum_pipeline.deltas.span import Span
from quorum_pipeline.deltas.summary import Summary
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.log_directory import LogSpan
from quorum_pipeline.files.log_span import Damage, PlacedBatch, read_span
from quorum_pipeline.files.snapshot_file import DamagedSnapshot, SnapshotFile

if TYPE_CHECKING:
    from quorum_pipeline.rows.runs import BatchRun
    from quorum_pipeline.state.compiled_span import CompiledSpan

Reduced = tuple[Span, Summary]
WORTH_BYTES = 4 << 20
"""A shorter span is reduced before compiled loops are loaded."""
BLOCK_RECORDS, BLOCK_BYTES = 250_000, 32 << 20
"""Maximum records and bytes that are combined at once."""
BEFORE_THE_LOG = -(1 << 62)
"""Added to the offsets of a snapshot, because its records precede every record of the log."""


class Batches(Protocol):
    """Receives the metadata of a span."""

    def add(self, batch: Batch, begin: int, end: int) -> Contradiction | None:
        """Add the records of a batch from `begin` on and below `end`. Returns a contradiction in this or an earlier batch, if
        one was detected.
        """


@dataclass(frozen=True, slots=True)
class SpanTask:
    """The records of a span from `start_offset` on and below `end_offset`, up to the first one later than `time_ms`."""

    span: LogSpan
    start_offset: int
    end_offset: int
    time_ms: int | None = None

    @property
    def size_bytes(self) -> int:
        """Size of the span."""
        return self.span.end_position - self.span.position

    def pieces(self) -> "Iterator[PlacedBatch | Damage]":
        """Read the span batch by batch. Raises OSError."""
        return read_span(self.span)

    def runs(self) -> "Iterator[BatchRun | PlacedBatch | Damage]":
        """Read the span with as many batches at a time as possible. Raises OSError."""
        from quorum_pipeline.files.log_runs import read_runs

        return read_runs(self.span, self.start_offset, self.end_offset)

    def reduced(self) -> Reduced:
        """Reduce the span. Raises OSError."""
        found, at = Span(), Summary(self.start_offset, self.start_offset)
        pending = _Pending(found, compiled=self.size_bytes >= WORTH_BYTES)
        for each in self.pieces():
            at = self.read(each, at, pending)
            if at.stop or at.end_offset >= self.end_offset:
                break
        wrong = pending.reduce() or found.malformed
        if wrong is not None:
            at = replace(at, stop=True, wrong=first_of(wrong, at.wrong))
        found.stopped = at.stop
        return found, at

    def compacted(self) -> "tuple[CompiledSpan, Summary]":
        """Reduce the span with compiled loops. Raises Unsupported, OSError."""
        from quorum_pipeline.files.compacted_span import compacted_task

        return compacted_task(self)

    def read(self, each: PlacedBatch | Damage, at: Summary, pending: "Batches") -> Summary:
        """Add one more piece of the span."""
        if isinstance(each, Damage):
            wrong = Contradiction(max(each.offset, self.start_offset), str(each))
            return at if each.offset >= self.end_offset else replace(at, stop=True, wrong=wrong)
        header = each.batch.header
        if header.end_offset <= self.start_offset:
            return at
        end = min(header.end_offset, self.end_offset)
        begin = max(header.base_offset, self.start_offset)
        is_late = self.time_ms is not None and header.max_timestamp_ms > self.time_ms
        time_ms = latest_ms = header.max_timestamp_ms
        if is_late or end < header.end_offset:
            try:
                end, time_ms, latest_ms = self._within(each.batch, end)
            except CorruptBatch as error:
                return replace(at, stop=True, wrong=Contradiction(begin, str(error)))
        if end <= begin:
            return replace(at, stop=True)
        if begin != at.end_offset:
            reason = f"offset {begin} where {at.end_offset} is expected: records are missing or duplicated"
            return replace(at, stop=True, wrong=Contradiction(at.end_offset, reason))
        try:
            if header.is_control:
                at = _control(at, each.batch, begin, end)
            elif bad := pending.add(each.batch, begin, end):
                return replace(at, stop=True, wrong=bad)
        except (CorruptBatch, MalformedRecord) as error:
            return replace(at, stop=True, wrong=Contradiction(begin, str(error)))
        return replace(
            at,
            end_offset=end,
            epoch=header.leader_epoch,
            timestamp_ms=time_ms,
            latest_ms=max(at.latest_ms, latest_ms),
            records=at.records + end - begin,
            size_bytes=at.size_bytes + header.size_bytes,
            stop=is_late,
        )

    def _within(self, batch: Batch, end: int) -> tuple[int, int, int]:
        """Return the end of the wanted records of a batch that is wanted in part, the time of the last one, and the greatest time.
        Raises CorruptBatch.
        """
        time_ms = latest_ms = 0
        for each in decode_records(batch):
            is_late = self.time_ms is not None and each.timestamp_ms > self.time_ms
            if each.offset >= end or is_late:
                return min(each.offset, end), time_ms, latest_ms
            time_ms = each.timestamp_ms
            latest_ms = max(latest_ms, time_ms)
        return end, time_ms, latest_ms


class _Pending:
    """Batches of metadata that are not reduced yet, to reduce many together with compiled loops."""

    def __init__(self, found: Span, *, compiled: bool) -> None:
        self._found = found
        self._compiled = compiled
        self._batches: list[Batch] = []
        self._count = self._size_bytes = 0

    def add(self, batch: Batch, begin: int, end: int) -> Contradiction | None:
        """See `Batches`."""
        header = batch.header
        if self._compiled and (begin, end) == (header.base_offset, header.end_offset):
            self._batches.append(batch)
            self._count += header.record_count
            self._size_bytes += header.size_bytes
            many = self._count >= BLOCK_RECORDS or self._size_bytes >= BLOCK_BYTES
            return self.reduce() if many else None
        return self.reduce() or _metadata(self._found, batch, begin, end)

    def reduce(self) -> Contradiction | None:
        """Reduce all pending batches. Returns the first contradiction."""
        batches, count = self._batches, self._count
        self._batches, self._count, self._size_bytes = [], 0, 0
        if not batches or self._found.malformed is not None:
            return None
        if not _compacted(self._found, batches, count):
            for each in batches:
                header = each.header
                wrong = _metadata(self._found, each, header.base_offset, header.end_offset)
                if wrong is not None or self._found.malformed is not None:
                    return wrong
        return None


@dataclass(frozen=True, slots=True)
class SnapshotTask:
    """A snapshot: the state before the first record of the log."""

    file: SnapshotFile

    def under(self, root: Path) -> "SnapshotTask":
        """See `fetched.ArchiveTask`."""
        return SnapshotTask(replace(self.file, path=root / self.file.path))

    def damage(self) -> tuple[int | None, str] | None:
        """Return the damage of the snapshot: the position up to which it is valid, if known, and the reason; None if it is valid. Raises OSError."""
        try:
            self.file.bounds()
        except DamagedSnapshot as error:
            return error.position, error.reason
        except PipelineError as error:
            return None, str(error)
        return None

    def begun(self) -> Summary:
        """Return the part of the summary that is not in records. Raises PipelineError on damage, OSError."""
        bounds, end = self.file.bounds(), self.file.id.end_offset
        time_ms = bounds.last_contained_log_timestamp_ms
        at = Summary(end, end, self.file.id.epoch, time_ms, latest_ms=time_ms)
        if bounds.voters is None:
            return at
        return replace(at.with_voters(bounds.voters), kraft_version=bounds.kraft_version)

    def compacted(self) -> "tuple[CompiledSpan, Summary]":
        """Reduce the snapshot with compiled loops. Raises Unsupported, PipelineError, OSError."""
        from quorum_pipeline.files.compacted_span import compacted_task

        return compacted_task(self)

    def reduced(self) -> Reduced:
        """Reduce the snapshot. Raises PipelineError on damage, OSError."""
        found, at = Span(), self.begun()
        for _, batch in self.file.batches():
            if batch.header.is_control:
                continue
            for record in decode_records(batch):
                if not found.value(BEFORE_THE_LOG + record.offset, record.value or b""):
                    return found, replace(at, stop=True, wrong=found.malformed)
            at = replace(at, records=at.records + batch.header.record_count)
        return found, at


Task = SpanTask | SnapshotTask


def _control(at: Summary, batch: Batch, begin: int, end: int) -> Summary:
    for record in decode_records(batch):
        if begin <= record.offset < end:
            at = at.control(record, batch.header.leader_epoch)
    return at


def _compacted(found: Span, batches: list[Batch], count: int) -> bool:
    """Reduce batches with compiled loops. False, with `found` unchanged, if a record is not supported."""
    from quorum_pipeline.canonical_encoding import Unsupported
    from quorum_pipeline.compaction.record_run import run_of_batches
    from quorum_pipeline.state.compacted import compacted

    offset = batches[0].header.base_offset
    try:
        left = compacted(run_of_batches(bytearray().join(each.data for each in batches), count))
    except Unsupported:
        return False
    for index, each in left:
        if not isinstance(each, bytes):
            found.change(offset + index, *each)
        elif not found.value(offset + index, each):
            break
    return True


def _metadata(found: Span, batch: Batch, begin: int, end: int) -> Contradiction | None:
    """Reduce a batch record by record. Returns a contradiction in it, if any."""
    header = batch.header
    try:
        if (begin, end) == (header.base_offset, header.end_offset):
            try:
                records = decode_batch(batch)
            except MalformedRecord:
                records = []  # decode record by record, to find the invalid one
            if len(records) == header.record_count:
                for offset, record in enumerate(records, begin):
                    found.replay(offset, record)
                return None
        for offset, value in _values(batch):
            if begin <= offset < end and not found.value(offset, value):
                break
    except CorruptBatch as error:
        return Contradiction(header.base_offset, str(error))
    return None


def _values(batch: Batch) -> Iterator[tuple[int, bytes]]:
    """Yield offset and value of each record; nulls are left out."""
    for each in decode_records(batch):
        if each.value is not None:
            yield each.offset, each.value
