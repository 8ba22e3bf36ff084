"""Offsets by timestamp, beside deleted records."""

from pathlib import Path

from quorum_node.storage.broker.log_settings import LogSettings
from quorum_node.storage.broker.partition_log import PartitionLog
from quorum_node.storage.broker.timestamp_search import offset_of_newest
from support.data_batches import data_batch


def test_record_with_the_largest_timestamp_is_one_that_is_not_deleted(tmp_path: Path) -> None:
    log = PartitionLog.open(tmp_path, LogSettings())
    for offset, timestamp_ms in enumerate((9_000, 1_000, 500)):
        log.append([data_batch(offset, timestamp_ms=timestamp_ms)])
    log.append([data_batch(3, count=4, timestamp_ms=100, first_timestamp_ms=150)])
    log.delete_records_below(1)
    assert offset_of_newest(log) == (1, 1_000, 0)
    log.delete_records_below(3)
    assert offset_of_newest(log) == (3, 150, 0)
    log.delete_records_below(5)  # within the last batch, whose newest record is the first one
    assert offset_of_newest(log) == (5, 100, 0)
