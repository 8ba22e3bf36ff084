"""Directories of a broker: identity, checkpoints, clean stop, replicas that go, disks that fail."""

import errno
import json
import os
import threading
from pathlib import Path
from uuid import UUID

import pytest

from quorum_node.storage.broker.log_directory import STRAY_DELAY_MS, LogDirectory
from quorum_node.storage.broker.log_settings import LogSettings
from quorum_node.storage.broker.replica_folder import parse_folder_name
from quorum_node.storage.errors import DiskFull, StorageFailure, WrongDirectory
from quorum_node.storage.file_system import PosixFileSystem
from support.data_batches import data_batch
from support.disk_cuts import every_cut

TOPIC = UUID(int=7)
REPLICA = ("my-topic", 3)


def opened(path: Path, now_ms: int = 0) -> LogDirectory:
    return LogDirectory(path, node_id=1, cluster_id="c", clock_ms=lambda: now_ms)


def test_clean_stop_writes_files_that_a_stock_broker_reads(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    log = directory.open_log(REPLICA, TOPIC, LogSettings())
    log.append([data_batch(n, epoch=n // 4) for n in range(10)])
    log.delete_records_below(2)
    directory.write_high_watermarks({REPLICA: 9})
    directory.close(broker_epoch=77)
    read = {p.name: p.read_text() for p in tmp_path.iterdir() if p.is_file()}
    assert json.loads(read[".kafka_cleanshutdown"]) == {"version": 0, "brokerEpoch": 77}
    assert read["replication-offset-checkpoint"] == "0\n1\nmy-topic 3 9\n"
    assert read["recovery-point-offset-checkpoint"] == "0\n1\nmy-topic 3 10\n"
    assert read["log-start-offset-checkpoint"] == "0\n1\nmy-topic 3 2\n"
    inside = {p.name for p in (tmp_path / "my-topic-3").iterdir()}
    assert {f"{10:020d}.snapshot", "leader-epoch-checkpoint", "partition.metadata"} <= inside
    again = opened(tmp_path)
    assert (again.was_closed, again.closed_epoch) == (True, 77)
    assert again.directory_id == directory.directory_id
    assert again.replicas() == {REPLICA: TOPIC}
    assert not (tmp_path / ".kafka_cleanshutdown").exists(), "the next stop may be unclean"
    log = again.open_log(REPLICA, TOPIC, LogSettings())
    assert (log.start_offset, log.end_offset, log.recovery_point) == (2, 10, 10)
    assert log.opened(again.high_watermarks[REPLICA]).high_watermark == 9
    again.close(78, cleanly=False)
    assert not opened(tmp_path).was_closed


class RenamedAfterListing(PosixFileSystem):
    """A thread renames the replica's directory for removal right after its parent was listed."""

    def names(self, directory: Path) -> list[str]:
        found = super().names(directory)
        if "my-topic-3" in found:
            (directory / "my-topic-3").rename(directory / "my-topic-3.aside")
        return found


def test_replica_that_is_removed_meanwhile_is_not_listed(tmp_path: Path) -> None:
    directory = LogDirectory(tmp_path, node_id=1, cluster_id="c", files=RenamedAfterListing())
    directory.open_log(REPLICA, TOPIC, LogSettings())
    assert directory.replicas() == {}


def test_lower_recovery_point_is_saved_before_a_truncation(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    log = directory.open_log(REPLICA, TOPIC, LogSettings())
    log.append([data_batch(n) for n in range(10)])
    log.flush()
    directory.write_recovery_points()
    log.truncate_to(4)
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text().endswith("my-topic 3 4\n")


@pytest.mark.requirement("KV3-07")
def test_deleted_and_stray_replicas_are_removed_later(tmp_path: Path) -> None:
    now_ms = 1_000
    directory = LogDirectory(tmp_path, node_id=1, cluster_id="c", clock_ms=lambda: now_ms)
    stray = ("x" * 249, 0)
    for replica in (REPLICA, stray):
        directory.open_log(replica, TOPIC, LogSettings()).append([data_batch(0)])
    directory.write_recovery_points()
    directory.delete(REPLICA)
    directory.set_aside(stray, delay_ms=500)
    assert directory.replicas() == {}
    names = sorted(p.name for p in tmp_path.iterdir() if p.is_dir())
    assert [name.rpartition("-")[2] for name in names] == ["delete", "stray"]
    assert all(len(name) <= 255 and parse_folder_name(name) is None for name in names)
    # The topic is made again, while the old one is still going.
    log = directory.open_log(REPLICA, UUID(int=8), LogSettings())
    assert log.end_offset == 0
    now_ms += 500
    assert directory.remove_due() == 1
    now_ms += 60_000
    assert directory.remove_due() == 1
    assert directory.replicas() == {REPLICA: UUID(int=8)}
    assert "xxx" not in (tmp_path / "recovery-point-offset-checkpoint").read_text()


@pytest.mark.requirement("KV3-07")
def test_stray_replicas_are_removed_after_a_restart_too(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    directory.open_log(REPLICA, TOPIC, LogSettings())
    directory.delete(REPLICA)
    assert opened(tmp_path).remove_due() == 1
    assert [p.name for p in tmp_path.iterdir() if p.is_dir()] == []


def test_other_topic_with_the_same_name_is_rejected(tmp_path: Path) -> None:
    opened(tmp_path).open_log(REPLICA, TOPIC, LogSettings())
    with pytest.raises(StorageFailure, match="does not name topic id"):
        opened(tmp_path).open_log(REPLICA, UUID(int=9), LogSettings())


def test_directory_of_another_node_or_with_a_lost_identity_is_rejected(tmp_path: Path) -> None:
    opened(tmp_path).open_log(REPLICA, TOPIC, LogSettings())
    with pytest.raises(WrongDirectory, match=r"node\.id=1"):
        LogDirectory(tmp_path, node_id=2, cluster_id="c")
    (tmp_path / "meta.properties").unlink()
    with pytest.raises(StorageFailure, match="its identity is lost"):
        opened(tmp_path)


class FailingFileSystem(PosixFileSystem):
    """Under one of the directories every write fails."""

    def __init__(self, dead: Path) -> None:
        self.dead = str(dead)
        self.is_dead = False
        self._of: dict[int, str] = {}

    def open(self, path: Path, flags: int, mode: int = 0o640) -> int:
        fd = super().open(path, flags, mode)
        self._of[fd] = str(path)
        return fd

    def pwrite(self, fd: int, data: bytes | memoryview, position: int) -> int:
        if self.is_dead and self._of.get(fd, "").startswith(self.dead):
            raise OSError(5, os.strerror(5))
        return super().pwrite(fd, data, position)


def test_failed_directory_takes_all_its_replicas_offline(tmp_path: Path) -> None:
    dead, healthy = tmp_path / "a", tmp_path / "b"
    files = FailingFileSystem(dead)
    failed, other = (
        LogDirectory(path, node_id=1, cluster_id="c", files=files) for path in (dead, healthy)
    )
    reported: list[StorageFailure | DiskFull] = []
    failed.watch(reported.append)
    logs = [failed.open_log(("t", number), TOPIC, LogSettings()) for number in range(2)]
    kept = other.open_log(("t", 2), TOPIC, LogSettings())
    files.is_dead = True
    with pytest.raises(StorageFailure, match="EIO"):
        logs[0].append([data_batch(0)])
    assert reported == [failed.failure]
    with pytest.raises(StorageFailure, match="EIO"):
        logs[1].read(0, 1)
    kept.append([data_batch(0)])
    assert other.failure is None
    files.is_dead = False
    for act in (
        lambda: logs[0].append([data_batch(0)]),
        lambda: failed.write_recovery_points(),
        lambda: failed.open_log(("t", 9), TOPIC, LogSettings()),
    ):
        with pytest.raises(StorageFailure, match="EIO"):
            act()
    for each in (failed, other):
        each.close(5)
    assert not (dead / ".kafka_cleanshutdown").exists()
    assert (healthy / ".kafka_cleanshutdown").exists()


@pytest.mark.requirement("KV3-07")
def test_recreated_topic_has_no_data_of_the_deleted_one_for_a_kill_at_any_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checkpoints of the old log would hide records of the new one, declare them committed, or call it damaged."""
    origin, again = tmp_path / "d", UUID(int=8)
    directory = opened(origin)
    log = directory.open_log(REPLICA, TOPIC, LogSettings(segment_bytes=500))
    log.append([data_batch(n) for n in range(40)])
    log.flush()
    log.delete_records_below(33)
    directory.write_high_watermarks({REPLICA: 40})
    directory.write_recovery_points()
    directory.note_cleaned(REPLICA, log, 30)
    directory.close(1, cleanly=False)

    def started(path: Path) -> LogDirectory:
        made = opened(path)
        for replica, topic_id in made.replicas().items():
            if topic_id != again:
                made.set_aside(replica, 0)
        return made

    def recreate(path: Path) -> None:
        made = opened(path)
        made.open_log(REPLICA, TOPIC, LogSettings())
        made.delete(REPLICA)
        new = made.open_log(REPLICA, again, LogSettings())
        new.append([data_batch(n) for n in range(5)])
        made.write_high_watermarks({REPLICA: 3})

    for left, _ in every_cut(monkeypatch, origin, recreate):
        made = started(left)
        new = made.open_log(REPLICA, again, LogSettings())
        end_offset = new.end_offset
        new.append([data_batch(end_offset)])
        made = started(left)  # killed again, before any checkpoint
        new = made.open_log(REPLICA, again, LogSettings())
        assert (new.start_offset, new.end_offset) == (0, end_offset + 1)
        assert made.high_watermarks.get(REPLICA, 0) <= 3
        assert not made.cleaned.get(REPLICA, 0)


def test_clean_stop_before_a_log_was_opened_does_not_prove_its_unsynced_end(
    tmp_path: Path,
) -> None:
    """The process after a power loss was stopped while it started: its marker says nothing about logs that it has not recovered."""
    directory = opened(tmp_path)
    log = directory.open_log(REPLICA, TOPIC, LogSettings())
    log.append([data_batch(n) for n in range(5)])
    log.flush()
    directory.write_recovery_points()
    log.append([data_batch(n) for n in range(5, 10)])
    path, position = log.segments[0].path, log.segments[0].position_of(7)
    directory.close(70, cleanly=False)
    content = bytearray(path.read_bytes())
    content[position + 70] ^= 1
    path.write_bytes(content)
    opened(tmp_path).close(71)
    again = opened(tmp_path)
    assert not again.was_closed
    log = again.open_log(REPLICA, TOPIC, LogSettings())
    assert (log.end_offset, log.recovery_point) == (7, 5)


def test_clean_stop_before_a_log_was_opened_keeps_the_proof_of_the_one_before(
    tmp_path: Path,
) -> None:
    directory = opened(tmp_path)
    directory.open_log(REPLICA, TOPIC, LogSettings()).append([data_batch(0)])
    directory.close(70)
    opened(tmp_path).close(71)
    again = opened(tmp_path)
    assert (again.was_closed, again.closed_epoch) == (True, 71)


def test_damaged_log_with_unsynced_records_leaves_no_marker(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    log = directory.open_log(REPLICA, TOPIC, LogSettings())
    log.append([data_batch(n) for n in range(5)])
    path = log.segments[0].path
    content = path.read_bytes()
    path.write_bytes(content[:16] + b"\1" + content[17:])
    with pytest.raises(StorageFailure):
        log.read(0, 1)
    directory.close(70)
    assert directory.failure is None
    assert not opened(tmp_path).was_closed


def test_records_in_place_of_truncated_ones_are_dirty_after_a_kill_too(tmp_path: Path) -> None:
    """The process was killed after a truncation, before it noted that less is clean now."""
    directory = opened(tmp_path)
    log = directory.open_log(REPLICA, TOPIC, LogSettings())
    log.append([data_batch(n) for n in range(10)])
    directory.note_cleaned(REPLICA, log, 8)
    log.truncate_to(5)
    directory.close(70, cleanly=False)
    again = opened(tmp_path)
    log = again.open_log(REPLICA, TOPIC, LogSettings())
    log.append([data_batch(n) for n in range(5, 10)])
    assert again.cleaned == {REPLICA: 5}


def test_stray_replica_is_kept_for_the_whole_delay_after_a_restart(tmp_path: Path) -> None:
    """The delay is for an administrator to notice a mistake, such as metadata of another time."""
    directory = opened(tmp_path)
    directory.open_log(REPLICA, TOPIC, LogSettings()).append([data_batch(0)])
    directory.set_aside(REPLICA, STRAY_DELAY_MS)
    directory.close(70)
    now_ms = 1_000
    again = LogDirectory(tmp_path, node_id=1, cluster_id="c", clock_ms=lambda: now_ms)
    now_ms += STRAY_DELAY_MS - 1
    assert again.remove_due() == 0
    now_ms += 1
    assert again.remove_due() == 1


class DiskThatDies(PosixFileSystem):
    """A sync hangs, and then fails."""

    def __init__(self) -> None:
        self.hangs, self.ends = threading.Event(), threading.Event()
        self.is_dying = False

    def fdatasync(self, fd: int) -> None:
        if self.is_dying:
            self.hangs.set()
            assert self.ends.wait(30)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().fdatasync(fd)


def test_stop_during_a_sync_that_fails_comes_to_an_end(tmp_path: Path) -> None:
    """The stop waits for the sync, which reports its failure to the directory."""
    files = DiskThatDies()
    directory = LogDirectory(tmp_path, node_id=1, cluster_id="c", files=files)
    log = directory.open_log(REPLICA, TOPIC, LogSettings())
    log.append([data_batch(0)])
    failures: list[Exception] = []
    directory.watch(failures.append)
    begun = threading.Event()

    def sync() -> None:
        with pytest.raises(StorageFailure):
            log.flush()

    def stop() -> None:
        begun.set()
        with pytest.raises(StorageFailure, match="EIO"):
            directory.close(broker_epoch=5)

    files.is_dying = True
    threads = [threading.Thread(target=each, daemon=True) for each in (sync, stop)]
    threads[0].start()
    assert files.hangs.wait(30)
    threads[1].start()
    assert begun.wait(30)
    threads[1].join(0.2)  # it is given the time to reach the log
    files.ends.set()
    for each in threads:
        each.join(10)
    assert not any(each.is_alive() for each in threads)
    assert len(failures) == 1
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("opens", [False, True])
def test_process_that_ends_before_it_registers_keeps_the_epoch_of_the_clean_stop(
    tmp_path: Path, opens: bool
) -> None:
    """It had changed nothing. Otherwise no replica would be eligible after two restarts of all brokers without a controller."""
    first = opened(tmp_path)
    first.open_log(REPLICA, TOPIC, LogSettings()).append([data_batch(0)])
    first.close(broker_epoch=77)
    second = opened(tmp_path)
    if opens:
        second.open_log(REPLICA, TOPIC, LogSettings())
    second.close(broker_epoch=-1)
    third = opened(tmp_path)
    assert (third.was_closed, third.closed_epoch) == (True, None if opens else 77)
    third.close(-1, cleanly=False)
    assert opened(tmp_path).closed_epoch is None


class CountedReads(PosixFileSystem):
    """How much of files was read."""

    size_bytes_read = 0

    def pread(self, fd: int, size: int, position: int) -> bytes:
        data = super().pread(fd, size, position)
        self.size_bytes_read += len(data)
        return data


def test_copy_that_takes_the_place_of_a_log_is_not_read_again_after_an_unclean_start(
    tmp_path: Path,
) -> None:
    """It is opened in the loop, and a segment of many batches would hold it for seconds."""
    opened(tmp_path).close(-1, cleanly=False)
    files = CountedReads()
    directory = LogDirectory(tmp_path, node_id=1, cluster_id="c", files=files)
    assert not directory.was_closed
    copy = directory.open_future(REPLICA, TOPIC, LogSettings())
    copy.append([data_batch(number, value_bytes=20_000) for number in range(100)])
    directory.promote(REPLICA, copy)
    files.size_bytes_read = 0
    log = directory.open_log(REPLICA, TOPIC, LogSettings())
    assert log.end_offset == 100
    assert files.size_bytes_read < 100_000
    log.append([data_batch(100)])
    directory.close(broker_epoch=5, cleanly=False)
    again = LogDirectory(tmp_path, node_id=1, cluster_id="c")
    assert again.open_log(REPLICA, TOPIC, LogSettings()).end_offset == 101
