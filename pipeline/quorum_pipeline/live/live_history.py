"""Committed offsets of a running quorum as tasks of a timeline, and of the versions of rows.

Each task opens its own connection, so credentials have to exist where it runs. No Spark.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from quorum_node.records.batches import CorruptBatch
from quorum_node.records.snapshot_id import SnapshotId
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.timeline_span import KnownTask, timeline_span
from quorum_pipeline.live.controllers import Controllers
from quorum_pipeline.live.live_rows import committed_batches, live_rows
from quorum_pipeline.live.snapshots import fetch_snapshot
from quorum_pipeline.state.log_record import LogRecord, records_of_batch
from quorum_pipeline.timeline.span import TimelineSpan


@dataclass(frozen=True, slots=True)
class LiveTimelineTask:
    """The records from `start` on and below `end`, for a timeline."""

    controllers: Controllers
    start: int
    end: int

    def read(self) -> TimelineSpan:
        """Read the records. Raises PipelineError."""
        with closing(self.controllers.open()) as quorum:
            return timeline_span(live_rows(quorum, self.start, self.end, keep_problems=True))


@dataclass(frozen=True, slots=True)
class LiveKnownTask:
    """The snapshot before the first record, for a timeline."""

    controllers: Controllers
    id: SnapshotId

    def read(self) -> TimelineSpan:
        """Fetch and read the snapshot. Raises PipelineError, OSError."""
        with (
            closing(self.controllers.open()) as quorum,
            TemporaryDirectory(prefix="quorum-pipeline-") as scratch,
        ):
            return KnownTask(fetch_snapshot(quorum, self.id, Path(scratch))).read()


@dataclass(frozen=True, slots=True)
class LiveRecords:
    """The records from `start` on and below `end`, for versions of rows."""

    controllers: Controllers
    start: int
    end: int

    def records(self) -> Iterator[LogRecord]:
        """Yield the records in order. Raises PipelineError."""
        with closing(self.controllers.open()) as quorum:
            for batch in committed_batches(quorum, self.start, self.end):
                try:
                    yield from records_of_batch(batch, self.start, self.end)
                except CorruptBatch as error:
                    offset = batch.header.base_offset
                    raise PipelineError(
                        f"the quorum at {self.controllers.name}, offset {offset}: {error}"
                    ) from None
