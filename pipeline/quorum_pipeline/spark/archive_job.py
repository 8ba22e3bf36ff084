"""One run of an archive: range after range, monitored until the end of the log or a signal."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

from quorum_pipeline.archive.layout import OffsetRange
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.log_directory import LogDirectory
from quorum_pipeline.files.snapshot_file import first_snapshot
from quorum_pipeline.live.controllers import Controllers
from quorum_pipeline.spark.archive import Archive
from quorum_pipeline.spark.stall_detection import StallDetector

SPAN_BYTES = 32 << 20
_LOOK_SECONDS = 1
_END_SECONDS = 30
"""Time for a canceled job to end."""


def _never(seconds: float) -> bool:
    """Wait; there is no signal that stops the job."""
    time.sleep(seconds)
    return False


@dataclass(frozen=True, slots=True)
class Merging:
    """Small ranges are merged while a log is followed: at most every `every_seconds`, to ranges of up to `target_rows`. The parts are
    kept for `keep_seconds`, for queries that have begun with them.
    """

    target_rows: int
    every_seconds: float
    keep_seconds: float


@dataclass(frozen=True, slots=True)
class ArchiveJob:
    """Archives `source`: a directory, or controllers of a running quorum.

    `every_seconds`: interval between searches for new records; None: end at the current end of the log. `span_bytes`:
    how much of a directory's log one task reads. `merging`: only with `every_seconds`; None: nothing is merged.
    """

    archive: Archive
    source: LogDirectory | Controllers
    max_rows: int
    every_seconds: float | None
    span_bytes: int = SPAN_BYTES
    merging: Merging | None = None

    def run(
        self,
        progress: Callable[[int], None],
        report: Callable[[str], None],
        is_stopped: Callable[[float], bool] = _never,
        expect: Callable[[int], None] = lambda end: None,
    ) -> None:
        """Run until the end of the log, or until `is_stopped`, which waits a number of seconds, returns True.

        `progress` gets the offset up to which records are archived, `expect` the one up to which there are records.

        Raises PipelineError.
        """
        with self.archive.remembering():
            self._run(progress, report, is_stopped, expect)

    def _run(
        self,
        progress: Callable[[int], None],
        report: Callable[[str], None],
        is_stopped: Callable[[float], bool],
        expect: Callable[[int], None],
    ) -> None:
        if not self.archive.contents().ranges:
            self._keep_snapshot()
        origin, at = self.archive.begin(self._options())
        last = None if self.every_seconds is not None else origin.bounds()[1]
        merge_at = time.monotonic()
        while not is_stopped(0):
            end = origin.bounds()[1] if last is None else last
            expect(end)
            # The log may end before the archive: that of a replica which is behind.
            stop = min(end, at + self.max_rows)
            if stop > at:
                if not self._write(OffsetRange(at, stop), report, is_stopped):
                    break
                at = stop
                progress(at)
                if at < end:
                    continue
            origin.check_end()
            if self.every_seconds is None:
                return
            if self.merging is not None and time.monotonic() >= merge_at:
                self._merge(self.merging, report, is_stopped)
                merge_at = time.monotonic() + self.merging.every_seconds
            is_stopped(self.every_seconds)
        report("stopping: incomplete parts are written again by the next run")

    def _write(
        self,
        wanted: OffsetRange,
        report: Callable[[str], None],
        is_stopped: Callable[[float], bool],
    ) -> bool:
        """Write a range; return False if it was interrupted. Raises PipelineError."""
        return self._run_in_thread(partial(self.archive.write, wanted), report, is_stopped)

    def _merge(
        self, merging: Merging, report: Callable[[str], None], is_stopped: Callable[[float], bool]
    ) -> None:
        """Merge small ranges until there are too few of them. What can't be merged is reported, and archiving continues."""
        again = True

        def merge() -> None:
            nonlocal again
            again = self.archive.merge_next(merging.target_rows, merging.keep_seconds, report)

        try:
            while again and not is_stopped(0):
                again = self._run_in_thread(merge, report, is_stopped) and again
        except PipelineError as error:
            report(f"not merged: {error}")

    def _run_in_thread(
        self,
        work: Callable[[], None],
        report: Callable[[str], None],
        is_stopped: Callable[[float], bool],
    ) -> bool:
        """Do work on another thread; return False if it was interrupted. Raises its errors."""
        working = _WorkerThread(work)
        detector = StallDetector(report, time.monotonic())
        working.start()
        try:
            while working.is_alive():
                working.join(_LOOK_SECONDS)
                detector.check(time.monotonic(), self._steps(), self._task_progress)
                if working.is_alive() and is_stopped(0):
                    self.archive.cancel()
                    working.join(_END_SECONDS)
                    return working.error is None and not working.is_alive()
        except PipelineError:
            self.archive.cancel()
            raise
        if working.error is not None:
            raise working.error
        return True

    def _steps(self) -> object:
        """Return a value that changes with each step."""
        return [(each.id, each.done) for each in self.archive.stages()]

    def _task_progress(self) -> str:
        stages = [
            f"{each.done} of {each.tasks} tasks are done, {each.active} are running"
            for each in self.archive.stages()
        ]
        return ", ".join(stages) or "no task is running"

    def _options(self) -> dict[str, str]:
        options = {"maxRows": str(self.max_rows)}
        if isinstance(self.source, LogDirectory):
            path = str(self.source.path.resolve())
            return options | {"path": path, "spanBytes": str(self.span_bytes)}
        return options | self.source.options()

    def _keep_snapshot(self) -> None:
        """Archive the snapshot with the state before the first record. A log that begins at offset 0 has none."""
        if isinstance(self.source, LogDirectory):
            file = first_snapshot(self.source)
            if file is None:
                self.archive.check_new(None)
            else:
                file.bounds()
                self.archive.begin_behind(file)
            return
        from quorum_pipeline.live.snapshots import download_snapshot

        with (
            closing(self.source.open()) as quorum,
            TemporaryDirectory(prefix="quorum-pipeline-") as scratch,
        ):
            if quorum.committed().start_offset > 0:
                self.archive.begin_behind(download_snapshot(quorum, Path(scratch)))
            else:
                self.archive.check_new(None)


class _WorkerThread(Thread):
    """Works beside the thread that receives signals: one would interrupt a call to Java."""

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self.error: BaseException | None = None

    def run(self) -> None:
        """See Thread."""
        try:
            self._work()
        except BaseException as error:
            self.error = error
