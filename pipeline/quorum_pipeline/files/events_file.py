"""Writes events to a Parquet file, one row each. Owns its columns."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from quorum_pipeline.timeline.events import Event


def write_events(path: Path, events: Sequence[Event]) -> None:
    """Write events, one row each. Raises OSError."""
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
