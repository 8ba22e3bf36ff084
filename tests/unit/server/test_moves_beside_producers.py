"""Moves between log directories of a log that is written fast: what comes during the last syncs of the copy is copied in the end."""

import asyncio
import threading
from pathlib import Path
from uuid import UUID

import pytest

from quorum_node.broker.errors import BrokerError
from quorum_node.storage.broker.log_directory import LogDirectory
from support.data_batches import data_batch
from support.hosted_replicas import ME, HostedReplicas, produce

RECORD_BYTES = 100_000


@pytest.mark.parametrize("records", [8, 30])
async def test_log_is_moved_although_records_come_during_each_sync_of_the_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: int
) -> None:
    hosted = HostedReplicas(tmp_path / "a", second=tmp_path / "b")
    hosted.register_directories()
    replica = hosted.create("t", (ME,))
    data = data_batch(0, value_bytes=RECORD_BYTES).data
    assert isinstance(data, bytes)
    loop, attempts = asyncio.get_running_loop(), 0
    mark = LogDirectory.mark_move

    def write(done: threading.Event) -> None:
        for _ in range(records):
            answer = produce(replica, data)
            assert answer is not None
            assert answer[0] is BrokerError.NONE
        done.set()

    def slow_mark(directory: LogDirectory, log: tuple[str, int], target: UUID | None) -> None:
        nonlocal attempts
        attempts += target is not None
        if target is not None and attempts < 20:
            done = threading.Event()
            loop.call_soon_threadsafe(write, done)
            assert done.wait(20)
        mark(directory, log, target)

    monkeypatch.setattr(LogDirectory, "mark_move", slow_mark)
    target = next(each for each in hosted.directories.online_ids if each != replica.directory_id)
    hosted.replicas.moves.request(replica, target)
    async with asyncio.timeout(60):
        while list(hosted.replicas.moves):  # noqa: ASYNC110 - the end has no event
            await asyncio.sleep(0.01)
    assert (attempts, replica.directory_id) == (1, target)
    assert replica.log.opened().end_offset == replica.core.end_offset == records
    hosted.replicas.close()
    hosted.directories.close(None)
