"""Whole states in an archive, and merged deltas, so that a query costs only the changes since the last state.

Owns when a state is written, and that it is valid only when complete. Executors write their own parts.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from quorum_pipeline.archive.layout import STATES, state_directory
from quorum_pipeline.files.archive_reader import ArchiveReader
from quorum_pipeline.files.archive_tasks import ArchiveSource, states
from quorum_pipeline.files.sealed_file import write_marker
from quorum_pipeline.spark.spark_history import JobHistory
from quorum_pipeline.spark.state_parts import unpacked
from quorum_pipeline.state.moment import Moment

if TYPE_CHECKING:
    from quorum_pipeline.files.delta_file import DeltaHead
    from quorum_pipeline.spark.stages import Stages
    from quorum_pipeline.spark.state_job import SparkState

STATE_ROWS = 1_000_000
_TIMES_STATE = 2
"""Minimum ratio of the rows of deltas to those of the last state, so that writing states costs no more than writing deltas."""


def keep_state(stages: Stages, reader: ArchiveReader, least_rows: int) -> int | None:
    """Write the state at the end of a mounted archive, if there are enough deltas since the last one.

    Returns its offset, or None if none was written. Raises PipelineError, OSError.
    """
    root = reader.mounted
    assert root is not None, "executors write it"
    found = reader.contents()
    if not found.ranges or found.quarantined:
        return None
    last, last_rows = found.start, 0
    for offset, told in states(reader):
        if found.start <= offset <= found.end:
            last, last_rows = offset, told["rows"]
    since = sum(reader.marker(each).delta_rows for each in found.ranges if each.start >= last)
    if since < max(least_rows, _TIMES_STATE * last_rows):
        return None
    with TemporaryDirectory(prefix="quorum-pipeline-") as scratch:
        source = ArchiveSource(reader, Path(scratch))
        with JobHistory(stages, source) as history:
            state = history.at(Moment(offset=found.end))
            if history.one_by_one or state.in_transaction:
                return None
            stages.describe(f"write the state at offset {state.end_offset} of {root}")
            return _write(state, root)


def _write(state: SparkState, root: Path) -> int:
    from quorum_pipeline.files.delta_file import DeltaHead

    directory = root / STATES / state_directory(state.end_offset)
    shutil.rmtree(directory, ignore_errors=True)
    at = state.summary.without_records()
    head = DeltaHead(at, state.latest_ms)
    written = state.buckets().map(partial(_write_bucket, directory, head)).collect()
    marker = {
        "latest_ms": state.latest_ms,
        "rows": sum(rows for _, rows in written),
        "files": sorted(name for name, _ in written),
    }
    write_marker(directory, marker)
    return state.end_offset


def _write_bucket(directory: Path, head: DeltaHead, keyed: tuple[int, bytes]) -> tuple[str, int]:
    """Write one bucket, on an executor; return the file's name and number of rows. Each name is used once."""
    from quorum_pipeline.compaction.offset_runs import joined, left_out_run
    from quorum_pipeline.deltas.pieces import HEAD
    from quorum_pipeline.files.delta_file import write_delta

    found = unpacked(keyed[1])
    state = getattr(found, "state", found)
    records = joined([state.records(), left_out_run(state.left_out)])
    pieces = [(HEAD, records)] if len(records) else []
    return write_delta(directory, f"part-{uuid4()}", head, pieces)


def compose_deltas(stages: Stages, group: Sequence[Path], merged: Path) -> int:
    """Compose the deltas of adjacent directories into as few as possible, in a new directory; return the number of rows."""
    shutil.rmtree(merged, ignore_errors=True)
    paths = [path for each in group for path in sorted(each.glob("part-*.parquet"))]
    if not paths:
        return 0
    stages.describe(f"compose {len(paths)} deltas to {merged.name}")
    return sum(stages.rows([paths]).flatMap(partial(_compose, merged)).collect())


def _compose(merged: Path, paths: Sequence[Path]) -> Iterator[int]:
    """Compose deltas, on an executor; yield numbers of rows. Deltas are not composed across a gap, nor if they contain
    boundaries of transactions.
    """
    from quorum_pipeline.compaction.offset_runs import joined, squeezed
    from quorum_pipeline.deltas.pieces import HEAD
    from quorum_pipeline.files.delta_file import DeltaHead, read_delta, write_delta
    from quorum_pipeline.files.delta_tap import part_stem
    from quorum_pipeline.files.sealed_file import stem_of

    waiting: list[tuple[Any, Any]] = []

    def written() -> Iterator[int]:
        if waiting:
            run = squeezed([joined([run for _, run in span.parts]) for span, _ in waiting])
            at = waiting[0][1]
            for _, each in waiting[1:]:
                at = at.then(each)
            head = DeltaHead(at, max(span.latest_ms for span, _ in waiting))
            stem = part_stem(at.start_offset, at.end_offset)
            yield write_delta(merged, stem, head, [(HEAD, run)] if len(run) else [])[1]
            waiting.clear()

    for path in paths:
        span, summary = read_delta(path)
        if waiting and waiting[-1][1].end_offset != summary.start_offset:
            yield from written()
        if span.boundary is None:
            waiting.append((span, summary))
            continue
        yield from written()
        head = DeltaHead(summary, span.latest_ms, span.boundary, span.is_open)
        yield write_delta(merged, stem_of(path.name), head, span.parts)[1]
    yield from written()
