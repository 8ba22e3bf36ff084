"""A partition's log, used by several threads at once: reads and flushes beside compaction, retention and appends."""

import errno
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from quorum_node.records.batches import Record
from quorum_node.storage.broker.compaction import cleanable_part, compact
from quorum_node.storage.broker.index_files import OffsetIndex
from quorum_node.storage.broker.log_settings import LogSettings
from quorum_node.storage.broker.partition_log import PartitionLog
from quorum_node.storage.errors import StorageFailure
from quorum_node.storage.file_system import POSIX, FileSystem, PosixFileSystem
from support.data_batches import data_batch, end_of_transaction

SMALL = LogSettings(segment_bytes=2_000, index_interval_bytes=100, file_delete_delay_ms=0)
_LONGEST_SECONDS = 0.5
"""How long a call waits for the thread beside it, which may have to wait for that call."""


_UNNAMED = Path()


class Interrupted(PosixFileSystem):
    """Runs `beside` on a thread of its own in the middle of one call, and keeps its errors."""

    def __init__(self) -> None:
        self.beside: Callable[[], object] | None = None
        self.during: Callable[[str, Path], object] = lambda _call, _path: False
        self.errors: list[Exception] = []
        self.threads: list[threading.Thread] = []

    def _run(self, call: str, path: Path = _UNNAMED) -> None:
        beside = self.beside
        if beside is None or not self.during(call, path):
            return
        self.beside = None

        def guarded() -> None:
            try:
                beside()
            except Exception as error:
                self.errors.append(error)

        self.threads.append(threading.Thread(target=guarded))
        self.threads[-1].start()
        self.threads[-1].join(_LONGEST_SECONDS)

    def open(self, path: Path, flags: int, mode: int = 0o640) -> int:
        self._run("open", path)
        return super().open(path, flags, mode)

    def rename(self, source: Path, target: Path) -> None:
        super().rename(source, target)
        self._run("rename", source)

    def pread(self, fd: int, size: int, position: int) -> bytes:
        self._run("pread")
        return super().pread(fd, size, position)

    def ftruncate(self, fd: int, size: int) -> None:
        super().ftruncate(fd, size)
        self._run("ftruncate")

    def pwrite(self, fd: int, data: bytes | memoryview, position: int) -> int:
        self._run("pwrite")
        return super().pwrite(fd, data, position)

    def fdatasync(self, fd: int) -> None:
        self._run("fdatasync")
        super().fdatasync(fd)

    def ended(self) -> None:
        """All threads have ended, and at least one ran. Raises their first error."""
        assert self.threads
        for each in self.threads:
            each.join(10)
            assert not each.is_alive()
        if self.errors:
            raise self.errors[0]


class SlowSyncs(PosixFileSystem):
    """`serve` runs on a thread beside each sync of a directory, which waits for it. `served`: how often it ended meanwhile."""

    serve: Callable[[], None] | None = None
    syncs = served = 0

    def fsync(self, fd: int) -> None:
        if self.serve is not None and stat.S_ISDIR(os.fstat(fd).st_mode):
            self.syncs += 1
            beside = threading.Thread(target=self.serve)
            beside.start()
            beside.join(5)
            self.served += not beside.is_alive()
        super().fsync(fd)


def filled(directory: Path, files: FileSystem = POSIX) -> PartitionLog:
    """80 records, a batch each; all closed segments have entries in their index files."""
    log = PartitionLog.open(directory, SMALL, files=files, clock_ms=lambda: 5_000)
    for offset in range(80):
        log.append([data_batch(offset, timestamp_ms=1_000 + offset)])
    assert len(log.segments) > 2
    assert log.segments[0].offsets.path.stat().st_size >= 2 * OffsetIndex.ENTRY.size
    return log


def test_read_during_a_compaction_finds_the_renamed_index(tmp_path: Path) -> None:
    files = Interrupted()
    log = filled(tmp_path, files)
    found: list[bytes] = []
    files.during = lambda call, path: call == "rename" and path.suffix == OffsetIndex.SUFFIX
    files.beside = lambda: found.append(log.read(2, 1))
    part = cleanable_part(log, 0, log.end_offset, 5_000)
    assert compact(log, part, 5_000) > 0
    files.ended()
    assert int.from_bytes(found[0][:8], "big") == 2


def test_loop_does_not_wait_for_the_syncs_of_a_compaction(tmp_path: Path) -> None:
    """An append, and what each fetch asks for."""
    files = SlowSyncs()
    log = filled(tmp_path, files)
    done: list[object] = []

    def serve() -> None:
        log.append([data_batch(log.end_offset)])
        done.append(log.first_unstable_offset(log.end_offset))

    def replaced() -> int:
        files.serve = serve
        return compact(log, cleanable_part(log, 0, log.end_offset, 5_000), 5_000)

    assert replaced() > 0
    assert len(done) == files.syncs >= 2, "of the directory, after each step of the exchange"
    assert files.served == files.syncs
    assert log.end_offset == 80 + files.syncs
    assert log.read(log.end_offset - 1, 1)


def test_read_during_retention_finds_the_renamed_index(tmp_path: Path) -> None:
    files = Interrupted()
    log = filled(tmp_path, files)
    first = log.segments[0]
    found: list[int] = []
    files.during = lambda call, path: call == "rename" and path.suffix == OffsetIndex.SUFFIX
    files.beside = lambda: found.append(first.position_of(2))
    assert log.delete_segments(log.segments[:1])
    files.ended()
    assert found[0] > 0


