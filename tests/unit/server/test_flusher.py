"""The flusher: one sync for what comes together, and the synced end made durable soon after."""

import asyncio
import errno
import os
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from quorum_node.records.batches import encode_values
from quorum_node.server.observing.metrics import Metrics
from quorum_node.server.partition import flusher as flusher_module
from quorum_node.server.partition.flusher import LogFlusher
from quorum_node.storage.errors import DiskFull, StorageFailure
from quorum_node.storage.log import SegmentedLog
from quorum_node.storage.sync_elsewhere import SyncElsewhere
from quorum_node.storage.synced_end import read_synced_end

Result = int | StorageFailure | DiskFull


class FlushReports:
    """The reports of the flusher."""

    def __init__(self) -> None:
        self.results: list[Result] = []
        self.told = asyncio.Event()

    def done(self, ticket: int, result: Result) -> None:
        self.results.append(result)
        self.told.set()


class RefusingLog:
    """Every sync fails."""

    def __init__(self, failure: StorageFailure | DiskFull) -> None:
        self.failure = failure
        self.settles = 0

    def flush(self) -> int:
        raise self.failure

    def begin_sync(self, elsewhere: SyncElsewhere) -> bool:
        return False

    def end_sync(self) -> int:
        raise AssertionError("nothing was begun")

    def settle(self, committed_end: int = 0) -> None:
        self.settles += 1
        raise self.failure


@pytest.mark.requirement("K595-06")
@pytest.mark.parametrize("whole", [False, True])
def test_synced_end_is_saved_after_the_response_and_not_for_every_flush(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    monkeypatch.setattr(flusher_module, "_SETTLE_SECONDS", 0.02)
    log = SegmentedLog(tmp_path)
    settled: list[int] = []
    flushes = 0
    settle_log, flush_log = log.settle, log.flush

    def flush() -> int:
        nonlocal flushes
        flushes += 1
        return flush_log()

    async def run() -> None:
        received, ended = FlushReports(), asyncio.Event()
        loop = asyncio.get_running_loop()

        def settle(committed_end: int = 0) -> None:
            settle_log(committed_end)
            stored = read_synced_end(tmp_path)
            settled.append(0 if stored is None else stored.committed_end)
            with suppress(RuntimeError):  # a later one may end after the loop
                loop.call_soon_threadsafe(ended.set)

        monkeypatch.setattr(log, "settle", settle)
        monkeypatch.setattr(log, "flush", flush)
        if whole:
            monkeypatch.setattr(log, "begin_sync", lambda elsewhere: False)
        flusher = LogFlusher(log, received.done, Metrics().partition(0), lambda: 4)
        for offset in range(5):
            data = encode_values(
                base_offset=offset, leader_epoch=1, timestamp_ms=0, values=[b"value"]
            )
            log.append(data, offset, offset + 1, 1)
            received.told.clear()
            flusher.start(offset)
            await asyncio.wait_for(received.told.wait(), 10)
            assert received.results[-1] == offset + 1
        while 4 not in settled:
            await asyncio.wait_for(ended.wait(), 10)
            ended.clear()
        flusher.close()

    asyncio.run(run())
    assert len(settled) <= 5
    assert flushes == (5 if whole else 0)
    recorded = read_synced_end(tmp_path)
    assert recorded is not None
    assert recorded.committed_end == 4
    log.close()


@pytest.mark.requirement("K595-06")
@pytest.mark.parametrize("failure", [StorageFailure("EIO"), DiskFull("ENOSPC", at_sync=True)])
async def test_synced_end_that_cannot_be_saved_stops_the_replica(
    monkeypatch: pytest.MonkeyPatch, failure: StorageFailure | DiskFull
) -> None:
    monkeypatch.setattr(flusher_module, "_SETTLE_SECONDS", 0.0)
    reports = FlushReports()
    log = RefusingLog(failure)
    flusher = LogFlusher(log, reports.done, Metrics().partition(0), lambda: 4)
    flusher.settle_soon()
    await asyncio.wait_for(reports.told.wait(), 10)
    assert reports.results == [failure]
    for ticket in range(3):  # each ends after the operations started before
        reports.told.clear()
        flusher.start(ticket)
        await asyncio.wait_for(reports.told.wait(), 10)
    assert log.settles == 1, "no sync is tried again"
    flusher.close()


@pytest.mark.requirement("K595-06")
@pytest.mark.parametrize(("code", "kind"), [(errno.EIO, StorageFailure), (errno.ENOSPC, DiskFull)])
async def test_failed_sync_is_reported_with_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, kind: type[Exception]
) -> None:
    log = SegmentedLog(tmp_path)
    log.append(
        encode_values(base_offset=0, leader_epoch=1, timestamp_ms=0, values=[b"value"]), 0, 1, 1
    )

    def fail(fd: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fdatasync", fail)
    reports = FlushReports()
    flusher = LogFlusher(log, reports.done, Metrics().partition(0), lambda: 4)
    flusher.start(1)
    await asyncio.wait_for(reports.told.wait(), 10)
    (result,) = reports.results
    assert isinstance(result, kind)
    assert errno.errorcode[code] in str(result)
    flusher.close()


def test_exception_in_a_flush_is_reported_before_the_thread_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise the disk would be reported as hung, and its failure latched."""
    raised: list[BaseException | None] = []

    class DefectiveLog(RefusingLog):
        def flush(self) -> int:
            raise RuntimeError("a defect")

    async def run() -> None:
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()

        def handle(arguments: threading.ExceptHookArgs) -> None:
            raised.append(arguments.exc_value)
            loop.call_soon_threadsafe(ended.set)

        monkeypatch.setattr(threading, "excepthook", handle)
        log = DefectiveLog(StorageFailure("unused"))
        LogFlusher(log, FlushReports().done, Metrics().partition(0), lambda: 0).start(1)
        await asyncio.wait_for(ended.wait(), 10)

    asyncio.run(run())
    assert [str(each) for each in raised] == ["a defect"]
