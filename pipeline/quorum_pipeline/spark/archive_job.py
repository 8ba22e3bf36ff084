"""One run of the archive's streaming query, watched until it ends. Owns how it ends and what is told meanwhile."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.log_directory import LogDirectory
from quorum_pipeline.files.snapshot_file import SnapshotFile
from quorum_pipeline.spark.archive import Archive

_LOOK_SECONDS = 1
_RAISED = re.compile(r"[\w.]*(Error|Exception)\b")


@dataclass(frozen=True, slots=True)
class ArchiveJob:
    """`every_seconds`: how often to look for new records; None: up to what is there now."""

    archive: Archive
    log: LogDirectory
    max_rows: int
    every_seconds: float | None

    def run(self, progress: Callable[[int], None], say: Callable[[str], None]) -> None:
        """Until the end, or an interrupt. Raises PipelineError."""
        if not self.archive.contents().ranges:
            self._keep_snapshot()
        options = {"path": str(self.log.path.resolve()), "maxRows": str(self.max_rows)}
        query = self.archive.follow("metadata_log", options, every_seconds=self.every_seconds)
        try:
            while not query.awaitTermination(_LOOK_SECONDS):
                progress(_end_offset(query))
        except KeyboardInterrupt:
            say("stopping: what is not whole is written anew the next time")
            query.stop()
        except PySparkException as error:
            raise PipelineError(_reason(error)) from None

    def _keep_snapshot(self) -> None:
        """The state before the first record is in a snapshot, unless the log begins with nothing."""
        log = self.log
        covering = [each for each in log.snapshots if each.end_offset >= log.start_offset]
        if covering and (log.start_offset > 0 or covering[0].end_offset == 0):
            file = SnapshotFile(log.path / covering[0].file_name, covering[0])
            file.bounds()
            self.archive.begin_behind(file)
        elif log.start_offset > 0:
            raise PipelineError(
                f"the log in {log.path} begins at offset {log.start_offset}, and no snapshot there holds"
                " what was before"
            )


def _end_offset(query: StreamingQuery) -> int:
    """How far the last micro batch went."""
    last = query.lastProgress
    text = last.sources[0].endOffset if last is not None and last.sources else None
    return int(json.loads(text)["offset"]) if text else 0


def _reason(error: PySparkException) -> str:
    """The line that says what is wrong, out of a Python and a Java stack."""
    lines = [line.strip() for line in str(error).splitlines()]
    own = [line.partition("PipelineError: ")[2] for line in lines if "PipelineError: " in line]
    raised = [line for line in lines if _RAISED.match(line)]
    return (own or raised or lines)[-1 if own or raised else 0]
