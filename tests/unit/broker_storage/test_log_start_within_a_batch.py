"""DeleteRecords moved the start of the log into a batch, which stays as a whole: so does what it says about its producer."""

from pathlib import Path

import pytest

from quorum_node.storage.broker.log_loading import Known
from quorum_node.storage.broker.log_settings import LogSettings
from quorum_node.storage.broker.partition_log import PartitionLog
from support.data_batches import data_batch

SETTINGS = LogSettings()


@pytest.mark.parametrize("change", ["truncation", "crash", "clean stop"])
def test_transaction_stays_open(tmp_path: Path, change: str) -> None:
    log = PartitionLog.open(tmp_path, SETTINGS, clock_ms=lambda: 2_000)
    log.append([data_batch(0, 4, producer_id=1, sequence=0, transactional=True)])
    log.append([data_batch(4), data_batch(5)])
    log.delete_records_below(2)
    if change == "truncation":
        log.truncate_to(5)
    else:
        log.close(cleanly=change == "clean stop")
        for path in tmp_path.glob("*.snapshot"):
            path.unlink()
        known = Known(log.recovery_point, 2, was_closed=change == "clean stop")
        log = PartitionLog.open(tmp_path, SETTINGS, known, clock_ms=lambda: 2_000)
    assert log.start_offset == 2
    assert log.first_unstable_offset(log.end_offset) == 0
    (entry,) = log.producers()
    assert entry.batches[-1].last_sequence == 3
