"""Syncs by the kernel's own worker: what they prove, what their errors mean, and what a flush beside one has to wait for."""

import errno
import os
import platform as platforms
import select
import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from quorum_node.records.batches import encode_values
from quorum_node.storage import kernel_sync
from quorum_node.storage.errors import DiskFull, StorageFailure
from quorum_node.storage.kernel_sync import KernelSync, open_kernel_sync
from quorum_node.storage.log import SegmentedLog
from quorum_node.storage.synced_end import read_synced_end


class Held:
    """A kernel that answers with `code`, and writes down what happens in which order."""

    def __init__(self, code: int = 0) -> None:
        self.code = code
        self.calls: list[str] = []

    def submit(self, fd: int) -> None:
        os.fstat(fd)
        self.calls.append("submit")

    def wait(self) -> int:
        self.calls.append("wait")
        return self.code


def append(log: SegmentedLog) -> None:
    """One record at the end."""
    base = log.end_offset
    data = encode_values(base_offset=base, leader_epoch=1, timestamp_ms=0, values=[b"v" * 100])
    log.append(data, base, base + 1, 1)


def opened(directory: Path, records: int = 1) -> SegmentedLog:
    """A log with some records that are durable; what comes next needs one sync of one file."""
    log = SegmentedLog(directory)
    for _ in range(records):
        append(log)
    log.flush()
    return log


def begun(log: SegmentedLog, kernel: Held) -> bool:
    return log.begin_sync(cast(KernelSync, kernel))


def test_the_kernel_syncs_a_file_and_says_when_it_has(tmp_path: Path) -> None:
    kernel = open_kernel_sync()
    if kernel is None:
        pytest.skip("no asynchronous I/O here")
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    for _ in range(3):
        os.write(fd, b"x" * 5000)
        kernel.submit(fd)
        assert select.select([kernel.eventfd], [], [], 30)[0]
        assert os.eventfd_read(kernel.eventfd) == 1
        assert kernel.wait() == 0
        assert not select.select([kernel.eventfd], [], [], 0)[0]
    kernel.submit(fd)
    os.close(fd)
    assert kernel.wait() == 0, "the kernel holds the file open itself"
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        kernel.submit(fd)
    kernel.close()


@pytest.mark.parametrize(("machine", "platform"), [("sparc", "linux"), ("x86_64", "darwin")])
def test_a_thread_syncs_where_the_kernel_has_no_such_thing(
    monkeypatch: pytest.MonkeyPatch, machine: str, platform: str
) -> None:
    monkeypatch.setattr(platforms, "machine", lambda: machine)
    monkeypatch.setattr(sys, "platform", platform)
    assert open_kernel_sync() is None


def test_a_thread_syncs_where_a_sandbox_forbids_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(numbers: tuple[int, int, int]) -> KernelSync:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(kernel_sync, "KernelSync", forbidden)
    assert open_kernel_sync() is None


@pytest.mark.parametrize("forbidden", [1, 2], ids=["io_getevents", "io_submit"])
def test_a_thread_syncs_where_a_sandbox_forbids_one_of_the_calls(
    monkeypatch: pytest.MonkeyPatch, forbidden: int
) -> None:
    """Else the first sync would fail as one of a broken disk does."""
    numbers = list(kernel_sync._NUMBERS["x86_64"])
    numbers[forbidden] = 100_000  # there is no such call: ENOSYS
    monkeypatch.setattr(kernel_sync, "_NUMBERS", {platforms.machine(): tuple(numbers)})
    assert open_kernel_sync() is None


@pytest.mark.requirement("K595-06")
def test_a_sync_proves_what_was_there_when_it_began_and_no_more(tmp_path: Path) -> None:
    log, kernel = opened(tmp_path), Held()
    append(log)
    assert begun(log, kernel)
    append(log)  # the sync may have passed it by
    assert log.end_sync() == 2
    recorded = read_synced_end(tmp_path)
    assert recorded is not None
    assert recorded.end_offset == 2
    assert begun(log, kernel)
    assert log.end_sync() == 3
    assert not begun(log, kernel), "nothing is left"
    log.close()


