"""One run of the archive's streaming query, monitored until it ends."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql.streaming.query import StreamingQuery

from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.log_directory import LogDirectory
from quorum_pipeline.files.snapshot_file import first_snapshot
from quorum_pipeline.live.controllers import Controllers
from quorum_pipeline.spark.archive import Archive
from quorum_pipeline.spark.reason import SparkError, reason_of
from quorum_pipeline.spark.standstill import Standstill

SPAN_BYTES = 32 << 20
_LOOK_SECONDS = 1
_TRIES = 5
_NO_WORKER = "Python worker failed to connect back"
"""Spark's timeout for the start of the process that requests new offsets is ten seconds: too short on a busy machine."""
_RESTING = "Waiting for "
"""Prefix of the status of a query that waits for its next trigger or for records."""


@dataclass(frozen=True, slots=True)
class ArchiveJob:
    """Archives `source`: a directory, or controllers of a running quorum.

    `every_seconds`: interval between searches for new records; None: end at the current end of the log. `span_bytes`:
    how much of a directory's log one task reads.
    """

    archive: Archive
    source: LogDirectory | Controllers
    max_rows: int
    every_seconds: float | None
    span_bytes: int = SPAN_BYTES

    def run(
        self,
        progress: Callable[[int], None],
        say: Callable[[str], None],
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        """Run until the query ends or `is_stopped` returns True. Raises PipelineError."""
        if not self.archive.contents().ranges:
            self._keep_snapshot()
        for left in reversed(range(_TRIES)):
            try:
                self._run(progress, say, is_stopped)
            except PipelineError as error:
                if _NO_WORKER not in str(error) or not left:
                    raise
                say("Spark's Python process did not start within ten seconds: retrying")
            else:
                return

    def _run(
        self,
        progress: Callable[[int], None],
        say: Callable[[str], None],
        is_stopped: Callable[[], bool],
    ) -> None:
        query = self.archive.follow(
            "metadata_log", self._options(), every_seconds=self.every_seconds
        )
        standstill = Standstill(say, time.monotonic())
        try:
            while not query.awaitTermination(_LOOK_SECONDS):
                progress(_end_offset(query))
                standstill.look(
                    time.monotonic(), self._steps(query), lambda: self._whereabouts(query)
                )
                if is_stopped():
                    say("stopping: incomplete parts are written again by the next run")
                    query.stop()
        except SparkError as error:
            raise PipelineError(reason_of(error)) from None

    def _steps(self, query: StreamingQuery) -> object:
        """Return a value that changes with each step of the query; None while it waits for records."""
        if str(query.status["message"]).startswith(_RESTING):
            return None
        last = query.lastProgress
        return last and last.batchId, [(each.id, each.done) for each in self.archive.stages()]

    def _whereabouts(self, query: StreamingQuery) -> str:
        stages = [
            f"{each.done} of {each.tasks} tasks are done, {each.at_work} are running"
            for each in self.archive.stages()
        ]
        return (
            f"Spark says “{query.status['message']}”, {', '.join(stages) or 'no task is running'}"
        )

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
            if file is not None:
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


def _end_offset(query: StreamingQuery) -> int:
    """Return the end offset of the last micro batch, or 0 if there was none."""
    last = query.lastProgress
    text = last.sources[0].endOffset if last is not None and last.sources else None
    return int(json.loads(text)["offset"]) if text else 0
