"""The log while it is open: reading, truncating, rolling, and what flush proves."""

import random
import threading
from pathlib import Path

import pytest

from quorum_node.records.batches import Record, encode_batch
from quorum_node.storage import log as log_module
from quorum_node.storage.errors import DiskFull, StorageFailure
from quorum_node.storage.log import SegmentedLog
from quorum_node.storage.segment import Segment


def batch(base: int, epoch: int = 1, count: int = 1, size: int = 20) -> bytes:
    records = [Record(None, bytes(size)) for _ in range(count)]
    return encode_batch(base_offset=base, leader_epoch=epoch, timestamp_ms=1, records=records)


def append(log: SegmentedLog, epoch: int = 1, count: int = 1, size: int = 20) -> bytes:
    base = log.end_offset
    data = batch(base, epoch, count, size)
    log.append(data, base, base + count, epoch)
    return data


@pytest.mark.parametrize("cache_bytes", [0, 500, 1 << 20])
def test_reads_equal_the_appended_batches(tmp_path: Path, cache_bytes: int) -> None:
    rng = random.Random(7)
    log = SegmentedLog(tmp_path, segment_bytes=3000, cache_bytes=cache_bytes)
    batches: list[tuple[int, int, bytes]] = []
    for _ in range(300):
        base = log.end_offset
        data = append(log, count=rng.randint(1, 4), size=rng.choice([10, 100, 5000]))
        batches.append((base, log.end_offset, data))
    assert len(list(tmp_path.glob("*.log"))) > 5
    for _ in range(500):
        start = rng.randrange(log.end_offset)
        limit = rng.randrange(start, log.end_offset + 1)
        max_bytes = rng.choice([0, 1, 200, 3000, 100_000])
        got = log.read(start, max_bytes, limit)
        wanted = [data for base, end, data in batches if end > start and end <= limit]
        assert b"".join(wanted).startswith(got)
        assert bool(got) == bool(wanted)
        if wanted:
            assert len(got) <= max(max_bytes, len(wanted[0]))
    assert log.read(log.end_offset, 1000, log.end_offset) == b""
    log.close()


def test_batches_appended_together_are_read_one_by_one(tmp_path: Path) -> None:
    log = SegmentedLog(tmp_path)
    first, second = batch(0), batch(1, count=2)
    log.append(first + second, 0, 3, 1)
    assert log.read(0, 1 << 20, 1) == first
    assert log.read(1, 1 << 20, 3) == second
    assert log.read(2, 1 << 20, 3) == second
    log.close()


@pytest.mark.parametrize("cache_bytes", [0, 1 << 20])
def test_truncated_log_is_overwritten(tmp_path: Path, cache_bytes: int) -> None:
    log = SegmentedLog(tmp_path, segment_bytes=300, cache_bytes=cache_bytes)
    for epoch in (1, 1, 2, 2, 3, 3, 3):
        append(log, epoch)
    assert log.epoch_starts == [(1, 0), (2, 2), (3, 4)]
    log.truncate_to(3)
    assert (log.end_offset, log.epoch_starts) == (3, [(1, 0), (2, 2)])
    fresh = append(log, 5)
    log.flush()
    log.close()
    log = SegmentedLog(tmp_path, segment_bytes=300, cache_bytes=cache_bytes)
    assert log.end_offset == 4
    assert log.epoch_starts == [(1, 0), (2, 2), (5, 3)]
    assert log.read(3, 1, 4) == fresh
    log.truncate_to(0)
    assert (log.end_offset, log.epoch_starts) == (0, [])
    log.close()


def test_flush_never_covers_records_truncated_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = SegmentedLog(tmp_path)
    for _ in range(5):
        append(log)
    entered, go_on = threading.Event(), threading.Event()
    original = Segment.sync

    def slow_sync(segment: Segment) -> None:
        if threading.current_thread() is not threading.main_thread():
            entered.set()
            assert go_on.wait(10)
        original(segment)

    monkeypatch.setattr(Segment, "sync", slow_sync)
    result: list[int] = []
    worker = threading.Thread(target=lambda: result.append(log.flush()))
    worker.start()
    assert entered.wait(10)
    log.truncate_to(2)
    append(log, epoch=2, count=4)
    go_on.set()
    worker.join(10)
    assert result == [2]
    assert log.flush() == 6
    log.close()


@pytest.mark.requirement("K595-06")
def test_nothing_is_retried_after_a_failed_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = SegmentedLog(tmp_path)
    append(log)

    def failing_sync(_: Segment) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Segment, "sync", failing_sync)
    with pytest.raises(StorageFailure, match="EIO"):
        log.flush()
    monkeypatch.undo()
    for action in (log.flush, lambda: append(log), lambda: log.truncate_to(0)):
        with pytest.raises(StorageFailure, match="EIO"):
            action()


def test_full_disk_is_no_failed_disk_and_keeps_existing_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = SegmentedLog(tmp_path)
    append(log)
    log.flush()

    def half_written(segment: Segment, data: bytes, base_offset: int) -> None:
        with segment.path.open("ab") as file:
            file.write(data[: len(data) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Segment, "append", half_written)
    with pytest.raises(DiskFull, match="ENOSPC"):
        append(log)
    monkeypatch.undo()
    assert log.end_offset == 1
    log.close()
    reopened = SegmentedLog(tmp_path)
    assert (reopened.end_offset, reopened.torn_bytes) == (1, 0)
    reopened.close()


@pytest.mark.requirement("K595-13")
def test_epoch_checkpoint_must_match_the_log(tmp_path: Path) -> None:
    log = SegmentedLog(tmp_path)
    append(log, 1)
    append(log, 2)
    log.flush()
    log.close()
    path = tmp_path / "leader-epoch-checkpoint"
    assert path.read_text() == "0\n2\n1 0\n2 1\n"
    # An epoch that was started without a batch: dropped.
    path.write_text("0\n3\n1 0\n2 1\n3 2\n")
    log_module.SegmentedLog(tmp_path).close()
    assert path.read_text() == "0\n2\n1 0\n2 1\n"
    for damaged in ("0\n1\n1 0\n", "0\n2\n1 0\n3 1\n", "0\n2\n1 0\n", "x\n"):
        path.write_text(damaged)
        with pytest.raises(StorageFailure):
            log_module.SegmentedLog(tmp_path)
