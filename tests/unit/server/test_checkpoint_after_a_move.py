"""The end of a move between log directories: the high watermark of the copy is stored before the old log is deleted, by a thread."""

import asyncio
import threading
from pathlib import Path

import pytest

from quorum_node.server.broker.data_directory import OpenDataDirectory
from quorum_node.storage.broker.log_directory import LogDirectory
from quorum_node.storage.broker.offset_checkpoint import HIGH_WATERMARKS, read_offsets
from quorum_node.storage.errors import StorageFailure
from quorum_node.storage.file_system import POSIX
from support.data_batches import data_batch
from support.hosted_replicas import ME, HostedReplicas, produce


async def test_loop_does_not_wait_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hosted = HostedReplicas(tmp_path / "a", second=tmp_path / "b")
    a, b = hosted.register_directories()
    replica = hosted.create("t", (ME,))
    assert replica.directory_id == a
    data = data_batch(0).data
    assert isinstance(data, bytes)
    assert produce(replica, data)
    acts: list[tuple[str, int]] = []
    stored: list[object] = []

    def checkpoint(directory: OpenDataDirectory) -> None:
        acts.append(("checkpoint", threading.get_ident()))
        store(directory)

    def delete(directory: LogDirectory, replica: tuple[str, int]) -> None:
        acts.append(("delete", threading.get_ident()))
        stored.append(read_offsets(tmp_path / "b" / HIGH_WATERMARKS, POSIX))
        remove(directory, replica)

    store, remove = OpenDataDirectory.checkpoint, LogDirectory.delete
    monkeypatch.setattr(OpenDataDirectory, "checkpoint", checkpoint)
    monkeypatch.setattr(LogDirectory, "delete", delete)
    hosted.replicas.moves.request(replica, b)
    async with asyncio.timeout(20):
        while not stored:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.01)
    assert stored == [{("t", 0): 1}]
    # On a busy machine the checkpoints of every five seconds are among them.
    assert {act for act, _ in acts} == {"checkpoint", "delete"}
    assert threading.get_ident() not in {thread for _, thread in acts}
    hosted.replicas.close()
    hosted.directories.close(None)


async def test_log_is_kept_if_the_directory_of_the_copy_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosted = HostedReplicas(tmp_path / "a", second=tmp_path / "b")
    _, b = hosted.register_directories()
    replica = hosted.create("t", (ME,))

    def checkpoint(directory: OpenDataDirectory) -> None:
        failure = StorageFailure("the disk is gone")
        directory.fail(failure)
        raise failure

    monkeypatch.setattr(OpenDataDirectory, "checkpoint", checkpoint)
    hosted.replicas.moves.request(replica, b)
    async with asyncio.timeout(20):
        while not hosted.directories.failed_ids:  # noqa: ASYNC110 - what is awaited has no event
            await asyncio.sleep(0.01)
        while list(hosted.replicas.moves):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    monkeypatch.undo()
    assert [each.topic_name for each in hosted.opened[0].found()] == ["t"]
    hosted.replicas.close()
    hosted.directories.close(None)
