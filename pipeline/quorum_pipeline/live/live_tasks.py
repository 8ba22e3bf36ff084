"""The committed log of a running quorum as tasks that compute its state at one point.

Owns how offsets are divided, and the choice of the snapshot where the log begins later than at offset 0. Each task opens
its own connection, so credentials have to exist where it runs. No Spark.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from quorum_node.records.batches import CorruptBatch
from quorum_node.records.snapshot_id import SnapshotId
from quorum_pipeline.deltas.contradiction import Contradiction
from quorum_pipeline.deltas.summary import Summary
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.log_directory import LogSpan
from quorum_pipeline.files.log_span import PlacedBatch
from quorum_pipeline.files.reduced_span import (
    BEFORE_THE_LOG,
    Reduced,
    SnapshotTask,
    SpanTask,
)
from quorum_pipeline.files.snapshot_file import SnapshotFile, latest_ms_in
from quorum_pipeline.live.controllers import Controllers
from quorum_pipeline.live.live_rows import NO_POSITION, committed_batches
from quorum_pipeline.live.quorum import Quorum
from quorum_pipeline.live.snapshots import fetch_snapshot
from quorum_pipeline.state.moment import Moment

if TYPE_CHECKING:
    from quorum_pipeline.state.compiled_span import CompiledSpan

MIN_OFFSETS, MAX_OFFSETS = 20_000, 200_000
"""Offsets of a task."""
TASKS_PER_SLOT = 3
WORTH_RECORDS = 65_536
"""Fewer records are reduced one by one, as loading the compiled loops would take longer."""
RECORD_BYTES = 60
"""Usual size of a record, to estimate the size of a log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveTask(SpanTask):
    """The committed records from `start_offset` on and below `end_offset`."""

    controllers: Controllers

    @property
    def size_bytes(self) -> int:
        """See SpanTask; an estimate."""
        return (self.end_offset - self.start_offset) * RECORD_BYTES

    def pieces(self) -> Iterator[PlacedBatch]:
        """See SpanTask. Raises PipelineError."""
        with closing(self.controllers.open()) as quorum:
            for batch in committed_batches(quorum, self.start_offset, self.end_offset):
                yield PlacedBatch(batch, NO_POSITION)

    def runs(self) -> Iterator[PlacedBatch]:
        """See SpanTask."""
        return self.pieces()


@dataclass(frozen=True, slots=True)
class LiveSnapshotTask:
    """The state before the first record: the leader's snapshot, fetched where the task runs."""

    controllers: Controllers
    id: SnapshotId

    def compacted(self) -> "tuple[CompiledSpan, Summary]":
        """See SnapshotTask. Raises Unsupported, PipelineError, OSError."""
        with self._fetched() as file:
            return SnapshotTask(file).compacted()

    def reduced(self) -> Reduced:
        """See SnapshotTask. Raises PipelineError, OSError."""
        with self._fetched() as file:
            return SnapshotTask(file).reduced()

    @contextmanager
    def _fetched(self) -> Iterator[SnapshotFile]:
        with (
            closing(self.controllers.open()) as quorum,
            TemporaryDirectory(prefix="quorum-pipeline-") as scratch,
        ):
            yield fetch_snapshot(quorum, self.id, Path(scratch))


@dataclass(frozen=True, slots=True)
class LiveTasks:
    """Like `LogTasks`."""

    name: str
    start_offset: int
    tasks: tuple[LiveTask | LiveSnapshotTask, ...]
    cuts: tuple[int, ...]

    def error(self, wrong: Contradiction) -> PipelineError:
        """Convert a contradiction to an error that names the quorum."""
        if wrong.offset < 0:
            offset = wrong.offset - BEFORE_THE_LOG
            return PipelineError(f"{self.name}, snapshot, offset {offset}: {wrong.reason}")
        return PipelineError(f"{self.name}, offset {wrong.offset}: {wrong.reason}")


class LiveHistory(NamedTuple):
    """Committed offsets of a quorum's log, and the snapshot with which its states begin, if not at offset 0."""

    log_start: int
    base: SnapshotId | None
    end: int


