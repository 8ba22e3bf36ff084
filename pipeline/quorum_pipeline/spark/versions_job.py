"""Versions of the rows of a log or an archive, computed on executors.

Tasks decode spans and partition their records by key; each bucket replays its records one at a time, beginning with its
part of the state at the first offset. The driver decodes no metadata record: it joins summaries, determines the first
error, and replays the voters, which are in control records. Owns the steps, and where a step ends: not within a metadata
transaction, whose records take effect at its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Protocol
from zlib import crc32

from quorum_node.image.transactions import BOUNDARIES
from quorum_node.records import metadata as md
from quorum_node.records.batches import DecodedRecord
from quorum_node.records.control import VotersRecord, decode_control
from quorum_node.schema.primitives import MalformedRecord
from quorum_pipeline.deltas.contradiction import Contradiction, first_of
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.archive_tasks import ArchiveSource, Groups
from quorum_pipeline.files.log_directory import open_log
from quorum_pipeline.files.log_span import check_end
from quorum_pipeline.files.version_files import WrittenFile, unique_stem, write_versions
from quorum_pipeline.files.version_spans import (
    SPAN_RECORDS,
    Beginning,
    VersionTask,
    archive_tasks,
    beginning,
    log_beginning,
    log_tasks,
)
from quorum_pipeline.spark.distribution import distribution
from quorum_pipeline.spark.fetched_rows import local_directory
from quorum_pipeline.spark.spark_history import DirectorySource
from quorum_pipeline.spark.state_job import same
from quorum_pipeline.spark.state_parts import packed, unpacked
from quorum_pipeline.spark.stored_files import file_row
from quorum_pipeline.spark.task_results import (
    TaskResult,
    parts_of,
    result_row,
    results_of,
    where,
)
from quorum_pipeline.state.log_record import missing
from quorum_pipeline.state.versions import Version, VersionedBucket, VersionedVoters, buckets_of

if TYPE_CHECKING:
    from quorum_pipeline.files.archive_reader import ArchiveReader
    from quorum_pipeline.live.controllers import Controllers
    from quorum_pipeline.spark.spark_history import JobHistory, Source
    from quorum_pipeline.spark.stages import Rows, Stages
    from quorum_pipeline.spark.state_job import SparkState

_KNOWN = -1
Blob = tuple[int, bytes]
"""Number of the task, and its packed data for a bucket: values of a snapshot, or (offset, time, value) of records."""


class VersionSource(Protocol):
    """A log or archive with versions. `states`: the source from which its state at an offset is computed. `archives`: what it
    reads, if it is an archive.
    """

    name: str
    states: Source
    archives: Sequence[ArchiveReader]

    def begin(self) -> Beginning:
        """Return where its versions begin. Raises PipelineError, OSError."""

    def end_offset(self) -> int:
        """Return the current end offset. Raises PipelineError, OSError."""

    def tasks(self, start: int, end: int) -> list[VersionTask]:
        """Return tasks that read the records of these offsets. Raises PipelineError, OSError."""


class LogVersions:
    """The directory of one replica."""

    archives: Sequence[ArchiveReader] = ()

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self.states: Source = DirectorySource(path)
        self._path = path

    def begin(self) -> Beginning:
        """See VersionSource."""
        return log_beginning(open_log(self._path))

    def end_offset(self) -> int:
        """See VersionSource."""
        log = open_log(self._path)
        check_end(log)
        return log.readable_end_offset()

    def tasks(self, start: int, end: int) -> list[VersionTask]:
        """See VersionSource."""
        return log_tasks(open_log(self._path), start, end)


class ArchiveVersions:
    """An archive. Executors that do not mount it get the files of their tasks."""

    def __init__(self, reader: ArchiveReader, scratch: Path) -> None:
        self.name = f"the archive at {reader.name}"
        self.states: Source = ArchiveSource(reader, scratch)
        self.archives: Sequence[ArchiveReader] = (reader,)
        self._reader, self._scratch = reader, scratch
        self._groups: Groups = {}

    def begin(self) -> Beginning:
        """See VersionSource."""
        found = beginning(self._reader.snapshot(self._scratch))
        self._reader.check_beginning(self._reader.contents(), found.offset)
        return found

    def end_offset(self) -> int:
        """See VersionSource."""
        found = self._reader.contents()
        self._reader.check_complete(found, None)
        return found.end

    def tasks(self, start: int, end: int) -> list[VersionTask]:
        """See VersionSource."""
        return archive_tasks(self._reader, start, end, self._groups)


class QuorumVersions:
    """A running quorum. Only committed records are read."""

    archives: Sequence[ArchiveReader] = ()

    def __init__(self, controllers: Controllers) -> None:
        from quorum_pipeline.live.live_tasks import LiveSource

        self.name = f"the quorum at {controllers.name}"
        self._live = LiveSource(controllers)
        self.states: Source = self._live
        self._controllers = controllers

    def begin(self) -> Beginning:
        """See VersionSource."""
        from quorum_pipeline.live.snapshots import fetch_snapshot

        base = self._live.history().base
        if base is None:
            return Beginning(0, None)
        with (
            closing(self._controllers.open()) as quorum,
            TemporaryDirectory(prefix="quorum-pipeline-") as scratch,
        ):
            return beginning(fetch_snapshot(quorum, base, Path(scratch)))

    def end_offset(self) -> int:
        """See VersionSource."""
        return self._live.history().end

    def tasks(self, start: int, end: int) -> list[VersionTask]:
        """See VersionSource."""
        from quorum_pipeline.live.live_history import LiveRecords

        steps = range(start, end, SPAN_RECORDS)
        return [LiveRecords(self._controllers, n, min(n + SPAN_RECORDS, end)) for n in steps]


@dataclass(frozen=True, slots=True)
class Read(TaskResult):
    """The result of one task.

    `boundary`: offset of the last record that begins or ends a transaction, and whether it begins one. `last`: epoch and
    CRC-32 of the last record. `voters`: offset, time and value of control records with voters.
    """

    end_offset: int
    records: int = 0
    boundary: tuple[int, bool] | None = None
    voters: tuple[tuple[int, int, VotersRecord], ...] = ()
    last: tuple[int, int] | None = None
    wrong: Contradiction | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """Versions that begin with records of an offset range. `known_ms`: time (ms) of the versions of the first state's rows,
    None if those are not versions of this step.
    """

    source: VersionSource
    start: int
    end: int
    known_ms: int | None
    voters: tuple[Version, ...]
    routed: Rows
    buckets: Rows
    count: int
    reads: tuple[Read, ...]
    wrong: Contradiction | None
    history: JobHistory | None = None
    """Contains the first state."""
    kept: list[Rows] = field(default_factory=list)

    def close(self) -> None:
        """Release the data that executors store for its rows."""
        for each in (self.routed, *self.kept):
            each.unpersist()
        if self.history is not None:
            self.history.__exit__()

    def versions(self) -> Rows:
        """Return all versions except those of voters, unordered. Executors raise PipelineError if records contradict each other."""
        return self.buckets.flatMap(partial(_versions, self._span()))

    def write(self, directory: Path) -> list[WrittenFile]:
        """Write the versions on executors; return the files. Raises PipelineError, OSError, and Spark's errors."""
        found = self.buckets.map(partial(_write, self._span(), directory)).collect()
        files, wrong = [file for each, _ in found for file in each], [each for _, each in found]
        self.check(first_of(self.wrong, *wrong))
        return files + write_versions(directory, self.voters, unique_stem())

    def make(self) -> tuple[Rows, list[WrittenFile]]:
        """Make the files of the versions on executors that do not mount their destination, without those of voters.

        Returns the rows for `stored_files.FileStore`, and the files. `close` releases them. Raises like `write`.
        """
        made = self.buckets.map(partial(_make, self._span())).persist()
        self.kept.append(made)
        found = made.map(_without_content).collect()
        files, wrong = [file for each, _ in found for file in each], [each for _, each in found]
        self.check(first_of(self.wrong, *wrong))
        return made.flatMap(_contents), files

    def check(self, wrong: Contradiction | None) -> None:
        """Raise PipelineError if there is a contradiction."""
        if wrong is not None:
            raise PipelineError(f"{self.source.name}, offset {wrong.offset}: {wrong.reason}")

    def how(self, place: str) -> str:
        """Describe the distribution of the work in one line. `place`: where the job ran."""
        return distribution(place, self.reads)

    def _span(self) -> _Span:
        return _Span(self.count, self.start, self.end, self.known_ms)


