"""An archive as tasks that compute the state at one point: the nearest whole state, later deltas, and records of the
last range.

Owns the choice: the work depends on the changes since the last whole state, not on the length of history. Incomplete
ranges and states without a marker do not count.
"""

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from quorum_node.records.batches import DecodedRecord
from quorum_node.schema.primitives import MalformedRecord
from quorum_pipeline.archive.damage import damaged
from quorum_pipeline.archive.layout import (
    DELTAS,
    MARKER,
    RECORDS,
    SNAPSHOTS,
    STATES,
    OffsetRange,
    parse_state,
    parsed_marker,
)
from quorum_pipeline.deltas.contradiction import Contradiction
from quorum_pipeline.deltas.span import Span
from quorum_pipeline.deltas.summary import Summary
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.archive_reader import Archived, ArchiveReader
from quorum_pipeline.files.archived_records import FileGroup, read_records
from quorum_pipeline.files.reduced_span import BEFORE_THE_LOG, SnapshotTask
from quorum_pipeline.files.snapshot_file import SnapshotFile
from quorum_pipeline.state.log_columns import LogColumns
from quorum_pipeline.state.log_record import misplaced, missing
from quorum_pipeline.state.moment import Moment

if TYPE_CHECKING:
    from quorum_pipeline.files.timeline_span import KnownTask

_DEPTH = 3
"""Number of parts of the path of a file of an archive: table, directory, name."""


@dataclass(frozen=True, slots=True)
class DeltaTask:
    """A delta of complete parts, or a part of a state."""

    path: Path

    @property
    def file(self) -> str:
        """Name of the file in its archive: other files, or records, have the same content."""
        return "/".join(self.path.parts[-_DEPTH:])

    def compacted(self) -> tuple[Any, Summary]:
        """Read the delta. Raises PipelineError, OSError."""
        from quorum_pipeline.files.delta_file import read_delta

        return read_delta(self.path)

    def under(self, root: Path) -> "DeltaTask":
        """See ArchiveTask."""
        return DeltaTask(root / self.path)


@dataclass(frozen=True, slots=True)
class DeltasTask:
    """Adjacent deltas, in order."""

    paths: tuple[Path, ...]

    def deltas(self) -> Iterator[tuple[str, Any, Summary]]:
        """Read the deltas; yield them with their names. Raises PipelineError, OSError."""
        from quorum_pipeline.files.delta_file import read_delta

        for path in self.paths:
            yield (path.name, *read_delta(path))

    def under(self, root: Path) -> "DeltasTask":
        """See ArchiveTask."""
        return DeltasTask(tuple(root / each for each in self.paths))


@dataclass(frozen=True, slots=True)
class RecordsTask:
    """Records of a range from `start` on and below `end`, up to the first one later than `time_ms`."""

    directory: Path
    start: int
    end: int
    time_ms: int | None = None

    def under(self, root: Path) -> "RecordsTask":
        """See ArchiveTask."""
        return replace(self, directory=root / self.directory)

    def compacted(self) -> tuple[Any, Summary]:
        """Reduce with compiled loops. Raises Unsupported, PipelineError, OSError."""
        from quorum_pipeline.canonical_encoding import Unsupported
        from quorum_pipeline.compaction.record_run import known_run
        from quorum_pipeline.state.compiled_span import CompiledSpan

        found, at = CompiledSpan(), Summary(self.start, self.start)
        for columns, late in self._columns():
            if columns.first_wrong(at.end_offset) is not None:
                raise Unsupported
            try:
                at = replace(_at(columns, at), stop=late)
            except MalformedRecord:
                raise Unsupported from None
            some = columns.some(~columns.control)
            found.add(known_run(some.data.copy(), some.begins, some.ends), some.offsets)
        if self._lacks(at):
            raise Unsupported
        return found, at

    def reduced(self) -> tuple[Span, Summary]:
        """Record by record. Read the delta. Raises PipelineError, OSError."""
        found, at = Span(), Summary(self.start, self.start)
        for columns, late in self._columns():
            wrong = columns.first_wrong(at.end_offset)
            if wrong is not None:
                offset = at.end_offset + wrong
                reason = misplaced(int(columns.offsets[wrong]), offset)
                at = replace(at, stop=True, wrong=Contradiction(offset, reason))
                break
            controls = set(columns.offsets[columns.control].tolist())
            for offset, value in columns.each():
                if offset not in controls and not found.value(offset, value):
                    return found, replace(at, stop=True, wrong=found.malformed)
            at = replace(_at(columns, at), stop=late)
        if self._lacks(at):
            reason = missing(at.end_offset, self.end)
            at = replace(at, stop=True, wrong=Contradiction(at.end_offset, reason))
        found.stopped = at.stop
        return found, at

    def _lacks(self, at: Summary) -> bool:
        """Whether files at the end are missing, so that the rest has no gap."""
        return not at.stop and at.end_offset < self.end

    def _columns(self) -> Iterator[tuple[LogColumns, bool]]:
        """Yield columns, and whether the next ones are later than requested."""
        for each in read_records(self.directory, 1, self.start, self.end):
            some = each.from_offset(self.start).before_offset(self.end)
            early = some if self.time_ms is None else some.up_to_time(self.time_ms)
            yield early, len(early) < len(some)
            if len(early) < len(some):
                return


