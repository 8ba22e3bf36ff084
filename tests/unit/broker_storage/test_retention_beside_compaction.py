"""Retention on one thread, compaction on another (cleanup.policy=compact,delete): segments are merged between two steps."""

from pathlib import Path

import pytest

from quorum_node.records.batches import Record
from quorum_node.storage.broker import retention
from quorum_node.storage.broker.compaction import cleanable_part, compact
from quorum_node.storage.broker.log_settings import LogSettings
from quorum_node.storage.broker.partition_log import PartitionLog
from quorum_node.storage.broker.retention import enforce_retention
from support.data_batches import data_batch

SETTINGS = LogSettings(
    segment_bytes=1_000, compacts=True, retention_ms=1_000, min_cleanable_dirty_ratio=0.0
)


def test_retention_deletes_only_the_segments_it_selected_and_not_their_replacements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compaction holds the log's lock while it swaps segments: retention waits for it there, with a number of segments
    that it has counted before.
    """
    log = PartitionLog.open(tmp_path, SETTINGS, clock_ms=lambda: 100_000)
    for offset in range(60):
        # The first 20 are old.
        key = b"same" if offset < 30 else b"k%d" % offset
        timestamp = 1_000 if offset < 20 else 99_500
        records = [Record(key, b"v" * 20)]
        log.append([data_batch(offset, records=records, timestamp_ms=timestamp)])
        if offset % 5 == 4:
            log.roll()  # so that compaction merges pairs of segments
    found = retention.expired_segments
    young = {f"k{offset}".encode() for offset in range(30, 60)}

    def beside_a_compaction(*arguments: object) -> int:
        count = found(*arguments)  # type: ignore[arg-type]
        assert count > 1
        compact(log, cleanable_part(log, 0, 60, 100_000), 100_000)
        return count

    monkeypatch.setattr(retention, "expired_segments", beside_a_compaction)
    enforce_retention(log, 60, 100_000)
    data = log.read(log.start_offset, 1 << 20)
    while len(data) and (more := log.read(_end(data), 1 << 20)):
        data += more
    assert all(key in data for key in young)
    monkeypatch.undo()
    enforce_retention(log, 60, 100_000)
    assert log.read(log.end_offset - 1, 1)


def _end(data: bytes) -> int:
    """End offset of the last batch."""
    at = end = 0
    while at < len(data):
        end = int.from_bytes(data[at : at + 8], "big") + int.from_bytes(data[at + 23 : at + 27], "big") + 1  # fmt: skip
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    return end
