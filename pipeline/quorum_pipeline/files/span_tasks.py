"""Partitions a log directory into tasks that can be reduced in parallel.

`reduced_span.py` executes a task. Nothing is decoded here except batch headers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from quorum_pipeline.deltas.contradiction import Contradiction
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.log_directory import LogDirectory, open_log
from quorum_pipeline.files.log_moments import file_of, start_of
from quorum_pipeline.files.log_span import check_end
from quorum_pipeline.files.reduced_span import BEFORE_THE_LOG, SnapshotTask, SpanTask, Task
from quorum_pipeline.files.snapshot_file import SnapshotFile, first_snapshot
from quorum_pipeline.state.moment import Moment

MIN_BYTES, MAX_BYTES = 4 << 20, 256 << 20
TASKS_PER_SLOT = 3
"""More tasks than slots, so that faster executors process more."""
_END = 1 << 62


@dataclass(frozen=True, slots=True)
class LogTasks:
    """The tasks of a log, in order. `cuts`: number of tasks up to each requested moment."""

    log: LogDirectory
    start: SnapshotFile | None
    tasks: tuple[Task, ...]
    cuts: tuple[int, ...]

    @property
    def name(self) -> str:
        """Path of the log."""
        return str(self.log.path)

    @property
    def start_offset(self) -> int:
        """First offset of the log."""
        return self.log.start_offset

    @property
    def size_bytes(self) -> int:
        """Size of the segments."""
        return sum(each.size_bytes for each in self.log.segments)

    def error(self, wrong: Contradiction) -> PipelineError:
        """Convert a contradiction to an error that names its file."""
        if wrong.offset < 0:
            assert self.start is not None, "only a snapshot has such offsets"
            offset = wrong.offset - BEFORE_THE_LOG
            return PipelineError(f"{self.start.path}, offset {offset}: {wrong.reason}")
        path = str(file_of(self.log, wrong.offset))
        if path in wrong.reason:
            return PipelineError(wrong.reason)  # the reason contains the position
        return PipelineError(f"{path}, offset {wrong.offset}: {wrong.reason}")


def tasks_of(
    path: Path,
    moments: Sequence[Moment],
    slots: int,
    span_bytes: int | None = None,
    *,
    from_first: bool = False,
) -> LogTasks:
    """Return the tasks up to each moment. The moments are in order: a single one, or offsets only.

    `slots`: tasks that run at a time. `from_first`: start at the beginning of the log instead of the newest snapshot.

    Raises PipelineError if the log does not have a moment.
    """
    log = open_log(path)
    start = first_snapshot(log) if from_first else start_of(log, moments[0])
    for each in moments[1:]:
        start_of(log, each)
    total = sum(each.size_bytes for each in log.segments)
    target = span_bytes or min(max(total // (slots * TASKS_PER_SLOT), MIN_BYTES), MAX_BYTES)
    tasks: list[Task] = [] if start is None else [SnapshotTask(start)]
    at = log.start_offset if start is None else start.id.end_offset
    cuts = []
    for moment in moments:
        end = _open_end(log) if moment.offset is None else moment.offset
        tasks += _spans(log, at, end, moment.time_ms, target)
        cuts.append(len(tasks))
        at = end
    return LogTasks(log, start, tuple(tasks), tuple(cuts))


def _open_end(log: LogDirectory) -> int:
    """Return the end offset for reading without a specified end. Raises PipelineError if records are missing there."""
    check_end(log)
    committed = log.committed_end_offset()
    return _END if committed is None else committed


def _spans(
    log: LogDirectory, start: int, end: int, time_ms: int | None, target: int
) -> Iterator[Task]:
    for span in log.spans(start, target):
        if span.base_offset >= end:
            return
        begin = max(span.base_offset, start)
        stop = end if span.end_offset is None else min(span.end_offset, end)
        if begin < stop:
            yield SpanTask(span, begin, stop, time_ms)
