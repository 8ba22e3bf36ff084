"""A disk that is full when an index is written: the log can be truncated, and its directory does not count as failed."""

import errno
import os
from pathlib import Path

import pytest

from quorum_node.storage.broker.log_loading import Known
from quorum_node.storage.broker.log_settings import LogSettings
from quorum_node.storage.broker.partition_log import PartitionLog
from quorum_node.storage.errors import DiskFull, StorageFailure
from quorum_node.storage.file_system import PosixFileSystem
from support.data_batches import data_batch

SETTINGS = LogSettings(index_interval_bytes=0)
"""With an entry in the index for each batch."""


class FullForIndexes(PosixFileSystem):
    """While `is_full`, nothing can be written to an index: the last block of a log has room, and an index would need another one."""

    def __init__(self) -> None:
        self.is_full = False
        self.cannot_truncate = 0
        self._indexes: set[int] = set()

    def open(self, path: Path, flags: int, mode: int = 0o640) -> int:
        fd = super().open(path, flags, mode)
        if path.name.endswith("index"):
            self._indexes.add(fd)
        return fd

    def close(self, fd: int) -> None:
        self._indexes.discard(fd)
        super().close(fd)

    def pwrite(self, fd: int, data: bytes | memoryview, position: int) -> int:
        if self.is_full and fd in self._indexes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().pwrite(fd, data, position)

    def ftruncate(self, fd: int, size: int) -> None:
        if self.cannot_truncate:
            raise OSError(self.cannot_truncate, os.strerror(self.cannot_truncate))
        super().ftruncate(fd, size)


def _opened(path: Path, files: FullForIndexes, failures: list[object]) -> PartitionLog:
    return PartitionLog.open(path, SETTINGS, files=files, on_failure=failures.append)


def _filled(log: PartitionLog, files: FullForIndexes) -> int:
    """Append batches until the write of an index meets the full disk; returns the offset of the batch that was not taken."""
    files.is_full = True
    for offset in range(2_000):
        try:
            log.append([data_batch(offset)])
        except DiskFull:
            return offset
    raise AssertionError("an index was never written")


def test_batch_whose_index_entry_does_not_fit_is_undone(tmp_path: Path) -> None:
    files, failures = FullForIndexes(), list[object]()
    log = _opened(tmp_path, files, failures)
    end_offset = _filled(log, files)
    assert (log.end_offset, failures) == (end_offset, [])
    assert log.segments[-1].path.stat().st_size == log.size_bytes
    files.is_full = False
    for offset in range(end_offset, 2 * end_offset):
        log.append([data_batch(offset)])
    for offset in (0, end_offset - 1, end_offset, 2 * end_offset - 1):
        assert int.from_bytes(log.read(offset, 1)[:8], "big") == offset
    assert log.segments[0].offsets.count == 2 * end_offset - 1, "the first batch has no entry"
    log.close()
    again = PartitionLog.open(tmp_path, SETTINGS, Known(2 * end_offset, was_closed=True))
    assert again.segments[0].offsets.count == 2 * end_offset - 1


def test_follower_can_be_truncated_on_a_full_disk(tmp_path: Path) -> None:
    files, failures = FullForIndexes(), list[object]()
    log = _opened(tmp_path, files, failures)
    for offset in range(600):
        log.append([data_batch(offset)])
    files.is_full = True
    log.truncate_to(590)
    log.truncate_to(100)
    assert (log.end_offset, failures) == (100, [])
    files.is_full = False
    log.append([data_batch(100)])
    log.close()
    again = PartitionLog.open(tmp_path, SETTINGS, Known(101, was_closed=True))
    assert again.segments[0].offsets.count == 100
    assert int.from_bytes(again.read(100, 1)[:8], "big") == 100


@pytest.mark.parametrize(
    ("code", "kind"), [(errno.EIO, StorageFailure), (errno.ENOSPC, DiskFull)], ids=["EIO", "ENOSPC"]
)
def test_batch_that_cannot_be_undone_on_a_full_disk(
    tmp_path: Path, code: int, kind: type[StorageFailure | DiskFull]
) -> None:
    """A full disk is not a failed disk: it is used again after a restart, with what is on it."""
    files, failures = FullForIndexes(), list[object]()
    log = _opened(tmp_path, files, failures)
    files.is_full = True
    for offset in range(511):
        log.append([data_batch(offset)])
    files.cannot_truncate = code
    with pytest.raises(kind):
        log.append([data_batch(511), data_batch(512)])
    assert [type(each) for each in failures] == [kind]
    with pytest.raises(kind):
        log.append([data_batch(5_000)])
