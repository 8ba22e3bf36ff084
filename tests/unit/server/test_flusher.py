"""The flusher: one sync for what comes together, and the synced end made durable soon after."""

import asyncio
from pathlib import Path

import pytest

from quorum_node.records.batches import encode_values
from quorum_node.server.observing.metrics import Metrics
from quorum_node.server.partition import flusher as flusher_module
from quorum_node.server.partition.flusher import ThreadFlusher
from quorum_node.storage.errors import DiskFull, StorageFailure
from quorum_node.storage.log import SegmentedLog

Result = int | StorageFailure | DiskFull


class Heard:
    """What the flusher told."""

    def __init__(self) -> None:
        self.results: list[Result] = []
        self.told = asyncio.Event()

    def done(self, ticket: int, result: Result) -> None:
        self.results.append(result)
        self.told.set()


@pytest.mark.requirement("K595-06")
def test_the_synced_end_is_made_durable_after_the_answer_and_not_for_every_flush(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flusher_module, "_SETTLE_SECONDS", 0.02)
    log = SegmentedLog(tmp_path)
    settled: list[int] = []

    async def run() -> None:
        heard, ended = Heard(), asyncio.Event()
        loop = asyncio.get_running_loop()

        def settle() -> None:
            log.settle()
            settled.append(log.end_offset)
            loop.call_soon_threadsafe(ended.set)

        flusher = ThreadFlusher(log.flush, settle, heard.done, Metrics().partition(0))
        for offset in range(5):
            data = encode_values(
                base_offset=offset, leader_epoch=1, timestamp_ms=0, values=[b"value"]
            )
            log.append(data, offset, offset + 1, 1)
            heard.told.clear()
            flusher.start(offset)
            await asyncio.wait_for(heard.told.wait(), 10)
            assert heard.results[-1] == offset + 1
        while 5 not in settled:
            await asyncio.wait_for(ended.wait(), 10)
            ended.clear()
        flusher.close()

    asyncio.run(run())
    assert len(settled) <= 5
    log.close()


@pytest.mark.requirement("K595-06")
@pytest.mark.parametrize("failure", [StorageFailure("EIO"), DiskFull("ENOSPC", at_sync=True)])
def test_a_synced_end_that_cannot_be_made_durable_ends_the_replica(
    monkeypatch: pytest.MonkeyPatch, failure: StorageFailure | DiskFull
) -> None:
    monkeypatch.setattr(flusher_module, "_SETTLE_SECONDS", 0.0)

    settles: list[int] = []

    def settle() -> None:
        settles.append(len(settles))
        raise failure

    def flush() -> int:
        raise failure

    async def run() -> None:
        heard = Heard()
        flusher = ThreadFlusher(flush, settle, heard.done, Metrics().partition(0))
        flusher.settle_soon()
        await asyncio.wait_for(heard.told.wait(), 10)
        assert heard.results == [failure]
        for ticket in range(3):  # each ends behind whatever was begun before
            heard.told.clear()
            flusher.start(ticket)
            await asyncio.wait_for(heard.told.wait(), 10)
        assert settles == [0], "no sync is tried again"
        flusher.close()

    asyncio.run(run())