def test_entry_added_during_a_sync_is_kept(tmp_path: Path) -> None:
    files = Interrupted()
    index = OffsetIndex(files, tmp_path / "0.index", 0)
    index.clear()
    for number in range(1, 4):
        index.add(10 * number, 100 * number)
    files.during = lambda call, _path: call == "pwrite"
    files.beside = lambda: index.add(40, 400)
    index.sync()
    files.ended()
    assert index.count == 4
    assert [index.position_of(offset) for offset in (9, 10, 35, 40, 41)] == [0, 100, 300, 400, 400]
    index.sync()
    assert index.path.stat().st_size == 4 * OffsetIndex.ENTRY.size


def test_search_during_a_truncation_restarts(tmp_path: Path) -> None:
    index = OffsetIndex(POSIX, tmp_path / "0.index", 0)
    index.clear()
    for number in range(1, 9):
        index.add(10 * number, 100 * number)
    index.write()
    with index.path.open("r+b") as file:
        file.truncate(OffsetIndex.ENTRY.size)  # what the thread that cuts has done so far
    assert index.position_of(45) == 0
    assert index.position_of(85) == 800, "the last entry is in memory"


def test_segment_is_not_closed_during_a_flush(tmp_path: Path) -> None:
    files = Interrupted()
    log = filled(tmp_path, files)

    def delete() -> None:
        assert log.delete_segments(log.segments[:2])
        log.remove_deleted(10_000)

    files.during = lambda call, _path: call == "fdatasync"
    files.beside = delete
    assert log.flush() == 80
    files.ended()
    assert log.start_offset > 0
    log.remove_deleted(10_000)
    assert not list(tmp_path.glob("*.deleted"))


def test_segment_is_not_closed_during_a_read(tmp_path: Path) -> None:
    files = Interrupted()
    log = filled(tmp_path, files)

    def delete() -> None:
        assert log.delete_segments(log.segments[:1])
        log.remove_deleted(10_000)

    files.during = lambda call, _path: call == "pread"
    files.beside = delete
    assert int.from_bytes(log.read(2, 1)[:8], "big") == 2
    files.ended()
    assert log.start_offset > 0
    log.remove_deleted(10_000)
    assert not list(tmp_path.glob("*.deleted"))


def test_transaction_index_is_synced_during_a_compaction(tmp_path: Path) -> None:
    """It is opened by its name, which the compaction changes."""
    files, reported = Interrupted(), list[object]()
    log = PartitionLog.open(tmp_path, SMALL, files=files, on_failure=reported.append)
    records = [Record(b"k", b"v")]
    for offset in range(0, 12, 2):
        batch = data_batch(offset, records=records, producer_id=7, transactional=True, sequence=0)
        log.append([batch])
        log.append([end_of_transaction(offset + 1, 7, abort=True)])
        log.roll()
    merged = log.segments[1].aborted.path
    assert merged.exists()
    files.during = lambda call, path: (call, path) == ("open", merged)
    part = cleanable_part(log, 0, log.end_offset, 5_000)
    files.beside = lambda: compact(log, part, 5_000)
    log.flush()
    files.ended()
    assert reported == []


@pytest.mark.parametrize("offset", [72, 76, 79])
def test_read_that_begins_during_a_truncation_finds_no_damage(tmp_path: Path, offset: int) -> None:
    """The thread of a move to another log directory reads the end of the log, while its loop follows another leader."""
    files, reported, found = Interrupted(), list[object](), list[bytes]()
    log = PartitionLog.open(
        tmp_path,
        LogSettings(index_interval_bytes=300),
        files=files,
        on_failure=reported.append,
    )
    for each in range(80):
        log.append([data_batch(each)])
    assert log.read(offset, 1), (
        "the position of the next batch is known, without a search from the start"
    )
    files.during = lambda call, _path: call == "ftruncate"
    files.beside = lambda: found.append(log.read(offset, 1 << 20))
    log.truncate_to(40)
    files.ended()
    assert (found, reported) == ([b""], [])
    log.append([data_batch(40, epoch=1)])
    assert log.read(40, 1)


class SlowRemoval(PosixFileSystem):
    """The file system frees the blocks of a large file."""

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()

    def unlink(self, path: Path, *, missing_ok: bool = False) -> None:
        self.begun.set()
        assert self.go_on.wait(60)
        super().unlink(path, missing_ok=missing_ok)


def test_appends_do_not_wait_for_the_removal_of_a_segment(tmp_path: Path) -> None:
    files = SlowRemoval()
    log = filled(tmp_path, files)
    assert log.delete_segments(log.segments[:1])
    removal = threading.Thread(target=log.remove_deleted, args=(10_000,))
    removal.start()
    assert files.begun.wait(60)
    append = threading.Thread(target=log.append, args=([data_batch(80)],))
    append.start()
    append.join(20)
    was_appended = not append.is_alive()
    files.go_on.set()
    removal.join()
    append.join()
    assert was_appended
    assert not list(tmp_path.glob("*.deleted"))


class FailingBeside(Interrupted):
    """The sync during which `beside` runs fails."""

    def fdatasync(self, fd: int) -> None:
        runs = self.beside is not None
        super().fdatasync(fd)
        if runs and self.beside is None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_failed_sync_during_a_truncation_is_final(tmp_path: Path) -> None:
    """The kernel reports the error once: a later sync of the same file succeeds, although its bytes may be lost."""
    files = FailingBeside()
    log = filled(tmp_path, files)
    files.during = lambda call, _path: call == "fdatasync"
    files.beside = lambda: log.truncate_to(79)
    with pytest.raises(StorageFailure):
        log.flush()
    files.ended()
    assert log.recovery_point == 0
    with pytest.raises(StorageFailure):
        log.flush()
