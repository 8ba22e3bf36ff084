"""A kill between two renames of a segment's files: no record of an aborted transaction becomes visible."""

from collections.abc import Callable
from pathlib import Path

import pytest

from quorum_node.records.batches import Record
from quorum_node.storage.broker.compaction import cleanable_part, compact
from quorum_node.storage.broker.log_loading import Known
from quorum_node.storage.broker.log_settings import LogSettings
from quorum_node.storage.broker.partition_log import PartitionLog
from support.data_batches import data_batch, end_of_transaction
from support.disk_cuts import every_cut

SETTINGS = LogSettings(file_delete_delay_ms=0, compacts=True)
FLUSHED = Known(recovery_point=6)
"""The closed segments are not scanned."""


def key(offset: int, name: str, **others: object) -> object:
    return data_batch(offset, records=[Record(name.encode(), b"v")], **others)  # type: ignore[arg-type]


def opened(directory: Path) -> PartitionLog:
    return PartitionLog.open(directory, SETTINGS, FLUSHED, clock_ms=lambda: 5_000)


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """Two closed segments: 0 to 3 with an aborted transaction from 2 on, and 4 to 5."""
    directory = tmp_path / "log"
    directory.mkdir()
    log = PartitionLog.open(directory, SETTINGS, clock_ms=lambda: 5_000)
    aborted = data_batch(2, producer_id=1, sequence=0, transactional=True)
    log.append([key(0, "a"), key(1, "a"), aborted, end_of_transaction(3, 1, abort=True)])  # type: ignore[list-item]
    log.roll()
    log.append([key(4, "b"), key(5, "c")])  # type: ignore[list-item]
    log.roll()
    log.append([key(6, "d")])  # type: ignore[list-item]
    log.close()
    return directory


def compaction(log: PartitionLog) -> None:
    """Only 0 and 1 are cleaned: the transaction is above the high watermark."""
    assert compact(log, cleanable_part(log, 0, 2, 5_000), 5_000) == 2


def retention(log: PartitionLog) -> None:
    assert log.delete_segments(log.segments[:1])


@pytest.mark.parametrize("act", [compaction, retention])
def test_aborted_records_stay_hidden(
    origin: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[PartitionLog], None]
) -> None:
    seen = set()
    for left, _ in every_cut(monkeypatch, origin, lambda copy: act(opened(copy))):
        log = opened(left)
        assert log.end_offset == 7
        has_aborted = log.read(2, 1)[:8] == (2).to_bytes(8, "big")
        seen.add(has_aborted)
        expected = [(1, 2, 3, 4)] if has_aborted else []
        assert log.aborted_transactions(0, 7) == expected, sorted(p.name for p in left.iterdir())
        log.close(cleanly=False)
    assert seen == ({True} if act is compaction else {True, False})
