"""One partition's log, act by act: rolling, epochs, producers, transactions, retention, errors of the disk."""

import errno
import os
import threading
from pathlib import Path
from random import Random
from struct import iter_unpack

import pytest

from quorum_node.broker.batch import Batch
from quorum_node.storage.broker.data_segment import DataSegment
from quorum_node.storage.broker.errors import DamagedLog
from quorum_node.storage.broker.log_loading import Known
from quorum_node.storage.broker.log_settings import LogSettings
from quorum_node.storage.broker.partition_log import PartitionLog
from quorum_node.storage.broker.retention import enforce_retention
from quorum_node.storage.broker.timestamp_search import offset_for_timestamp, offset_of_newest
from quorum_node.storage.errors import DiskFull, StorageFailure
from quorum_node.storage.file_system import PosixFileSystem
from quorum_simulation.files.file_system import SimulatedFiles
from support.data_batches import data_batch, end_of_transaction
from support.finished_search import finished

SMALL = LogSettings(segment_bytes=1_000, index_interval_bytes=100, file_delete_delay_ms=1_000)


def filled(directory: Path, count: int = 30, settings: LogSettings = SMALL) -> PartitionLog:
    """One record a batch, timestamps 1,000 + offset."""
    log = PartitionLog.open(directory, settings, clock_ms=lambda: 5_000)
    for offset in range(count):
        log.append([data_batch(offset, timestamp_ms=1_000 + offset, epoch=offset // 10)])
    return log


def contents(log: PartitionLog) -> bytes:
    found, offset = [], log.start_offset
    while data := log.read(offset, 1):
        found.append(data)
        offset = int.from_bytes(data[:8], "big") + 1
    return b"".join(found)


def test_indexes_have_the_contents_of_a_stock_broker(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.close()
    first, second = log.segments[0], log.segments[1]
    assert second.base_offset > 0
    for last_offset, position in iter_unpack(">ii", first.offsets.path.read_bytes()):
        content = first.path.read_bytes()
        assert int.from_bytes(content[position : position + 8], "big") == last_offset
    times = list(iter_unpack(">qi", first.times.path.read_bytes()))
    assert times[-1] == (1_000 + second.base_offset - 1, second.base_offset - 1)
    assert times == sorted(set(times))
    assert len(times) >= first.offsets.path.stat().st_size // 8 > 3


def test_segment_rolls_by_size_time_and_index(tmp_path: Path) -> None:
    by_time = LogSettings(segment_ms=10)
    (tmp_path / "time").mkdir()
    log = PartitionLog.open(tmp_path / "time", by_time)
    for offset, timestamp in enumerate([100, 105, 110, 111, 500]):
        log.append([data_batch(offset, timestamp_ms=timestamp)])
    assert [each.base_offset for each in log.segments] == [0, 3, 4]
    by_index = LogSettings(index_interval_bytes=1, segment_index_bytes=24)
    (tmp_path / "index").mkdir()
    log = PartitionLog.open(tmp_path / "index", by_index)
    for offset in range(8):
        log.append([data_batch(offset, timestamp_ms=offset)])
    assert [each.base_offset for each in log.segments] == [0, 3, 6]
    log.append([data_batch(100 + (1 << 31))])
    assert log.segments[-1].base_offset == 100 + (1 << 31), "offsets in an index are relative"


def test_epoch_is_in_its_checkpoint_before_its_first_batch(tmp_path: Path) -> None:
    files = SimulatedFiles(Random(1))
    folder = Path("/p")
    files.make_directories(folder)
    log = PartitionLog.open(folder, SMALL, files=files)
    for epoch in range(3):
        log.append([data_batch(epoch, epoch=epoch * 2)])
        found = files.durable_content(folder / "leader-epoch-checkpoint")
        assert found is not None
        assert found.decode().splitlines()[-1] == f"{epoch * 2} {epoch}"


def test_producers_are_restored_after_a_clean_stop_and_after_a_crash(tmp_path: Path) -> None:
    batches = [data_batch(n, producer_id=5, sequence=n, producer_epoch=2) for n in range(20)]
    for cleanly in (True, False):
        folder = tmp_path / str(cleanly)
        folder.mkdir()
        log = PartitionLog.open(folder, SMALL, clock_ms=lambda: 2_000)
        log.append(batches)
        log.close(cleanly=cleanly)
        known = Known(recovery_point=20 if cleanly else 0, was_closed=cleanly)
        again = PartitionLog.open(folder, SMALL, known, clock_ms=lambda: 2_000)
        (entry,) = again.producers()
        assert (entry.producer_id, entry.producer_epoch) == (5, 2)
        assert entry.batches[-1].last_sequence == 19
        assert (entry.batches[-1].base_offset, entry.batches[-1].end_offset) == (19, 20)
        again.truncate_to(12)
        (entry,) = again.producers()
        assert entry.batches[-1].last_sequence == 11


def test_torn_producer_snapshot_is_ignored(tmp_path: Path) -> None:
    log = PartitionLog.open(tmp_path, SMALL, clock_ms=lambda: 2_000)
    log.append([data_batch(n, producer_id=5, sequence=n) for n in range(20)])
    log.close()
    for path in tmp_path.glob("*.snapshot"):
        content = path.read_bytes()
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    again = PartitionLog.open(tmp_path, SMALL, Known(20, was_closed=True), clock_ms=lambda: 2_000)
    (entry,) = again.producers()
    assert entry.batches[-1].last_sequence == 19
    assert any("damaged" in note for note in again.notes)


def transactions() -> list[Batch]:
    """Producer 1 aborts 0 to 4, producer 2 commits 1 to 6, producer 3 stays open from 7 on."""
    return [
        data_batch(0, producer_id=1, sequence=0, transactional=True),
        data_batch(1, producer_id=2, sequence=0, transactional=True),
        data_batch(2, producer_id=1, sequence=1, transactional=True),
        data_batch(3),
        end_of_transaction(4, 1, abort=True),
        data_batch(5, producer_id=2, sequence=1, transactional=True),
        end_of_transaction(6, 2, abort=False),
        data_batch(7, producer_id=3, sequence=0, transactional=True),
        data_batch(8),
    ]


@pytest.mark.parametrize("reopened", ["no", "cleanly", "crashed"])
def test_first_unstable_offset_and_aborted_transactions(tmp_path: Path, reopened: str) -> None:
    log = PartitionLog.open(tmp_path, SMALL, clock_ms=lambda: 2_000)
    for each in transactions():
        log.append([each])
    if reopened != "no":
        log.close(cleanly=reopened == "cleanly")
        known = Known(log.recovery_point, was_closed=reopened == "cleanly")
        log = PartitionLog.open(tmp_path, SMALL, known, clock_ms=lambda: 2_000)
    assert log.first_unstable_offset(9) == 7
    assert log.aborted_transactions(0, 9) == [(1, 0, 4, 1)]
    assert log.aborted_transactions(5, 9) == []
    if reopened == "no":
        # A marker that is not replicated decides nothing; it is what a leader sees that has just begun.
        fresh = tmp_path / "fresh"
        fresh.mkdir()
        log = PartitionLog.open(fresh, SMALL)
        log.append(transactions())
        assert [log.first_unstable_offset(n) for n in (3, 5, 6, 7)] == [0, 1, 1, 7]


def test_truncation_removes_aborted_transactions(tmp_path: Path) -> None:
    log = PartitionLog.open(tmp_path, SMALL, clock_ms=lambda: 2_000)
    log.append(transactions())
    log.truncate_to(4)
    assert log.aborted_transactions(0, 9) == []
    assert log.first_unstable_offset(4) == 0
    log.append([data_batch(4, epoch=1), end_of_transaction(5, 2, abort=True, epoch=1)])
    assert log.aborted_transactions(0, 9) == [(2, 1, 5, 0)]


def test_retention_by_time_size_and_log_start(tmp_path: Path) -> None:
    for name, settings, now_ms, kept in (
        ("time", LogSettings(segment_bytes=1_000, retention_ms=100), 1_115, 15),
        ("all", LogSettings(segment_bytes=1_000, retention_ms=100), 9_999, 30),
        ("none", LogSettings(segment_bytes=1_000, retention_ms=-1), 9_999, 0),
        ("bytes", LogSettings(segment_bytes=1_000, retention_ms=-1, retention_bytes=900), 0, 15),
        ("compacts", LogSettings(segment_bytes=1_000, deletes=False, retention_ms=1), 9_999, 0),
    ):
        (tmp_path / name).mkdir()
        log = filled(tmp_path / name, settings=settings)
        enforce_retention(log, high_watermark=30, now_ms=now_ms)
        assert log.start_offset <= kept, name
        assert log.start_offset >= kept - 10, name
        assert (log.start_offset == 0) == (kept == 0), name
        assert log.end_offset == 30
        assert log.epoch_history.starts[0][1] == log.start_offset
    log = filled(tmp_path, settings=SMALL)
    second = log.segments[1].base_offset
    assert not enforce_retention(log, high_watermark=second - 1, now_ms=1 << 50), "not replicated"
    log.delete_records_below(second + 1)
    assert log.read(second + 1, 1)[:8] == (second + 1).to_bytes(8, "big")
    assert enforce_retention(log, high_watermark=30, now_ms=0), (
        "records below the start offset were kept"
    )
    assert log.start_offset == second + 1
    gone = tmp_path / f"{0:020d}.log.deleted"
    assert gone.exists(), "readers that began earlier can finish"
    log.remove_deleted(5_999)
    assert gone.exists()
    log.remove_deleted(6_000)
    assert not list(tmp_path.glob("*.deleted"))
    assert not list(tmp_path.glob(f"{0:020d}.*"))


def test_offsets_are_found_by_timestamp(tmp_path: Path) -> None:
    log = filled(tmp_path)
    for timestamp in (0, 1_000, 1_007, 1_029):
        found = finished(offset_for_timestamp(log, timestamp))
        assert found is not None
        assert found.offset == max(timestamp - 1_000, 0)
        assert found.leader_epoch == found.offset // 10
    assert finished(offset_for_timestamp(log, 1_030)) is None
    assert finished(offset_for_timestamp(log, 1_020, limit_offset=20)) is None, "not readable yet"
    log.delete_records_below(13)
    assert finished(offset_for_timestamp(log, 0)) == (13, 1_013, 1)
    assert finished(offset_of_newest(log)) == (29, 1_029, 2)
    assert finished(offset_of_newest(log, 20)) == (19, 1_019, 1)


def test_torn_end_is_truncated_and_flushed_records_never_are(tmp_path: Path) -> None:
    log = filled(tmp_path, 8, LogSettings(index_interval_bytes=100))
    log.close(cleanly=False)
    path = log.segments[0].path
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    again = PartitionLog.open(tmp_path, SMALL, Known(recovery_point=7))
    assert again.end_offset == 7
    assert path.stat().st_size < len(whole) - 3
    again.close(cleanly=False)
    path.write_bytes(whole[: len(whole) // 2 - 5])
    with pytest.raises(DamagedLog, match="is damaged after offset"):
        PartitionLog.open(tmp_path, SMALL, Known(recovery_point=7))
    assert path.stat().st_size == len(whole) // 2 - 5, "nothing is cut"
    with pytest.raises(DamagedLog):
        PartitionLog.open(tmp_path, SMALL, Known(recovery_point=8, was_closed=True))
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DamagedLog, match="the disk has lost data"):
        PartitionLog.open(tmp_path, SMALL, Known(recovery_point=7))


def test_flipped_bit_above_the_recovery_point_truncates_the_log_there(tmp_path: Path) -> None:
    log = filled(tmp_path, 30)
    log.close(cleanly=False)
    path = log.segments[1].path
    content = bytearray(path.read_bytes())
    content[90] ^= 1
    path.write_bytes(content)
    again = PartitionLog.open(tmp_path, SMALL)
    assert log.segments[1].base_offset <= again.end_offset < log.segments[2].base_offset
    assert [each.base_offset for each in again.segments] == [0, log.segments[1].base_offset]


def test_missing_indexes_are_rebuilt(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.close()
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir() if p.suffix.endswith("index")}
    assert before
    for name in before:
        (tmp_path / name).unlink()
    PartitionLog.open(tmp_path, SMALL, Known(30, was_closed=True)).close()
    assert {name: (tmp_path / name).read_bytes() for name in before} == before


@pytest.mark.parametrize("was_closed", [True, False])
def test_epochs_are_rebuilt_from_the_log_if_the_checkpoint_is_missing(
    tmp_path: Path, was_closed: bool
) -> None:
    """Without any epoch a follower would truncate to its high watermark, also after a clean stop."""
    log = filled(tmp_path)
    log.flush()
    log.close(cleanly=was_closed)
    (tmp_path / "leader-epoch-checkpoint").unlink()
    again = PartitionLog.open(tmp_path, SMALL, Known(30, 0, was_closed))
    assert again.epoch_history.starts == ((0, 0), (1, 10), (2, 20))
    assert again.end_offset == 30
    again.close()
    again = PartitionLog.open(tmp_path, SMALL, Known(30, 0, was_closed=True))
    assert again.epoch_history.starts == ((0, 0), (1, 10), (2, 20))


def test_full_disk_does_not_fail_the_log() -> None:
    files = SimulatedFiles(Random(1))
    folder = Path("/p")
    files.make_directories(folder)
    log = PartitionLog.open(folder, SMALL, files=files)
    log.append([data_batch(0)])
    files.full = True
    for offset in range(1, 30):
        with pytest.raises(DiskFull, match="ENOSPC"):
            log.append([data_batch(1, value_bytes=offset * 60), data_batch(2)])
    files.full = False
    assert log.end_offset == 1
    log.append([data_batch(1)])
    assert int.from_bytes(log.read(1, 1)[:8], "big") == 1


def test_nothing_is_retried_after_a_failed_sync() -> None:
    files = SimulatedFiles(Random(1))
    folder = Path("/p")
    files.make_directories(folder)
    reported: list[StorageFailure] = []
    log = PartitionLog.open(folder, SMALL, files=files, on_failure=reported.append)
    log.append([data_batch(0)])
    files.failing_sync = errno.EIO
    with pytest.raises(StorageFailure, match="EIO"):
        log.flush()
    assert len(reported) == 1
    assert log.recovery_point == 0
    for act in (log.flush, log.roll, lambda: log.read(0, 1), lambda: log.append([data_batch(1)])):
        with pytest.raises(StorageFailure, match="EIO"):
            act()
    assert len(reported) == 1


def test_lower_recovery_point_is_written_before_a_truncation() -> None:
    files = SimulatedFiles(Random(1))
    folder = Path("/p")
    files.make_directories(folder)
    seen: list[tuple[int, int]] = []

    def note(log: PartitionLog) -> None:
        seen.append((log.recovery_point, files.size_of(log.segments[-1].path)))

    log = PartitionLog.open(folder, LogSettings(), files=files, before_lowering=note)
    for offset in range(10):
        log.append([data_batch(offset)])
    size_bytes = log.size_bytes
    log.flush()
    log.truncate_to(6)
    assert seen == [(6, size_bytes)]
    log.truncate_to(6)
    assert len(seen) == 1


def test_read_during_a_truncation_reports_no_damage(tmp_path: Path) -> None:
    log = filled(tmp_path, 20, LogSettings())
    segment = log.segments[0]
    size_bytes = segment.size_bytes
    log.truncate_to(5)
    # A reader that read the size before the truncation.
    segment.size_bytes = size_bytes
    with pytest.raises(DamagedLog):
        segment.read(7, 10_000, 20)


def test_reads_are_bounded_and_return_whole_batches(tmp_path: Path) -> None:
    log = filled(tmp_path)
    one = len(log.read(0, 1))
    assert one == log.segments[0].batch_holding(0).size_bytes  # type: ignore[union-attr]
    assert len(log.read(0, 3 * one + 5)) == 3 * one
    assert len(log.read(3, 1 << 20, limit_offset=5)) == 2 * one
    assert log.read(3, 1 << 20, limit_offset=3) == b""
    assert log.read(30, 1 << 20) == b""
    assert contents(log) == b"".join(each.path.read_bytes() for each in log.segments)
    assert log.bytes_from(30) == 0
    assert log.bytes_from(0) == log.size_bytes


def test_recovery_point_is_reset_before_a_log_restarts() -> None:
    """Killed in the middle, any part of the old segments may be left."""
    files = SimulatedFiles(Random(1))
    folder = Path("/p")
    files.make_directories(folder)
    seen: list[int] = []
    log = PartitionLog.open(
        folder, SMALL, files=files, before_lowering=lambda log: seen.append(log.recovery_point)
    )
    for offset in range(30):
        log.append([data_batch(offset)])
    log.flush()
    log.restart_at(50)
    assert seen == [0]
    assert (log.start_offset, log.end_offset, log.recovery_point) == (50, 50, 50)
    log.append([data_batch(50)])
    assert log.segments[0].base_offset == 50


def test_records_read_during_a_truncation_are_not_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled(tmp_path, 20, LogSettings())
    read = DataSegment.read

    def read_slowly(segment: DataSegment, *arguments: int) -> bytes:
        content = read(segment, *arguments)
        log.truncate_to(5)
        return content

    monkeypatch.setattr(DataSegment, "read", read_slowly)
    assert log.read(3, 10_000) == b""
    monkeypatch.undo()
    assert len(log.read(3, 10_000)) == 2 * len(log.read(3, 1))


def test_torn_end_does_not_reappear() -> None:
    files = SimulatedFiles(Random(1))
    folder = Path("/p")
    files.make_directories(folder)
    log = PartitionLog.open(folder, LogSettings(), files=files)
    log.append([data_batch(0), data_batch(1)])
    log.flush()
    path = log.segments[0].path
    whole = files.durable_content(path)
    assert whole is not None
    fd = files.open(path, 0)
    files.pwrite(fd, b"torn" * 5, len(whole))
    files.fsync(fd)
    files.end_process()
    again = PartitionLog.open(folder, LogSettings(), files=files)
    assert again.end_offset == 2
    assert files.durable_content(path) == whole, "before an epoch can begin there"


def test_closed_segment_knows_its_newest_timestamp(tmp_path: Path) -> None:
    log = filled(tmp_path, 3, LogSettings())
    log.roll()
    (entry,) = iter_unpack(">qi", log.segments[0].times.path.read_bytes())
    assert entry == (1_002, 2)
    log.append([data_batch(3)])
    log.close()
    again = PartitionLog.open(tmp_path, LogSettings(), Known(4, was_closed=True))
    assert again.segments[0].max_timestamp_ms == 1_002


def test_partial_batch_on_a_full_disk_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled(tmp_path, 3, LogSettings())
    size_bytes = log.size_bytes

    def half(self: PosixFileSystem, fd: int, data: bytes | memoryview, position: int) -> int:
        if position == size_bytes:
            return os.pwrite(fd, memoryview(data)[:40], position)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(PosixFileSystem, "pwrite", half)
    with pytest.raises(DiskFull):
        log.append([data_batch(3)])
    monkeypatch.undo()
    assert log.segments[0].path.stat().st_size == size_bytes


def test_timestamp_search_in_a_batch_with_an_unreadable_end(tmp_path: Path) -> None:
    log = PartitionLog.open(tmp_path, LogSettings())
    batch = data_batch(0, 4, timestamp_ms=1_000)
    log.append([batch, data_batch(4, timestamp_ms=2_000)])
    log.delete_records_below(3)
    assert finished(offset_for_timestamp(log, 1_000)) == (3, 1_000, 0)
    assert finished(offset_for_timestamp(log, 1_000, limit_offset=3)) is None


def test_log_closed_during_a_flush_is_no_failed_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a topic is deleted while another thread makes its logs durable."""
    reported: list[StorageFailure] = []
    log = PartitionLog.open(tmp_path, SMALL, on_failure=reported.append)
    log.append([data_batch(n) for n in range(20)])
    began, closing = threading.Event(), threading.Event()
    sync = DataSegment.sync

    def slow_sync(segment: DataSegment) -> None:
        began.set()
        assert closing.wait(10)
        # Whoever closes is given the time to do it too early.
        closer.join(0.05)
        sync(segment)

    def close() -> None:
        assert began.wait(10)
        closing.set()
        log.close(cleanly=False)

    monkeypatch.setattr(DataSegment, "sync", slow_sync)
    closer = threading.Thread(target=close)
    closer.start()
    assert log.flush() == 20
    closer.join(10)
    assert log.flush() == 20, "records were left unflushed"
    assert reported == []


@pytest.mark.parametrize("seed", range(6))
def test_records_of_a_sync_that_met_a_full_disk_do_not_count_after_the_restart(seed: int) -> None:
    """The kernel counts their pages as clean, so that a later process could read them, and sync them without an error."""
    files = SimulatedFiles(Random(seed), shuffled=True)
    folder = Path("/p")
    files.make_directories(folder)
    log = PartitionLog.open(folder, SMALL, files=files)
    log.append([data_batch(n) for n in range(3)])
    assert log.flush() == 3
    log.append([data_batch(n) for n in range(3, 6)])
    files.failing_sync = errno.ENOSPC
    with pytest.raises(DiskFull):
        log.flush()
    log.close(cleanly=False)
    again = PartitionLog.open(folder, SMALL, Known(recovery_point=3), files=files)
    end_offset = again.flush()
    again.close(cleanly=False)
    files.lose_power()
    found = PartitionLog.open(folder, SMALL, Known(recovery_point=end_offset), files=files)
    assert found.end_offset == end_offset
