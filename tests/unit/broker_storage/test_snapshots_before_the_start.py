"""Snapshots of producers from before the start of a log: the batches after them are gone, so they say nothing about its records."""

from pathlib import Path

import pytest

from quorum_node.storage.broker.log_loading import Known
from quorum_node.storage.broker.log_settings import LogSettings
from quorum_node.storage.broker.partition_log import PartitionLog
from quorum_node.storage.broker.producer_snapshot import snapshot_path
from support.data_batches import data_batch, end_of_transaction

PRODUCER = 5
SETTINGS = LogSettings(segment_bytes=400, file_delete_delay_ms=0)


def with_a_decided_transaction(root: Path) -> PartitionLog:
    """The second segment begins within it."""
    log = PartitionLog.open(root, SETTINGS)
    log.append([data_batch(0, producer_id=PRODUCER, sequence=0, transactional=True)])
    log.roll()
    log.append([end_of_transaction(1, PRODUCER, abort=False)])
    log.roll()
    log.append([data_batch(2)])
    assert log.first_unstable_offset(3) is None
    return log


def test_log_that_lost_its_end_begins_without_open_transactions(tmp_path: Path) -> None:
    """Its records were deleted, and the deletion was durable before the last ones were."""
    with_a_decided_transaction(tmp_path).close(cleanly=False)
    for name in (f"{2:020d}.log", f"{1:020d}.log"):
        (tmp_path / name).unlink()
    known = Known(start_offset=3)
    log = PartitionLog.open(tmp_path, SETTINGS, known)
    log.append([data_batch(3)])
    log.close(cleanly=False)
    again = PartitionLog.open(tmp_path, SETTINGS, known)
    assert (again.start_offset, again.end_offset) == (3, 4)
    assert again.first_unstable_offset(4) is None
    assert not list(tmp_path.glob("*.snapshot"))
    again.close()


@pytest.mark.parametrize("is_clean", [False, True])
def test_snapshot_at_the_start_was_lost(tmp_path: Path, is_clean: bool) -> None:
    """Snapshots are not synced. An older one may still be there if the power is lost after retention."""
    log = with_a_decided_transaction(tmp_path)
    older = snapshot_path(tmp_path, 1).read_bytes()
    assert log.delete_segments(log.segments[:2])
    log.close(cleanly=False)
    snapshot_path(tmp_path, 1).write_bytes(older)
    snapshot_path(tmp_path, 2).unlink()
    again = PartitionLog.open(tmp_path, SETTINGS, Known(was_closed=is_clean))
    assert again.first_unstable_offset(3) is None
    again.close()
