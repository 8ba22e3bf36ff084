"""A disk error during a search in a log is reported as one, as in a read: it is no internal error, and the failure latch is set."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from quorum_node.server.broker.data_directory import OpenLog
from quorum_node.storage.broker.log_settings import LogSettings
from quorum_node.storage.broker.partition_log import PartitionLog
from quorum_node.storage.errors import StorageFailure
from quorum_node.storage.file_system import PosixFileSystem
from support.data_batches import data_batch
from support.finished_search import finished

SETTINGS = LogSettings(segment_bytes=1_000, index_interval_bytes=50)
SEARCHES: dict[str, Callable[[OpenLog], object]] = {
    "offset_at": lambda log: finished(log.offset_at(1_013, 40)),
    "newest": lambda log: finished(log.newest(39)),
    "bytes_from": lambda log: log.bytes_from(3),
}


class FailingFiles(PosixFileSystem):
    """`calls_left`: how many opens and reads work; None: all."""

    calls_left: int | None = None

    def _count(self) -> None:
        if self.calls_left is None:
            return
        if not self.calls_left:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self.calls_left -= 1

    def open(self, path: Path, flags: int, mode: int = 0o640) -> int:
        self._count()
        return super().open(path, flags, mode)

    def pread(self, fd: int, size: int, position: int) -> bytes:
        self._count()
        return super().pread(fd, size, position)


@pytest.mark.parametrize("name", SEARCHES)
def test_disk_failure_at_each_call_of_a_search_is_handled(tmp_path: Path, name: str) -> None:
    calls, ended = 0, False
    while not ended:
        folder = tmp_path / str(calls)
        folder.mkdir()
        files, failures = FailingFiles(), list[StorageFailure]()
        log = PartitionLog.open(folder, SETTINGS, files=files, on_failure=failures.append)
        log.append([data_batch(n, timestamp_ms=1_000 + n) for n in range(40)])
        files.calls_left = calls
        try:
            SEARCHES[name](OpenLog(log, 40, lambda _: None))
            ended = True
        except StorageFailure:
            assert len(failures) == 1
        log.close(cleanly=False)
        calls += 1
    assert calls > 2