def next_step(
    stages: Stages,
    source: VersionSource,
    start: int,
    limit: int,
    base: SparkState | None,
    known_ms: int | None,
) -> Step:
    """Return the versions of records from `start` to `limit` (exclusive), or to a transaction that is open there.

    `base`: the state at `start`, None if there are no earlier records. `known_ms`: see Step. Raises PipelineError, OSError,
    and Spark's errors.
    """
    count = max(stages.slots, 2)
    tasks = source.tasks(start, limit)
    _check_contiguous(source, tasks, start, limit)
    stages.describe(f"partition {len(tasks)} spans of {source.name} by key")
    routed = stages.persist(
        stages.parallelize(list(enumerate(tasks))).flatMap(partial(_route, count))
    )
    reads: list[Read] = results_of(routed)
    end, wrong = _end(reads, start)
    parts = parts_of(routed, frozenset(each.number for each in reads if each.error is None))
    voters = VersionedVoters()
    if base is not None:
        parts = base.of_values(partial(_known, count)).union(parts)
        voters.know(base.voters)
    of_voters = [] if known_ms is None else list(voters.known(start, known_ms))
    for each in reads:
        for offset, time_ms, record in each.voters:
            if offset < end:
                of_voters += voters.take(offset, time_ms, record)
    stages.describe(f"compute versions of {source.name} up to offset {end}")
    buckets = parts.groupByKey(count, same)
    return Step(
        source, start, end, known_ms, tuple(of_voters), routed, buckets, count, tuple(reads), wrong
    )


