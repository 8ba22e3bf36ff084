"""The timeline of a log in a directory, and its Parquet file. Owns reading and writing; what is an event is decided in `timeline`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from quorum_node.records.batches import decode_records
from quorum_pipeline.files.log_directory import open_log
from quorum_pipeline.files.log_span import read_whole
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
    for span in log.spans(log.start_offset, _WHOLE_SEGMENT):
        for placed in read_whole(span):
            header = placed.batch.header
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
    events = tuple(timeline.events())
    return ReadTimeline(events, begin_ms or 0, end_ms, log.start_offset, end_offset)


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
            "end_offset": pa.array([each.end_offset for each in events], pa.int64()),
            "detail": pa.array([each.detail for each in events], pa.string()),
        }
    )
    pq.write_table(table, path)
