"""Whole states in an archive, and merged deltas, so that a query costs only the changes since the last state.

Owns when a state is written, and that it is valid only when complete. Executors write their own parts.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from quorum_pipeline.archive.layout import (
    DELTAS,
    MARKER,
    STATES,
    WRITING,
    OffsetRange,
    expired_states,
    marker_text,
    state_directory,
)
from quorum_pipeline.deltas.shards import is_shard
from quorum_pipeline.files.archive_reader import ArchiveReader
from quorum_pipeline.files.archive_tasks import ArchiveSource, DeltasTask, states
from quorum_pipeline.files.sealed_file import is_parquet, parquet_files, write_marker
from quorum_pipeline.files.written_parts import Part
from quorum_pipeline.spark.fetched_rows import local_directory
from quorum_pipeline.spark.spark_history import JobHistory
from quorum_pipeline.spark.state_parts import unpacked
from quorum_pipeline.spark.stored_files import FileStore, file_rows
from quorum_pipeline.state.moment import Moment

if TYPE_CHECKING:
    from quorum_pipeline.files.delta_file import DeltaHead
    from quorum_pipeline.spark.stages import Rows, Stages
    from quorum_pipeline.spark.state_job import SparkState

STATE_ROWS = 1_000_000
_TIMES_STATE = 2
"""Minimum ratio of the rows of deltas to those of the last state, so that writing states costs no more than writing deltas."""


def keep_state(
    stages: Stages, reader: ArchiveReader, least_rows: int, store: FileStore | None = None
) -> int | None:
    """Write the state at the end of an archive, if there are enough deltas since the last one. `store`: writes to an archive
    that executors do not mount.

    Returns its offset, or None if none was written. Raises PipelineError, OSError, and Spark's errors.
    """
    found = reader.contents()
    if not found.ranges or found.quarantined:
        return None
    last, last_rows = found.start, 0
    for offset, marker in states(reader):
        if found.start <= offset <= found.end:
            last, last_rows = offset, marker["rows"]
    since = sum(reader.marker(each).delta_rows for each in found.ranges if each.start >= last)
    if since < max(least_rows, _TIMES_STATE * last_rows):
        return None
    with TemporaryDirectory(prefix="quorum-pipeline-") as scratch:
        source = ArchiveSource(reader, Path(scratch))
        with JobHistory(stages, source) as history:
            state = history.at(Moment(offset=found.end))
            if history.one_by_one or state.in_transaction:
                return None
            stages.describe(f"write the state at offset {state.end_offset} of {reader.name}")
            parts = _parts(state, stages.slots)
            if reader.mounted is not None:
                return _write(state, parts, reader.mounted)
            assert store is not None, "the archive is not mounted"
            return _store(state, parts, reader.uri, store)


def _parts(state: SparkState, slots: int) -> Rows:
    """Return what belongs in one file each: every bucket, and about as many groups of shards as tasks run at a time."""
    buckets = state.buckets()
    if not state.has_shards:
        return buckets
    shards = buckets.filter(_of_shard).map(partial(_grouped, slots)).groupByKey()
    return buckets.filter(_of_home).union(shards)


def _write(state: SparkState, parts: Rows, root: Path) -> int:
    directory = root / STATES / state_directory(state.end_offset)
    shutil.rmtree(directory, ignore_errors=True)
    written = parts.map(partial(_write_part, directory, _head(state))).collect()
    rows = sum(rows for _, rows in written)
    write_marker(directory, _marker(state, rows, [name for name, _ in written]))
    return state.end_offset


def _store(state: SparkState, parts: Rows, uri: str, store: FileStore) -> int:
    directory = f"{uri}/{STATES}/{state_directory(state.end_offset)}"
    scratch = f"{uri}/{STATES}/{WRITING}"
    store.files.delete(directory)
    made = parts.flatMap(partial(_made_part, _head(state)))
    rows = store.write(made, scratch, {DELTAS: directory}).delta_rows
    names = [name for name in store.files.list(directory) if is_parquet(name)]
    store.files.write(f"{directory}/{MARKER}", marker_text(_marker(state, rows, names)))
    return state.end_offset


def _head(state: SparkState) -> DeltaHead:
    from quorum_pipeline.files.delta_file import DeltaHead

    return DeltaHead(state.summary.without_records())


def _marker(state: SparkState, rows: int, names: Sequence[str]) -> dict[str, Any]:
    return {"latest_ms": state.summary.latest_ms, "rows": rows, "files": sorted(names)}


# -- on executors


def _of_shard(keyed: tuple[int, bytes]) -> bool:
    return is_shard(keyed[0])


def _of_home(keyed: tuple[int, bytes]) -> bool:
    return not is_shard(keyed[0])


def _grouped(slots: int, keyed: tuple[int, bytes]) -> tuple[int, bytes]:
    return keyed[0] % slots, keyed[1]


StatePart = tuple[int, bytes | Iterable[bytes]]
"""A bucket of a state by number; or the shards of a group."""


def _made_part(head: DeltaHead, keyed: StatePart) -> Iterator[tuple[Any, ...]]:
    """Like `_write_part`; yield the file (`stored_files.file_rows`)."""
    with TemporaryDirectory(prefix="quorum-pipeline-", dir=local_directory()) as scratch:
        name, rows = _write_part(Path(scratch) / DELTAS, head, keyed)
        yield from file_rows(Part(delta=name, delta_rows=rows), Path(scratch))


def _write_part(directory: Path, head: DeltaHead, keyed: StatePart) -> tuple[str, int]:
    """Write one part, on an executor; return the file's name and number of rows. Each name is used once.

    Files of shards contain no topics: these are in the files of buckets, whose names sort first.
    """
    from quorum_pipeline.compaction.offset_runs import joined, left_out_run
    from quorum_pipeline.compaction.sharding import partitions_of
    from quorum_pipeline.deltas.pieces import HEAD
    from quorum_pipeline.files.delta_file import write_delta

    if isinstance(keyed[1], bytes):
        found = unpacked(keyed[1])
        state = getattr(found, "state", found)
        records = joined([state.records(), left_out_run(state.left_out)])
        name = f"part-{uuid4()}"
    else:
        records = joined([partitions_of(unpacked(each).state.records()) for each in keyed[1]])
        name = f"shards-{uuid4()}"
    return write_delta(directory, name, head, [(HEAD, records)] if len(records) else [])


def expire_states(reader: ArchiveReader, keep_days: int, delete: Callable[[str], None]) -> int:
    """Delete whole states that are no longer kept (`layout.expired_states`); return their number. `delete`: deletes a file or directory of a
    URI. Raises PipelineError, OSError.
    """
    found = dict(states(reader))
    obsolete = expired_states(
        ((offset, marker["latest_ms"]) for offset, marker in found.items()), keep_days
    )
    for offset in obsolete:
        directory = f"{reader.uri}/{STATES}/{found[offset]['directory']}"
        delete(f"{directory}/{MARKER}")  # it does not count any more
        delete(directory)
    return len(obsolete)


def compose_deltas(
    stages: Stages,
    reader: ArchiveReader,
    group: Sequence[OffsetRange],
    merged: OffsetRange,
    store: FileStore | None = None,
) -> int:
    """Compose the deltas of adjacent ranges into as few as possible, in the directory of `merged`; return the number of rows. None is
    composed across a whole state: a delta that begins before a state does not contain what has changed since.

    `store`: see `keep_state`. Raises PipelineError, OSError, and Spark's errors.
    """
    directory = f"{DELTAS}/{merged.directory}"
    files = [file for each in group for file in reader.parquet_files(f"{DELTAS}/{each.directory}")]
    stages.describe(f"compose {len(files)} deltas to {merged.directory}")
    task = reader.task(DeltasTask(tuple(map(Path, files))), files)
    borders = frozenset(offset for offset, _ in states(reader))
    root = reader.mounted
    if root is not None:
        shutil.rmtree(root / directory, ignore_errors=True)
        rows = stages.parallelize([(0, task)] if files else [])
        return sum(rows.flatMap(partial(_compose, borders, root / directory)).collect())
    assert store is not None, "the archive is not mounted"
    target = f"{reader.uri}/{directory}"
    store.files.delete(target)
    if not files:
        return 0
    made = stages.parallelize([(0, task)]).flatMap(partial(_composed, borders))
    return store.write(made, f"{reader.uri}/{DELTAS}/{WRITING}", {DELTAS: target}).delta_rows


def _composed(borders: Set[int], numbered: tuple[int, Any]) -> Iterator[tuple[Any, ...]]:
    """Like `_compose`; yield the files (`stored_files.file_rows`)."""
    with TemporaryDirectory(prefix="quorum-pipeline-", dir=local_directory()) as scratch:
        directory = Path(scratch) / DELTAS
        rows = sum(_compose(borders, directory, numbered))
        for path in parquet_files(directory):
            yield from file_rows(Part(delta=path.name, delta_rows=rows), Path(scratch))
            rows = 0


def _compose(borders: Set[int], merged: Path, numbered: tuple[int, Any]) -> Iterator[int]:
    """Compose deltas, on an executor; yield numbers of rows. Deltas are not composed across a gap or one of the `borders`, nor if
    they contain boundaries of transactions.
    """
    from quorum_pipeline.compaction.offset_runs import compacted, joined
    from quorum_pipeline.deltas.pieces import HEAD
    from quorum_pipeline.files.delta_builder import part_stem
    from quorum_pipeline.files.delta_file import DeltaHead, write_delta
    from quorum_pipeline.files.sealed_file import stem_of

    waiting: list[tuple[Any, Any]] = []

    def written() -> Iterator[int]:
        if waiting:
            run = compacted([joined([run for _, run in span.parts]) for span, _ in waiting])
            at = waiting[0][1]
            for _, each in waiting[1:]:
                at = at.then(each)
            head = DeltaHead(at)
            stem = part_stem(at.start_offset, at.end_offset)
            yield write_delta(merged, stem, head, [(HEAD, run)] if len(run) else [])[1]
            waiting.clear()

    for name, span, summary in numbered[1].deltas():
        begin = summary.start_offset
        if waiting and (waiting[-1][1].end_offset != begin or begin in borders):
            yield from written()
        if span.boundary is None:
            waiting.append((span, summary))
            continue
        yield from written()
        head = DeltaHead(summary, span.boundary, span.is_open)
        yield write_delta(merged, stem_of(name), head, span.parts)[1]
    yield from written()