def _at(columns: LogColumns, at: Summary) -> Summary:
    if not len(columns):
        return at
    for index in np.flatnonzero(columns.control).tolist():
        record = columns.record(index)
        decoded = DecodedRecord(record.offset, record.timestamp_ms, record.key, record.value)
        at = at.control(decoded, record.epoch)
    last = columns.record(len(columns) - 1)
    return replace(
        at,
        end_offset=last.offset + 1,
        epoch=last.epoch,
        timestamp_ms=last.timestamp_ms,
        latest_ms=max(at.latest_ms, int(columns.timestamps_ms.max())),
        records=at.records + len(columns),
        size_bytes=at.size_bytes + int((columns.ends - columns.begins).sum()),
    )


@dataclass(frozen=True, slots=True)
class ArchiveTasks:
    """Like `LogTasks`."""

    name: str
    start_offset: int
    tasks: tuple[Any, ...]
    cuts: tuple[int, ...]
    reader: ArchiveReader
    snapshot_name: str

    def error(self, wrong: Contradiction) -> PipelineError:
        """Convert a contradiction to an error that names its directory."""
        if wrong.offset < 0:
            offset = wrong.offset - BEFORE_THE_LOG
            return PipelineError(f"{self.snapshot_name}, offset {offset}: {wrong.reason}")
        place = self.reader.place_of(wrong.offset)
        return PipelineError(f"{place}, offset {wrong.offset}: {wrong.reason}")


@dataclass(frozen=True, slots=True)
class _Part:
    """Offsets with a delta (`delta`, a file), or only with the records of a range."""

    start: int
    end: int
    range: OffsetRange
    delta: str | None