@pytest.mark.requirement("K595-06")
@pytest.mark.parametrize(
    ("code", "kind"),
    [(errno.EIO, StorageFailure), (errno.ENOSPC, DiskFull), (errno.EDQUOT, DiskFull)],
)
def test_a_sync_that_failed_is_final_and_proves_nothing(
    tmp_path: Path, code: int, kind: type[Exception]
) -> None:
    log, kernel = opened(tmp_path), Held(code)
    append(log)
    assert begun(log, kernel)
    append(log)
    with pytest.raises(kind, match=errno.errorcode[code]) as raised:
        log.end_sync()
    if isinstance(raised.value, DiskFull):
        assert raised.value.at_sync
    recorded = read_synced_end(tmp_path)
    assert recorded is not None
    assert recorded.failed
    assert recorded.end_offset == 1
    refused: list[Callable[[], object]] = [log.flush, log.end_sync, lambda: append(log)]
    for use in refused:
        with pytest.raises(kind):
            use()
    assert not begun(log, kernel), "no sync is tried again"


@pytest.mark.requirement("K595-06")
@pytest.mark.parametrize("code", [0, errno.EIO])
def test_a_flush_waits_for_the_sync_that_is_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """The kernel reports an error of writing to one sync of a file: a second one would succeed and prove nothing."""
    log, kernel = opened(tmp_path), Held(code)
    append(log)
    assert begun(log, kernel)
    append(log)
    sync = os.fdatasync

    def noted(fd: int) -> None:
        kernel.calls.append("fdatasync")
        sync(fd)

    monkeypatch.setattr(os, "fdatasync", noted)
    if code:
        with pytest.raises(StorageFailure):
            log.flush()
        with pytest.raises(StorageFailure):
            log.end_sync()
        assert kernel.calls == ["submit", "wait"]
        return
    assert log.flush() == 3
    assert kernel.calls == ["submit", "wait", "fdatasync"]
    assert log.end_sync() == 2, "what the sync proved by itself"
    log.close()


@pytest.mark.requirement("K595-06")
@pytest.mark.parametrize(("code", "kind"), [(errno.EIO, StorageFailure), (errno.ENOSPC, DiskFull)])
def test_a_sync_that_ends_well_after_another_one_failed_proves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, kind: type[Exception]
) -> None:
    """The kernel reports an error of writing to one sync of a file: here the one of a cut, on the driver's thread."""
    log, kernel = opened(tmp_path, records=3), Held()
    log.truncate_to(2)
    append(log)
    assert begun(log, kernel)

    def failing(fd: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fdatasync", failing)
    data = encode_values(base_offset=3, leader_epoch=2, timestamp_ms=0, values=[b"v"])
    with pytest.raises(kind, match=errno.errorcode[code]):
        log.append(data, 3, 4, 2)
    with pytest.raises(kind, match=errno.errorcode[code]):
        log.end_sync()
    recorded = read_synced_end(tmp_path)
    assert recorded is not None
    assert (recorded.end_offset, recorded.failed) == (2, True)


@pytest.mark.requirement("K595-06")
def test_a_cut_makes_void_what_a_sync_that_was_under_way_says(tmp_path: Path) -> None:
    log, kernel = opened(tmp_path, records=3), Held()
    append(log)
    assert begun(log, kernel)
    log.truncate_to(2)
    append(log)
    assert log.end_sync() == 2
    recorded = read_synced_end(tmp_path)
    assert recorded is not None
    assert recorded.end_offset == 2
    log.close()


def test_more_than_one_sync_is_left_to_the_thread(tmp_path: Path) -> None:
    log, kernel = SegmentedLog(tmp_path, segment_bytes=400), Held()
    for _ in range(6):
        append(log)
    assert len(log.segments) > 1
    assert not begun(log, kernel)
    assert log.flush() == 6
    append(log)
    log.close()


def test_what_the_kernel_does_not_take_is_left_to_the_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, kernel = opened(tmp_path), Held()

    def refused(fd: int) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(kernel, "submit", refused)
    append(log)
    assert not begun(log, kernel)
    assert log.flush() == 2
    log.close()
