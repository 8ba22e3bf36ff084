"""Committed offsets of a running quorum as tasks of a timeline, and of the versions of rows.

Each task opens its own connection, so credentials have to exist where it runs. No Spark.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from quorum_node.records.batches import CorruptBatch, decode_records
from quorum_node.records.snapshot_id import SnapshotId
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.timeline_span import SCHEMA, KnownTask, check_readable
from quorum_pipeline.live.controllers import Controllers
from quorum_pipeline.live.live_rows import committed_batches, live_rows
from quorum_pipeline.live.snapshots import fetch_snapshot
from quorum_pipeline.rows.arrow import record_batch
from quorum_pipeline.rows.table import Rows
from quorum_pipeline.state.log_record import LogRecord
from quorum_pipeline.timeline.span import TimelineSpan


@dataclass(frozen=True, slots=True)
class LiveTimelineTask:
    """The records from `start` on and below `end`, for a timeline."""

    controllers: Controllers
    start: int
    end: int

    def read(self) -> TimelineSpan:
        """Read the records. Raises PipelineError."""
        found = TimelineSpan()
        with closing(self.controllers.open()) as quorum:
            for rows in live_rows(quorum, self.start, self.end, keep_problems=True):
                if isinstance(rows, Rows):
                    check_readable(rows)
                found.add(record_batch(rows, SCHEMA))
        return found


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
                header = batch.header
                try:
                    found = decode_records(batch)
                except CorruptBatch as error:
                    raise PipelineError(
                        f"the quorum at {self.controllers.name}, offset {header.base_offset}: {error}"
                    ) from None
                for record in found:
                    if self.start <= record.offset < self.end:
                        yield LogRecord(
                            record.offset,
                            header.leader_epoch,
                            record.timestamp_ms,
                            header.is_control,
                            record.key,
                            record.value or b"",
                        )
