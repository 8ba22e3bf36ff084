"""Chooses the snapshot from which the state at a point is computed (the newest one that is not too new), and finds
the segment of a record.
"""

from pathlib import Path

from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.log_directory import LogDirectory
from quorum_pipeline.files.log_span import PlacedBatch, read_span
from quorum_pipeline.files.snapshot_file import SnapshotFile, snapshot_before
from quorum_pipeline.state.moment import Moment

_SPAN_BYTES = 8 << 20


def start_of(log: LogDirectory, moment: Moment) -> SnapshotFile | None:
    """Return the snapshot from which the state at a moment is computed; None: from the first record.

    Raises PipelineError if the log does not have this moment.
    """
    end_offset = log.end_offset()
    if moment.offset is not None and not 0 <= moment.offset <= end_offset:
        raise _not_there(log, f"offset {moment.offset}", end_offset)
    start = _snapshot(log, moment)
    if start is None and log.start_offset > 0:
        wanted = f"time {moment.time_ms} ms" if moment.offset is None else f"offset {moment.offset}"
        raise _not_there(log, wanted, end_offset)
    return start


def file_of(log: LogDirectory, offset: int) -> Path:
    """Return the segment that contains a record."""
    return max(
        (each for each in log.segments if each.base_offset <= offset),
        key=lambda each: each.base_offset,
    ).path


def _snapshot(log: LogDirectory, moment: Moment) -> SnapshotFile | None:
    """Return the newest snapshot that is not too new; None if the log is complete without one.

    For a time: the oldest one that the log continues. A state ends before the first later record, and after a clock was set back a
    snapshot has records of earlier times than those before them. A snapshot shows only the time of its last record.
    """
    if moment.offset is None and moment.time_ms is not None:
        return _before_all_records(log, moment.time_ms)
    for each in reversed(log.snapshots):
        if moment.offset is None or each.end_offset <= moment.offset:
            return SnapshotFile(log.path / each.file_name, each)
    return None


def _before_all_records(log: LogDirectory, time_ms: int) -> SnapshotFile | None:
    """Return the snapshot before the first record of the log, unless it is later than `time_ms`, or contains a later record that the
    log still has.
    """
    file = snapshot_before(log)
    if file is None or file.latest_ms() > time_ms:
        return None
    for span in log.spans(log.start_offset, _SPAN_BYTES, file.id.end_offset):
        for each in read_span(span):
            if isinstance(each, PlacedBatch) and each.batch.header.max_timestamp_ms > time_ms:
                return None
    return file


def _not_there(log: LogDirectory, wanted: str, end_offset: int) -> PipelineError:
    snapshots = ", ".join(str(each.end_offset) for each in log.snapshots)
    text = f"the log in {log.path} has no state at {wanted}: it has offsets {log.start_offset} to {end_offset}"
    return PipelineError(f"{text}, and snapshots at {snapshots}" if snapshots else text)