@dataclass(frozen=True, slots=True)
class LiveSource:
    """A running quorum, as a source of states (`spark.spark_history.Source`). Only committed records are read."""

    controllers: Controllers
    worth_records: int = WORTH_RECORDS

    def buckets(self, slots: int) -> int:
        """See Source."""
        return max(slots, 2)

    def version(self) -> object:
        """See `spark.spark_history.MergedSource`: a leader deletes its first records and its snapshot behind a newer one, and the
        next leader has other ones. Raises PipelineError.
        """
        with closing(self.controllers.open()) as quorum:
            found = quorum.committed()
            base = quorum.newest_snapshot() if found.start_offset > 0 else None
        return found.start_offset, base

    def plan(self, moments: Sequence[Moment], slots: int, *, compiled: bool) -> LiveTasks | None:
        """See Source. Raises PipelineError, also if the quorum no longer has a moment."""
        name = f"the quorum at {self.controllers.name}"
        with closing(self.controllers.open()) as quorum:
            found = quorum.committed()
            base = quorum.newest_snapshot() if found.start_offset > 0 else None
            if found.start_offset > 0:
                _check_behind(quorum, name, found.start_offset, base, moments[0])
        tasks: list[LiveTask | LiveSnapshotTask] = []
        at = start = found.start_offset
        if base is not None:
            at = start = base.end_offset
            tasks.append(LiveSnapshotTask(self.controllers, base))
        if compiled and found.end_offset - at < self.worth_records:
            return None
        cuts = []
        for moment in moments:
            end = found.end_offset if moment.offset is None else moment.offset
            if not start <= end <= found.end_offset:
                raise PipelineError(
                    f"{name} has states at offsets {start} to {found.end_offset}, not {end}"
                )
            tasks += self._tasks(at, end, moment.time_ms, slots)
            cuts.append(len(tasks))
            at = max(at, end)
        return LiveTasks(name, start, tuple(tasks), tuple(cuts))

    def ranges(self, start: int, end: int, slots: int) -> Iterator[tuple[int, int]]:
        """Divide offsets for tasks, `slots` of which run at a time."""
        step = min(max((end - start) // (slots * TASKS_PER_SLOT), MIN_OFFSETS), MAX_OFFSETS)
        for begin in range(start, end, step):
            yield begin, min(begin + step, end)

    def history(self) -> LiveHistory:
        """Return what the quorum has now. Raises PipelineError if records and snapshot are missing."""
        with closing(self.controllers.open()) as quorum:
            found = quorum.committed()
            base = quorum.newest_snapshot() if found.start_offset > 0 else None
        if base is None and found.start_offset > 0:
            raise _no_beginning(f"the quorum at {self.controllers.name}")
        return LiveHistory(found.start_offset, base, found.end_offset)

    def _tasks(self, start: int, end: int, time_ms: int | None, slots: int) -> Iterator[LiveTask]:
        for begin, stop in self.ranges(start, end, slots):
            span = LogSpan(self.controllers.name, 0, 0, begin, stop, is_last=False)
            yield LiveTask(span, begin, stop, time_ms, controllers=self.controllers)


def size_of(controllers: Controllers) -> int:
    """Estimate the size of a quorum's log in bytes. Raises PipelineError."""
    with closing(controllers.open()) as quorum:
        found = quorum.committed()
    return (found.end_offset - found.start_offset) * RECORD_BYTES


def _no_beginning(name: str) -> PipelineError:
    return PipelineError(f"{name} has neither the first records of its log nor a snapshot")


def _check_behind(
    quorum: Quorum, name: str, log_start: int, base: SnapshotId | None, moment: Moment
) -> None:
    """Raise PipelineError if a moment is before the snapshot, with which the quorum's history begins.

    A snapshot shows only the time of its last record. After a clock was set back, earlier ones may be later: the log has some of them.
    """
    if base is None:
        raise _no_beginning(name)
    early = moment.offset is not None and moment.offset < base.end_offset
    if moment.time_ms is not None:
        data, _ = quorum.snapshot_part(base, 0)
        try:
            early = latest_ms_in(data) > moment.time_ms or any(
                each.header.max_timestamp_ms > moment.time_ms
                for each in committed_batches(quorum, log_start, base.end_offset)
            )
        except CorruptBatch as error:
            raise PipelineError(f"{quorum.leader}, snapshot {base}: {error}") from None
    if early:
        raise PipelineError(
            f"{name} has no state before offset {base.end_offset}, where its snapshot ends: earlier ones may be in an archive"
        )