@dataclass(frozen=True, slots=True)
class ArchiveSource:
    """An archive. Executors that do not mount it get the files of their tasks (`files/fetched.py`). `damaged`: files of deltas and
    states that are not used.
    """

    reader: ArchiveReader
    scratch: Path
    damaged: frozenset[str] = frozenset()

    def without(self, damaged: Set[str]) -> "ArchiveSource":
        """See `spark.spark_history.DerivedFilesSource`."""
        return replace(self, damaged=self.damaged | damaged)

    def is_replaced(self, file: str) -> bool:
        """Whether the file was merged into another one, or is of a state that was deleted, since it was planned to be read."""
        directory, _, name = file.rpartition("/")
        kept = MARKER if directory.startswith(f"{STATES}/") else name
        return kept not in self.reader.names(directory)

    def buckets(self, slots: int) -> int:
        """Number of buckets in which a state is merged."""
        return max(slots, 2)

    def version(self) -> object:
        """See `spark.spark_history.MergedSource`: the ranges, which `archive --compact` merges, and the states, which it thins."""
        return tuple(self.reader.ranges()), tuple(self.reader.names(STATES))

    def plan(self, moments: Sequence[Moment], slots: int, *, compiled: bool) -> ArchiveTasks | None:
        """See `spark.spark_history.Source`. Raises PipelineError, also if the archive does not have a moment."""
        reader = self.reader
        found = reader.contents()
        for moment in moments:
            reader.check_complete(found, moment.offset)
        snapshot = reader.snapshot(self.scratch)
        if snapshot is not None:
            _check_behind(snapshot, moments[0])
        parts = list(self._parts(found.ranges, compiled=compiled))
        base = self._state(found, moments[0]) if compiled else None
        tasks: list[Any] = []
        at, snapshot_name = 0, ""
        if base is not None:
            at, files = base
            tasks += [reader.task(DeltaTask(Path(each)), [each]) for each in files]
        elif snapshot is not None:
            tasks.append(snapshot_task(reader, SnapshotTask(snapshot)))
            at, snapshot_name = snapshot.id.end_offset, snapshot_uri(reader, snapshot)
        reader.check_beginning(found, at)
        cuts = []
        groups: Groups = {}
        for moment in moments:
            end = found.end if moment.offset is None else moment.offset
            tasks += self._between(parts, at, end, moment.time_ms, groups)
            cuts.append(len(tasks))
            at = max(at, end)
        name = f"the archive at {reader.name}"
        return ArchiveTasks(name, found.start, tuple(tasks), tuple(cuts), reader, snapshot_name)

    def _between(
        self,
        parts: Sequence[_Part],
        start: int,
        end: int,
        time_ms: int | None,
        groups: "Groups",
    ) -> Iterator[Any]:
        for each in parts:
            begin, stop = max(each.start, start), min(each.end, end)
            if begin >= stop:
                continue
            late = False
            if each.delta is not None and (begin, stop) == (each.start, each.end):
                late = time_ms is not None and self._latest_ms(each.delta) > time_ms
                if not late:
                    yield self.reader.task(DeltaTask(Path(each.delta)), [each.delta])
                    continue
            yield from self._records(each.range, begin, stop, time_ms, groups)
            if late:
                return

    def _records(
        self, range: OffsetRange, start: int, end: int, time_ms: int | None, groups: "Groups"
    ) -> Iterator[Any]:
        """Tasks for the records of a range: one, or one for each group of files to be fetched."""
        directory = f"{RECORDS}/{range.directory}"
        if self.reader.mounted is not None:
            yield self.reader.task(RecordsTask(Path(directory), start, end, time_ms), ())
            return
        if range not in groups:
            groups[range] = self.reader.groups(range)
        for each in groups[range]:
            begin, stop = max(each.start, start), min(each.end, end)
            if begin < stop:
                task = RecordsTask(Path(directory), begin, stop, time_ms)
                yield self.reader.task(task, each.files)

    def _latest_ms(self, delta: str) -> int:
        from quorum_pipeline.files.delta_file import head_of

        return head_of(self.reader.footer(delta)).summary.latest_ms

    def _parts(self, ranges: Sequence[OffsetRange], *, compiled: bool) -> Iterator[_Part]:
        from quorum_pipeline.files.delta_builder import parsed_part

        for each in ranges:
            directory, at = f"{DELTAS}/{each.directory}", each.start
            names = self.reader.parquet_names(directory) if compiled else []
            for name in names:
                offsets = None if f"{directory}/{name}" in self.damaged else parsed_part(name)
                if offsets is None or offsets[0] < at or offsets[1] > each.end:
                    continue
                if offsets[0] > at:
                    yield _Part(at, offsets[0], each, None)
                yield _Part(*offsets, each, f"{directory}/{name}")
                at = offsets[1]
            if at < each.end:
                yield _Part(at, each.end, each, None)

    def _state(self, found: Archived, moment: Moment) -> tuple[int, list[str]] | None:
        """Offset and files of the newest state that is not later than the moment."""
        limit = found.end if moment.offset is None else moment.offset
        for offset, marker in reversed(list(states(self.reader))):
            late = moment.time_ms is not None and marker["latest_ms"] > moment.time_ms
            if found.start <= offset <= limit and not late:
                directory = f"{STATES}/{marker['directory']}"
                files = [f"{directory}/{name}" for name in marker["files"]]
                if self.damaged.isdisjoint(files):
                    return offset, files
        return None


Groups = dict[OffsetRange, list[FileGroup]]
"""Cached files of ranges."""


def snapshot_task(reader: ArchiveReader, task: "SnapshotTask | KnownTask") -> Any:
    """Prepare a task on the snapshot before the archive for an executor."""
    if reader.mounted is not None:
        return task
    file = f"{SNAPSHOTS}/{task.file.path.name}"
    there = replace(task, file=replace(task.file, path=Path(file)))
    return reader.task(there, [file])


def snapshot_uri(reader: ArchiveReader, snapshot: SnapshotFile) -> str:
    """URI of the snapshot before the archive."""
    if reader.mounted is not None:
        return str(snapshot.path)
    return f"{reader.uri}/{SNAPSHOTS}/{snapshot.path.name}"


def states(reader: ArchiveReader) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield offset and marker of each full state in an archive, in order. Raises PipelineError,
    OSError.
    """
    for name in reader.names(STATES):
        offset, path = parse_state(name), f"{STATES}/{name}/{MARKER}"
        text = None if offset is None else reader.text(path)
        if offset is None or text is None:
            continue
        try:
            marker = parsed_marker(text)
            yield (
                offset,
                {
                    "directory": name,
                    "latest_ms": marker["latest_ms"],
                    "rows": marker["rows"],
                    "files": marker["files"],
                },
            )
        except (ValueError, KeyError, TypeError):
            raise PipelineError(damaged(f"{reader.uri}/{path}")) from None


def _check_behind(snapshot: SnapshotFile, moment: Moment) -> None:
    end = snapshot.id.end_offset
    early = moment.offset is not None and moment.offset < end
    time_ms = snapshot.bounds().last_contained_log_timestamp_ms
    if early or (moment.time_ms is not None and moment.time_ms < time_ms):
        raise PipelineError(
            f"the archive begins after a snapshot at offset {end}; it has no state before that"
        )
