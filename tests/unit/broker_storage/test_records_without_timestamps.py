"""Records without a timestamp: the age of a segment is that of its file, as on a stock broker (`LogSegment.largestTimestamp`)."""

import os
from dataclasses import replace
from pathlib import Path

from quorum_node.records.batches import Record
from quorum_node.storage.broker.compaction import cleanable_part, compact
from quorum_node.storage.broker.log_loading import Known
from quorum_node.storage.broker.log_settings import LogSettings
from quorum_node.storage.broker.partition_log import PartitionLog
from quorum_node.storage.broker.retention import enforce_retention
from support.data_batches import data_batch

SETTINGS = LogSettings(segment_bytes=1_000, retention_ms=100)
NOW_MS = 1_000_000
KNOWN = Known(recovery_point=30, start_offset=0, was_closed=True)


def filled(directory: Path, settings: LogSettings = SETTINGS, *, timestamp_ms: int) -> PartitionLog:
    """30 batches in several segments. The log itself is opened at `NOW_MS`."""
    log = PartitionLog.open(directory, settings, clock_ms=lambda: NOW_MS)
    for offset in range(30):
        records = [Record(b"k%d" % (offset % 3), b"v" * 20)]
        log.append([data_batch(offset, timestamp_ms=timestamp_ms, records=records)])
    return log


def change(log: PartitionLog, *modified_ms: int) -> None:
    """Set the times of the first files."""
    for segment, each in zip(log.segments, modified_ms, strict=False):
        os.utime(segment.path, ns=(each * 1_000_000, each * 1_000_000))


def test_retention_goes_by_the_time_of_the_file(tmp_path: Path) -> None:
    log = filled(tmp_path, timestamp_ms=-1)
    _, second, third, *_ = (each.base_offset for each in log.segments)
    change(log, NOW_MS - 101, NOW_MS - 100)
    assert enforce_retention(log, 30, NOW_MS)
    assert log.start_offset == second, "the second file is not old enough"
    assert enforce_retention(log, 30, NOW_MS + 1)
    assert log.start_offset == third


def test_a_timestamp_precedes_the_time_of_the_file(tmp_path: Path) -> None:
    log = filled(tmp_path, timestamp_ms=NOW_MS)
    change(log, 0, 0)
    assert not enforce_retention(log, 30, NOW_MS + 100)
    assert log.start_offset == 0


def test_a_lost_index_of_timestamps_does_not_keep_a_segment(tmp_path: Path) -> None:
    """After a clean stop the time index is trusted: an empty one says that no record has a timestamp."""
    log = filled(tmp_path, timestamp_ms=NOW_MS)
    log.close()
    second = log.segments[1].base_offset
    log.segments[0].times.path.write_bytes(b"")
    again = PartitionLog.open(tmp_path, SETTINGS, KNOWN, clock_ms=lambda: NOW_MS)
    assert again.segments[0].max_timestamp_ms == -1, "the index was rebuilt: the test tests nothing"
    change(again, NOW_MS - 101)
    assert enforce_retention(again, 30, NOW_MS)
    assert again.start_offset == second


def test_restart_does_not_make_records_younger(tmp_path: Path) -> None:
    log = filled(tmp_path, timestamp_ms=-1)
    log.close()
    for known in (KNOWN, replace(KNOWN, was_closed=False)):
        again = PartitionLog.open(tmp_path, SETTINGS, known, clock_ms=lambda: NOW_MS)
        change(again, NOW_MS - 101)
        again.close()
    again = PartitionLog.open(tmp_path, SETTINGS, KNOWN, clock_ms=lambda: NOW_MS)
    assert enforce_retention(again, 30, NOW_MS)


def test_compaction_does_not_make_records_younger(tmp_path: Path) -> None:
    """The new file has the time of the newest file that it replaces."""
    settings = replace(SETTINGS, compacts=True)
    log = filled(tmp_path, settings, timestamp_ms=-1)
    log.configure(replace(settings, segment_bytes=10_000))
    count = len(log.segments) - 1
    change(log, *(NOW_MS - 200 + number for number in range(count)))
    compact(log, cleanable_part(log, 0, 30, NOW_MS), NOW_MS)
    assert len(log.segments) == 2
    assert count == 2
    newest_ms = NOW_MS - 200 + count - 1
    assert log.segments[0].newest_ms() == newest_ms
    assert not enforce_retention(log, 30, newest_ms + 100)
    assert enforce_retention(log, 30, newest_ms + 101)


def test_minimum_compaction_lag_goes_by_the_time_of_the_file(tmp_path: Path) -> None:
    settings = replace(SETTINGS, compacts=True, min_compaction_lag_ms=100)
    log = filled(tmp_path, settings, timestamp_ms=-1)
    change(log, NOW_MS - 101, NOW_MS - 99)
    assert cleanable_part(log, 0, 30, NOW_MS).end_offset == log.segments[1].base_offset