def last_record(stages: Stages, source: VersionSource, end: int) -> tuple[int, int] | None:
    """Return epoch and CRC-32 of the record before an offset; None if the source no longer has it."""
    tasks = source.tasks(end - 1, end) if end else []
    reads = stages.parallelize(list(enumerate(tasks))).flatMap(partial(_route, 1))
    found: list[Read] = results_of(reads)
    return next((each.last for each in found if each.end_offset == end), None)


def _check_contiguous(
    source: VersionSource, tasks: Sequence[VersionTask], start: int, limit: int
) -> None:
    """Raise PipelineError unless the tasks read all records from `start` to `limit`: a log may have been truncated since the state
    at `start` was computed.
    """
    at = start
    for each in (*tasks, None):
        begin = limit if each is None else each.start
        if begin != at:
            raise PipelineError(f"{source.name}: {missing(at, begin)}")
        at = begin if each is None else each.end


def _end(reads: Sequence[Read], start: int) -> tuple[int, Contradiction | None]:
    """Return where a step ends, and the contradiction there, if any. Raises PipelineError on damage."""
    end, opened = start, None
    for each in reads:
        if each.error is not None:
            raise PipelineError(each.error)
        end = each.end_offset
        if each.boundary is not None:
            offset, opens = each.boundary
            opened = offset if opens else None
        if each.wrong is not None:
            return each.wrong.offset, each.wrong
    return (end if opened is None else opened), None


# -- on executors


