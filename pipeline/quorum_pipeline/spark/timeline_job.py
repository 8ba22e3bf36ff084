"""The timeline of a log or an archive: tasks reduce spans to edges, which are joined by bucket of topics to events in
order.

Owns the steps. The driver decodes no metadata record: it determines which pieces of transactions take effect, and
decodes the control records, which are few. It has all events in memory, as they are the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quorum_node.records.batches import DecodedRecord
from quorum_pipeline.archive.layout import RECORDS, OffsetRange
from quorum_pipeline.deltas.pieces import HEAD, counted
from quorum_pipeline.deltas.shards import by_home, is_shard, key_of, place_of, shard_counts
from quorum_pipeline.deltas.span import Boundary
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.archive_tasks import snapshot_task
from quorum_pipeline.files.fetched import Fetched
from quorum_pipeline.files.log_directory import open_log
from quorum_pipeline.files.log_span import check_end
from quorum_pipeline.files.snapshot_file import SnapshotFile
from quorum_pipeline.files.span_tasks import MAX_BYTES, MIN_BYTES, TASKS_PER_SLOT
from quorum_pipeline.files.timeline_span import KnownTask, LogTask, RangeTask
from quorum_pipeline.rows.content import control_content, metadata_content
from quorum_pipeline.spark.distribution import distribution
from quorum_pipeline.spark.state_parts import packed, unpacked
from quorum_pipeline.spark.task_results import (
    TaskResult,
    parts_of,
    result_row,
    results_of,
    where,
)
from quorum_pipeline.state.log_record import misplaced
from quorum_pipeline.timeline.cluster import At, ClusterTimeline
from quorum_pipeline.timeline.events import Event
from quorum_pipeline.timeline.partitions import partition_events
from quorum_pipeline.timeline.span import EncodedRecord, Part, home_of

if TYPE_CHECKING:
    from quorum_pipeline.files.archive_reader import ArchiveReader
    from quorum_pipeline.live.controllers import Controllers
    from quorum_pipeline.live.live_history import LiveKnownTask, LiveTimelineTask
    from quorum_pipeline.spark.stages import Stages

    Task = LogTask | RangeTask | KnownTask | Fetched | LiveTimelineTask | LiveKnownTask


@dataclass(frozen=True, slots=True)
class TimelineSource:
    """What to read. `tasks`: in order of offsets; `known`: the number of the task that reads `snapshot`."""

    name: str
    start_offset: int
    tasks: tuple[Task, ...]
    known: int | None = None
    snapshot: SnapshotFile | None = None


@dataclass(frozen=True, slots=True)
class Read(TaskResult):
    """The result of one task. `large`: highest range of each large topic, by the text of its id (`deltas/shards.py`)."""

    records: int = 0
    first: tuple[int, int] | None = None
    last: tuple[int, int] | None = None
    boundary: Boundary | None = None
    is_open: bool = False
    controls: tuple[EncodedRecord, ...] = ()
    large: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReadTimeline:
    """Events, and the range of offsets and times of the log."""

    events: tuple[Event, ...]
    begin_ms: int
    end_ms: int
    start_offset: int
    end_offset: int
    reads: tuple[Read, ...]

    def how(self, place: str) -> str:
        """Describe the distribution of the work in one line. `place`: where the job ran."""
        return distribution(place, self.reads)


def log_source(path: Path, slots: int, span_bytes: int | None = None) -> TimelineSource:
    """Return the log in a directory as a source. Raises PipelineError if there is none, or records are missing at its end."""
    log = open_log(path)
    total = sum(each.size_bytes for each in log.segments)
    target = span_bytes or min(max(total // (slots * TASKS_PER_SLOT), MIN_BYTES), MAX_BYTES)
    check_end(log)
    spans = list(log.spans(log.start_offset, target, log.committed_end_offset()))
    tasks: list[Task] = [LogTask(each) for each in spans]
    # The snapshot has the state before a log whose beginning was deleted. A log from offset 0 needs
    # none.
    later = [each for each in log.snapshots if each.end_offset >= log.start_offset > 0]
    if not later:
        return TimelineSource(str(log.path), log.start_offset, tuple(tasks))
    named = min(later)
    place = sum(each.base_offset < named.end_offset for each in spans)
    snapshot = SnapshotFile(log.path / named.file_name, named)
    tasks.insert(place, KnownTask(snapshot))
    return TimelineSource(str(log.path), log.start_offset, tuple(tasks), place, snapshot)


def quorum_source(controllers: Controllers, slots: int, scratch: Path) -> TimelineSource:
    """Return a running quorum as a source. `scratch`: directory for the snapshot with which its log begins. Raises PipelineError."""
    # Imported here: the executors' workers import this module, too, and most need no client of a quorum.
    from quorum_pipeline.live.live_history import LiveKnownTask, LiveTimelineTask
    from quorum_pipeline.live.live_tasks import LiveSource
    from quorum_pipeline.live.snapshots import fetch_snapshot

    source = LiveSource(controllers)
    start, base, end = source.history()
    ranges = list(source.ranges(start, end, slots))
    tasks: list[Any] = [LiveTimelineTask(controllers, *each) for each in ranges]
    if base is None:
        return TimelineSource(controllers.name, start, tuple(tasks))
    place = sum(begin < base.end_offset for begin, _ in ranges)
    tasks.insert(place, LiveKnownTask(controllers, base))
    with closing(controllers.open()) as quorum:
        snapshot = fetch_snapshot(quorum, base, scratch)
    return TimelineSource(controllers.name, start, tuple(tasks), place, snapshot)


def archive_source(reader: ArchiveReader, scratch: Path) -> TimelineSource:
    """Return an archive as a source. `scratch`: directory for the snapshot before it.

    Raises PipelineError, also if the archive is empty or has records in quarantine.
    """
    found = reader.contents()
    reader.check_complete(found, None)
    spans = [span for each in found.ranges for span in _spans(reader, each)]
    tasks = [task for _, task in spans]
    snapshot = reader.snapshot(scratch)
    reader.check_beginning(found, 0 if snapshot is None else snapshot.id.end_offset)
    name = reader.name
    if snapshot is None:
        return TimelineSource(name, found.start, tuple(tasks))
    place = sum(start < snapshot.id.end_offset for start, _ in spans)
    tasks.insert(place, snapshot_task(reader, KnownTask(snapshot)))
    return TimelineSource(name, found.start, tuple(tasks), place, snapshot)


def _spans(reader: ArchiveReader, range: OffsetRange) -> Iterator[tuple[int, Task]]:
    """Yield start offsets and tasks of a range: one task, or one for each group of files to be fetched."""
    directory = f"{RECORDS}/{range.directory}"
    if reader.mounted is not None:
        yield range.start, reader.task(RangeTask(Path(directory), range.start, range.end), ())
        return
    for each in reader.groups(range):
        task = RangeTask(Path(directory), each.start, each.end)
        yield each.start, reader.task(task, each.files)


def read_timeline(stages: Stages, source: TimelineSource) -> ReadTimeline:
    """Compute the timeline of a source. Raises PipelineError on damage, OSError, and Spark's errors."""
    buckets = max(stages.slots, 2)
    stages.describe(f"reduce {len(source.tasks)} spans of {source.name} to edges")
    reduced = stages.persist(
        stages.parallelize(list(enumerate(source.tasks))).flatMap(partial(_reduce, buckets))
    )
    try:
        reads: list[Read] = results_of(reduced)
        errors = [each.error for each in reads if each.error is not None]
        if errors:
            raise PipelineError(errors[0])
        _check_contiguous(reads, source)
        counting = _counting(reads, source.known)
        stages.describe(f"assemble the timeline of {source.name}")
        parts = parts_of(reduced, range(len(reads))).filter(partial(_counts, counting))
        shards = by_home(
            shard_counts((each.large for each in reads), buckets), partial(home_of, buckets)
        )
        if shards:
            parts = parts.flatMap(partial(_split, shards, buckets))
        grouped = parts.map(_by_bucket).groupByKey(buckets, partial(place_of, buckets))
        events = [event for data in grouped.flatMap(_events).collect() for event in unpacked(data)]
    finally:
        reduced.unpersist()
    events += _of_controls(reads, source)
    events.sort(key=lambda each: (each.begin_offset, each.kind, each.subject))
    ends = [each for each in reads if each.first is not None and each.last is not None]
    begin_ms, end_ms, end_offset = 0, 0, source.start_offset
    if ends:
        first, last = ends[0].first, ends[-1].last
        assert first is not None and last is not None  # noqa: PT018
        begin_ms, end_ms, end_offset = first[1], last[1], last[0] + 1
    return ReadTimeline(
        tuple(events), begin_ms, end_ms, source.start_offset, end_offset, tuple(reads)
    )


