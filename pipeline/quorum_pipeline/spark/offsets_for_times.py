"""Finds the offset at which a query begins or ends for a timestamp, as Kafka's `offsetsForTimes` (ListOffsets) does.

Searches by halving, so it reads a few records whatever the length of the log, and relies on times that do not decrease. Where the clock of
a new leader is behind that of the one before, a record near the time may be on the other side.
"""

from __future__ import annotations

from bisect import bisect_left
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quorum_pipeline.spark.origins import Origin

_LOOKED_AT = 64
"""Offsets that are read at a place: some may have no time, because their records can't be read."""
_NO_TIME = -1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def offset_of(origin: Origin, start: int, end: int, time_ms: int) -> int:
    """Return the first offset from `start` on whose record has this time (ms) or a later one; `end` if there is none below it.

    Raises PipelineError, OSError.
    """
    offsets = range(start, end)
    return start + bisect_left(offsets, time_ms, key=lambda at: _time_ms(origin, at, end))


def _time_ms(origin: Origin, offset: int, end: int) -> int:
    """Return the time of the first record from an offset on that has one; _NO_TIME if none near it has."""
    from pyspark.sql.types import LongType, StructField, StructType, TimestampType

    fields = [StructField("offset", LongType()), StructField("timestamp", TimestampType())]
    for task in origin.tasks(offset, min(offset + _LOOKED_AT, end)):
        for batch in task.batches(StructType(fields), keep_problems=True):
            times: list[datetime | None] = batch.column("timestamp").to_pylist()
            for time in times:
                if time is not None:
                    return (time - _EPOCH) // timedelta(milliseconds=1)
    return _NO_TIME