def _route(count: int, numbered: tuple[int, VersionTask]) -> Iterator[tuple[int, Any]]:
    number, task = numbered
    parts: list[list[tuple[int, int, bytes]]] = [[] for _ in range(count)]
    voters: list[tuple[int, int, VotersRecord]] = []
    boundary: tuple[int, bool] | None = None
    end, records, last, wrong, error = task.start, 0, None, None, None
    try:
        for each in task.records():
            end, records = each.offset + 1, records + 1
            last = each.epoch, each.value, each.key
            if each.control:
                control = decode_control(
                    DecodedRecord(each.offset, each.timestamp_ms, each.key, each.value)
                )
                if isinstance(control, VotersRecord):
                    voters.append((each.offset, each.timestamp_ms, control))
                continue
            record = md.decode_metadata(each.value)
            if type(record) in BOUNDARIES:
                boundary = each.offset, isinstance(record, md.BeginTransactionRecord)
            for bucket in buckets_of(record, count):
                parts[bucket].append((each.offset, each.timestamp_ms, each.value))
    except MalformedRecord as found:
        wrong = Contradiction(end - 1, str(found))
    except (PipelineError, OSError) as found:
        error = str(found)
    mark = None if last is None else (last[0], crc32((last[2] or b"") + last[1]))
    yield result_row(
        Read(number, where(), end, records, boundary, tuple(voters), mark, wrong, error=error)
    )
    for bucket, part in enumerate(parts):
        if part:
            yield bucket, (number, packed(part))


def _known(count: int, values: Iterable[bytes]) -> Iterator[tuple[int, Blob]]:
    """Partition the records of the first state by bucket."""
    parts: list[list[bytes]] = [[] for _ in range(count)]
    for value in values:
        for bucket in buckets_of(md.decode_metadata(value), count):
            parts[bucket].append(value)
    for bucket, part in enumerate(parts):
        if part:
            yield bucket, (_KNOWN, packed(part))


@dataclass(frozen=True, slots=True)
class _Span:
    """The parameters of a step that a bucket needs."""

    count: int
    start: int
    end: int
    known_ms: int | None


def _versions(span: _Span, keyed: tuple[int, Iterable[Blob]]) -> Iterator[Version]:
    """Yield the versions of one bucket. Raises Contradicted."""
    number, parts = keyed
    bucket = VersionedBucket(number, span.count)
    # Also those of the state, so that a repeated task makes the same files.
    in_order = sorted(parts)
    known = [value for task, data in in_order if task == _KNOWN for value in unpacked(data)]
    bucket.know(_topics_first([md.decode_metadata(each) for each in known]))
    if span.known_ms is not None:
        yield from bucket.known(span.start, span.known_ms)
    for task, data in in_order:
        for offset, time_ms, value in unpacked(data) if task != _KNOWN else ():
            if offset >= span.end:
                return
            try:
                found = bucket.take(offset, time_ms, md.decode_metadata(value))
            except ValueError as error:
                raise Contradicted(offset, str(error)) from None
            yield from found


def _topics_first(records: Sequence[md.AnyMetadata]) -> list[md.AnyMetadata]:
    """Return the records of several buckets in an order in which they can be replayed."""
    return sorted(records, key=lambda each: not isinstance(each, md.TopicRecord))


class Contradicted(PipelineError):
    """A record contradicts earlier records."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"offset {offset}: {reason}")
        self.offset, self.reason = offset, reason

    def __reduce__(self) -> tuple[type, tuple[int, str]]:
        return Contradicted, (self.offset, self.reason)


def _write(
    span: _Span, directory: Path, keyed: tuple[int, Iterable[Blob]], stem: str = ""
) -> tuple[list[WrittenFile], Contradiction | None]:
    try:
        return write_versions(directory, _versions(span, keyed), stem or unique_stem()), None
    except Contradicted as error:
        return [], Contradiction(error.offset, error.reason)


_Made = tuple[list[WrittenFile], Contradiction | None, list[tuple[Any, ...]]]


def _make(span: _Span, keyed: tuple[int, Iterable[Blob]]) -> _Made:
    """Like `_write`, with the content of the files.

    They have the same names if Spark repeats the task after it has reported the names, and before it writes the content.
    """
    with TemporaryDirectory(prefix="quorum-pipeline-", dir=local_directory()) as scratch:
        files, wrong = _write(span, Path(scratch), keyed, f"part-{keyed[0]:05d}")
        return files, wrong, [file_row(Path(scratch), each.table, each.name) for each in files]


def _without_content(made: _Made) -> tuple[list[WrittenFile], Contradiction | None]:
    return made[:2]


def _contents(made: _Made) -> list[tuple[Any, ...]]:
    return made[2]