def _check_contiguous(reads: Sequence[Read], source: TimelineSource) -> None:
    """Raise PipelineError unless each task begins where the one before it ends. Tasks check what they read, not where they begin."""
    expected = source.start_offset
    for each in reads:
        if each.first is None or each.last is None:
            continue  # the snapshot
        if each.first[0] != expected:
            raise PipelineError(f"{source.name}: {misplaced(each.first[0], expected)}")
        expected = each.last[0] + 1


def _counting(reads: Sequence[Read], known: int | None) -> frozenset[tuple[int, int]]:
    """Return the pieces that take effect; a snapshot always does."""
    of_log = [each for each in reads if each.number != known]
    found, _, _ = counted([(each.boundary, each.is_open) for each in of_log])
    counting = {(of_log[place].number, piece) for place, piece in found}
    return frozenset(counting | ({(known, HEAD)} if known is not None else set()))


def _of_controls(reads: Sequence[Read], source: TimelineSource) -> list[Event]:
    """Return the events of elections and voters. The time before the first record of a span comes from the previous task."""
    timeline = ClusterTimeline()
    before_ms: int | None = None
    known = source.snapshot
    for each in reads:
        for control in each.controls:
            if known is not None and control.offset >= known.id.end_offset:
                _know_voters(timeline, known)
                known = None
            record = DecodedRecord(control.offset, control.time_ms, control.key, control.value)
            at = At(control.offset, control.epoch, control.time_ms)
            earlier = before_ms if control.before_ms is None else control.before_ms
            timeline.take(at, control_content(record).record, earlier)
        before_ms = each.last[1] if each.last is not None else before_ms
    return timeline.events()


