"""Reduces a span of a segment, or a snapshot file, with compiled loops; like `reduced_span.py` without an object per
record.

Any error or unsupported record raises Unsupported: then the span is reduced record by record, which identifies the problem.
"""

from dataclasses import replace

import numpy as np

from quorum_node.records.batches import Batch, CorruptBatch, decode_records
from quorum_node.schema.primitives import MalformedRecord
from quorum_pipeline.canonical_encoding import Unsupported
from quorum_pipeline.compaction.record_run import (
    RecordRun,
    known_run,
    run_of_batches,
    run_of_values,
)
from quorum_pipeline.compiled import Numbers
from quorum_pipeline.deltas.contradiction import Contradiction
from quorum_pipeline.deltas.summary import Summary
from quorum_pipeline.files.reduced_span import BEFORE_THE_LOG, SnapshotTask, SpanTask, Task
from quorum_pipeline.rows import loops
from quorum_pipeline.rows.runs import BatchRun
from quorum_pipeline.state.compiled_span import CompiledSpan

_AT_ONCE = 50_000
"""Number of records outside of runs that are combined at once."""


def compacted_task(task: Task) -> tuple[CompiledSpan, Summary]:
    """Execute a task. Raises Unsupported, PipelineError, OSError."""
    return _of_snapshot(task) if isinstance(task, SnapshotTask) else _of_span(task)


class _Sink:
    """Batches that are not combined yet."""

    def __init__(self, found: CompiledSpan) -> None:
        self._found = found
        self._batches: list[Batch] = []
        self._count = 0

    def add(self, batch: Batch, begin: int, end: int) -> Contradiction | None:
        """Like `reduced_span`."""
        header = batch.header
        if (begin, end) != (header.base_offset, header.end_offset):
            self.finish()
            records = [e for e in decode_records(batch) if begin <= e.offset < end]
            self.add_values([(e.offset, e.value) for e in records if e.value is not None])
            return None
        self._batches.append(batch)
        self._count += header.record_count
        if self._count >= _AT_ONCE:
            self.finish()
        return None

    def add_values(self, values: list[tuple[int, bytes]]) -> None:
        """Add single records."""
        run = run_of_values([value for _, value in values])
        self._found.add(run, np.array([offset for offset, _ in values], np.int64))

    def finish(self) -> None:
        """Move everything that was added into the span."""
        if self._batches:
            batches, count = self._batches, self._count
            self._batches, self._count = [], 0
            data = bytearray().join(each.data for each in batches)
            first = batches[0].header.base_offset
            try:
                run = run_of_batches(data, count)
            except Unsupported:
                self.add_values(_values(batches))
                return
            self._found.add(run, np.arange(first, first + len(run)))


def _values(batches: list[Batch]) -> list[tuple[int, bytes]]:
    """Decode batches that are not canonical, such as compressed ones. Raises Unsupported."""
    try:
        records = [record for each in batches for record in decode_records(each)]
    except CorruptBatch:
        raise Unsupported from None
    return [(each.offset, each.value) for each in records if each.value is not None]


def _of_span(task: SpanTask) -> tuple[CompiledSpan, Summary]:
    found, at = CompiledSpan(), Summary(task.start_offset, task.start_offset)
    sink = _Sink(found)
    for each in task.runs() if task.time_ms is None else task.pieces():
        if isinstance(each, BatchRun):
            sink.finish()
            at = _of_run(found, sink, each, at)
        else:
            try:
                at = task.read(each, at, sink)
            except (CorruptBatch, MalformedRecord):
                raise Unsupported from None
        if at.wrong is not None:
            raise Unsupported
        if at.stop or at.end_offset >= task.end_offset:
            break
    sink.finish()
    return found, at


def _of_run(found: CompiledSpan, sink: _Sink, each: BatchRun, at: Summary) -> Summary:
    if each.base_offset != at.end_offset:
        raise Unsupported
    counts = each.headers[:, loops.COUNT]
    firsts = np.concatenate([[0], np.cumsum(counts)])
    begins, ends = np.empty(firsts[-1], np.int64), np.empty(firsts[-1], np.int64)
    if loops.frames(each.data, each.borders, firsts, begins, ends).all():
        found.add(_run(each, begins, ends), np.arange(each.base_offset, each.end_offset))
    else:
        sink.add_values(_values([each.batch(number)[0] for number in range(len(each))]))
    last = each.headers[-1]
    return replace(
        at,
        end_offset=each.end_offset,
        epoch=int(last[loops.EPOCH]),
        timestamp_ms=int(last[loops.TIMESTAMP_MS]),
        latest_ms=max(at.latest_ms, int(each.headers[:, loops.TIMESTAMP_MS].max())),
        records=at.records + len(begins),
        size_bytes=at.size_bytes + int(each.borders[-1] - each.borders[0]),
    )


def _run(each: BatchRun, begins: Numbers, ends: Numbers) -> RecordRun:
    # A copy: the loops are compiled for writable arrays, although they write nothing.
    return known_run(each.data.copy(), begins, ends)


def _of_snapshot(task: SnapshotTask) -> tuple[CompiledSpan, Summary]:
    at = task.begun()
    found = CompiledSpan()
    sink = _Sink(found)
    for _, batch in task.file.batches():
        if not batch.header.is_control:
            records = decode_records(batch)
            sink.add_values([(BEFORE_THE_LOG + e.offset, e.value or b"") for e in records])
            at = replace(at, records=at.records + batch.header.record_count)
    return found, at
