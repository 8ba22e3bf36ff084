"""Syncs that run beside the log: what they prove, what their errors mean, and what has to wait for one."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from quorum_node.records.batches import encode_values
from quorum_node.storage.errors import DiskFull, StorageFailure
from quorum_node.storage.log import SegmentedLog
from quorum_node.storage.synced_end import read_synced_end


class Elsewhere:
    """Answers with `code`, and writes down what happens in which order."""

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


@pytest.mark.requirement("K595-06")
def test_sync_covers_only_data_written_before_it_started(tmp_path: Path) -> None:
    log, elsewhere = opened(tmp_path), Elsewhere()
    append(log)
    assert log.begin_sync(elsewhere)
    append(log)  # the sync may have passed it by
    assert log.end_sync() == 2
    recorded = read_synced_end(tmp_path)
    assert recorded is not None
    assert recorded.end_offset == 2
    assert log.begin_sync(elsewhere)
    assert log.end_sync() == 3
    assert not log.begin_sync(elsewhere), "nothing is left"
    log.close()


@pytest.mark.requirement("K595-06")
@pytest.mark.parametrize(
    ("code", "kind"),
    [(errno.EIO, StorageFailure), (errno.ENOSPC, DiskFull), (errno.EDQUOT, DiskFull)],
)
def test_failed_sync_is_final_and_covers_nothing(
    tmp_path: Path, code: int, kind: type[Exception]
) -> None:
    log, elsewhere = opened(tmp_path), Elsewhere(code)
    append(log)
    assert log.begin_sync(elsewhere)
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
    assert not log.begin_sync(elsewhere), "no sync is tried again"


@pytest.mark.requirement("K595-06")
@pytest.mark.parametrize("code", [0, errno.EIO])
def test_flush_waits_for_the_running_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """The kernel reports an error of writing to one sync of a file: a second one would succeed and prove nothing."""
    log, elsewhere = opened(tmp_path), Elsewhere(code)
    append(log)
    assert log.begin_sync(elsewhere)
    append(log)
    sync = os.fdatasync

    def noted(fd: int) -> None:
        elsewhere.calls.append("fdatasync")
        sync(fd)

    monkeypatch.setattr(os, "fdatasync", noted)
    if code:
        with pytest.raises(StorageFailure):
            log.flush()
        with pytest.raises(StorageFailure):
            log.end_sync()
        assert elsewhere.calls == ["submit", "wait"]
        return
    assert log.flush() == 3
    assert elsewhere.calls == ["submit", "wait", "fdatasync"]
    assert log.end_sync() == 2, "the end that the sync proved"
    log.close()


@pytest.mark.requirement("K595-06")
@pytest.mark.parametrize(("code", "kind"), [(errno.EIO, StorageFailure), (errno.ENOSPC, DiskFull)])
def test_successful_sync_after_a_failed_one_covers_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, kind: type[Exception]
) -> None:
    """The kernel reports an error of writing to one sync of a file: here the one of a cut, on the driver's thread."""
    log, elsewhere = opened(tmp_path, records=3), Elsewhere()
    log.truncate_to(2)
    append(log)
    assert log.begin_sync(elsewhere)

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
def test_truncation_invalidates_a_running_sync(tmp_path: Path) -> None:
    log, elsewhere = opened(tmp_path, records=3), Elsewhere()
    append(log)
    assert log.begin_sync(elsewhere)
    log.truncate_to(2)
    append(log)
    assert log.end_sync() == 2
    recorded = read_synced_end(tmp_path)
    assert recorded is not None
    assert recorded.end_offset == 2
    log.close()


def test_multiple_syncs_run_in_the_thread(tmp_path: Path) -> None:
    log, elsewhere = SegmentedLog(tmp_path, segment_bytes=400), Elsewhere()
    for _ in range(6):
        append(log)
    assert len(log.segments) > 1
    assert not log.begin_sync(elsewhere)
    assert log.flush() == 6
    append(log)
    log.close()


@pytest.mark.requirement("K595-06")
def test_file_is_not_closed_during_its_sync(tmp_path: Path) -> None:
    """Its number would be another file's by the time of the sync."""
    log, elsewhere = SegmentedLog(tmp_path, segment_bytes=400), Elsewhere()
    while len(log.segments) < 3:
        append(log)
    log.flush()
    append(log)
    fd = log.segments[-1].fd
    assert log.begin_sync(elsewhere)
    wait = elsewhere.wait

    def still_open() -> int:
        os.fstat(fd)
        return wait()

    elsewhere.wait = still_open  # type: ignore[method-assign]
    log.truncate_to(1)
    assert elsewhere.calls == ["submit", "wait"]
    assert log.end_sync() > 1, "of truncated records: the driver recognises it by its ticket"
    assert log.flush() == 1
    log.close()