def _know_voters(timeline: ClusterTimeline, snapshot: SnapshotFile) -> None:
    voters = snapshot.bounds().voters
    at = At(snapshot.id.end_offset, snapshot.id.epoch, 0)
    timeline.know(at, [voters] if voters else [])


# -- on executors


def _reduce(buckets: int, numbered: tuple[int, Task]) -> Iterator[tuple[Any, Any]]:
    number, task = numbered
    try:
        found = task.read()
    except (PipelineError, OSError) as error:
        yield result_row(Read(number, where(), error=str(error)))
        return
    records = 0 if found.first is None else found.records  # those of a snapshot are not the log's
    large: dict[str, int] = {}
    for part in found.pieces:
        part.drop_repetitions()
        large = part.large_topics(large)
    yield result_row(
        Read(
            number,
            where(),
            records,
            found.first,
            found.last,
            found.boundary,
            found.is_open,
            tuple(found.controls),
            large,
        )
    )
    for piece, part in enumerate(found.pieces):
        if len(part):
            for bucket, cut in enumerate(part.cut(buckets)):
                if len(cut):
                    yield (bucket, number, piece), packed(cut)


def _counts(counting: frozenset[tuple[int, int]], keyed: tuple[tuple[int, int, int], Any]) -> bool:
    """Return whether a part is of a piece that takes effect."""
    return keyed[0][1:] in counting


def _split(
    shards: Mapping[int, Mapping[str, int]],
    buckets: int,
    keyed: tuple[tuple[int, int, int], bytes],
) -> Iterator[tuple[tuple[int, int, int], bytes]]:
    """Split a bucket of topics by shard. `shards`: numbers of shards of large topics, by bucket and topic."""
    (home, number, piece), data = keyed
    if home not in shards:
        yield keyed
        return
    for shard, part in enumerate(unpacked(data).by_shard(shards[home])):
        if len(part):
            yield (key_of(home, shard, buckets), number, piece), packed(part)


def _by_bucket(keyed: tuple[tuple[int, int, int], bytes]) -> tuple[int, tuple[int, int, bytes]]:
    (bucket, number, piece), data = keyed
    return bucket, (number, piece, data)


def _events(keyed: tuple[int, Iterable[tuple[int, int, bytes]]]) -> Iterator[bytes]:
    """Yield the packed events of one bucket."""
    key, parts = keyed
    every: list[Part] = [unpacked(data) for *_, data in sorted(parts, key=lambda each: each[:2])]
    events = list(
        partition_events(
            [each.edges for each in every],
            [table for each in every for table in each.created],
            [table for each in every for table in each.removed],
            of_topics=not is_shard(key),
        )
    )
    events += _of_brokers([record for each in every for record in each.brokers])
    yield packed(events)


def _of_brokers(brokers: list[EncodedRecord]) -> list[Event]:
    timeline = ClusterTimeline()
    brokers.sort(key=lambda each: (each.offset, not each.known))
    known = [each for each in brokers if each.known]
    for each in brokers:
        at = At(each.offset, each.epoch, each.time_ms)
        if not each.known:
            timeline.take(at, metadata_content(each.value).record)
        elif known:
            timeline.know(at, [metadata_content(record.value).record for record in known])
            known = []
    return timeline.events()
