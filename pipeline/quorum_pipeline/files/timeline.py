"""The timeline of a log in a directory, and its Parquet file. Owns reading and writing; what is an event is decided in `timeline`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from quorum_node.records.batches import decode_records
from quorum_pipeline.files.log_directory import LogDirectory, open_log
from quorum_pipeline.files.log_span import read_whole
from quorum_pipeline.files.snapshot_file import SnapshotFile
from quorum_pipeline.rows.content import control_content, metadata_content
from quorum_pipeline.timeline.events import At, Event, Timeline

_WHOLE_SEGMENT = 1 << 62


@dataclass(frozen=True, slots=True)
class ReadTimeline:
    """Events, and what the log spans."""

    events: tuple[Event, ...]
    begin_ms: int
    end_ms: int
    start_offset: int
    end_offset: int


def read_timeline(
    path: Path, progress: Callable[[int], None] = lambda end_offset: None
) -> ReadTimeline:
    """Raises PipelineError: not a log, or damaged. Records that are not known say nothing."""
    log = open_log(path)
    timeline = Timeline()
    begin_ms: int | None = None
    end_ms, end_offset = 0, log.start_offset
    snapshot = _first_snapshot(log)
    for span in log.spans(log.start_offset, _WHOLE_SEGMENT):
        for placed in read_whole(span):
            header = placed.batch.header
            if snapshot is not None and header.base_offset >= snapshot.id.end_offset:
                _know(timeline, snapshot)
                snapshot = None
            begin_ms = header.base_timestamp_ms if begin_ms is None else begin_ms
            for record in decode_records(placed.batch):
                found = (
                    control_content(record) if header.is_control else metadata_content(record.value)
                )
                timeline.take(
                    At(record.offset, header.leader_epoch, record.timestamp_ms), found.record
                )
            end_ms, end_offset = header.max_timestamp_ms, header.end_offset
            progress(end_offset)
    if snapshot is not None and end_offset >= snapshot.id.end_offset:
        _know(timeline, snapshot)
    events = tuple(timeline.events())
    return ReadTimeline(events, begin_ms or 0, end_ms, log.start_offset, end_offset)


def _first_snapshot(log: LogDirectory) -> SnapshotFile | None:
    """The oldest one in a log whose beginning is gone: it says what was before. A log from offset 0 on says all."""
    if not log.start_offset:
        return None
    later = (each for each in log.snapshots if each.end_offset >= log.start_offset)
    first = min(later, default=None)
    return None if first is None else SnapshotFile(log.path / first.file_name, first)


def _know(timeline: Timeline, file: SnapshotFile) -> None:
    bounds = file.bounds()
    at = At(file.id.end_offset, file.id.epoch, bounds.last_contained_log_timestamp_ms)
    told = (
        metadata_content(record.value).record
        for _, batch in file.batches()
        if not batch.header.is_control
        for record in decode_records(batch)
    )
    timeline.know(at, [bounds.voters, *told] if bounds.voters else told)


def write_events(path: Path, events: Sequence[Event]) -> None:
    """One row each. Raises OSError."""
    time = pa.timestamp("ms", tz="UTC")
    table = pa.table(
        {
            "kind": pa.array([each.kind for each in events], pa.string()),
            "subject": pa.array([each.subject for each in events], pa.string()),
            "begin": pa.array([each.begin_ms for each in events], time),
            "end": pa.array([each.end_ms for each in events], time),
            "duration_ms": pa.array([each.duration_ms for each in events], pa.int64()),
            "begin_offset": pa.array([each.begin_offset for each in events], pa.int64()),
            "at_most_ms": pa.array([each.at_most_ms for each in events], pa.int64()),
            "end_offset": pa.array([each.end_offset for each in events], pa.int64()),
            "detail": pa.array([each.detail for each in events], pa.string()),
        }
    )
    pq.write_table(table, path)
