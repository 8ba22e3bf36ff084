"""What is done with all replicas from time to time (broker/replica_timers.py), and the checkpoint of their high watermarks."""

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from uuid import UUID

import pytest

from quorum_node.server.broker.data_directories import DataDirectories
from quorum_node.server.broker.data_directory import OpenDataDirectory
from quorum_node.server.broker.directory_threads import TURN_SECONDS
from quorum_node.server.broker.hosted_replica import HostedReplica
from quorum_node.server.broker.topic_values import BACKOFF_MS
from quorum_node.storage.broker.log_directory import LogDirectory
from quorum_node.storage.broker.log_settings import LogSettings
from quorum_node.storage.broker.offset_checkpoint import (
    HIGH_WATERMARKS,
    TopicPartition,
    read_offsets,
)
from quorum_node.storage.file_system import POSIX
from support.counted_syncs import CountedSyncs
from support.data_batches import data_batch
from support.hosted_replicas import ME, HostedReplicas, produce


def stored(root: Path) -> dict[TopicPartition, int] | None:
    return read_offsets(root / HIGH_WATERMARKS, POSIX)


@pytest.mark.virtual_time
async def test_high_watermarks_are_stored_and_the_loop_waits_for_no_sync(tmp_path: Path) -> None:
    files = CountedSyncs()
    hosted = HostedReplicas(tmp_path, files=files)
    leader = hosted.create("t")
    data = data_batch(0).data
    assert isinstance(data, bytes)
    produce(leader, data)
    before = files.in_loop
    await asyncio.sleep(6)
    hosted.threads.finish()
    assert stored(tmp_path) == {("t", 0): 1}
    assert files.in_loop == before
    produce(leader, data)
    hosted.close()
    assert stored(tmp_path) == {("t", 0): 2}, "the last one at a stop is not left to a thread"


class Slow(LogDirectory):
    """A checkpoint that knows what it will write waits for `go_on`."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, node_id=ME, cluster_id="c")
        self.is_writing, self.go_on = threading.Event(), threading.Event()

    def write_high_watermarks(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.is_writing.set()
        assert self.go_on.wait(60)
        super().write_high_watermarks(offsets)


def test_checkpoint_beside_a_deletion_leaves_nothing_of_the_deleted_log(tmp_path: Path) -> None:
    """A later log of this name would count its records as committed."""
    slow = Slow(tmp_path)
    directory = OpenDataDirectory(slow)
    directory.open("t", UUID(int=7), 0, LogSettings()).keep_high_watermark(17)
    checkpoint = threading.Thread(target=directory.checkpoint)
    checkpoint.start()
    assert slow.is_writing.wait(60)
    timer = threading.Timer(0.2, slow.go_on.set)
    timer.start()
    directory.delete("t", 0)
    checkpoint.join()
    assert stored(tmp_path) == {}
    directory.checkpoint()
    assert stored(tmp_path) == {}
    directory.close(None)


@pytest.mark.virtual_time
async def test_retention_of_many_replicas_is_done_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosted = HostedReplicas(tmp_path)
    hosted._create("many", ((ME,),) * 20, {})
    await asyncio.sleep(5)
    hosted.threads.finish()
    at: list[float] = []
    loop = asyncio.get_running_loop()

    def slow(replica: HostedReplica, now_ms: int) -> None:
        at.append(loop.time())
        ends_at = perf_counter() + TURN_SECONDS / 2
        while perf_counter() < ends_at:
            pass

    monkeypatch.setattr(HostedReplica, "retain", slow)
    await asyncio.sleep(302)
    assert len(at) == 20
    assert max(map(at.count, at)) <= 3
    hosted.close()


@pytest.mark.virtual_time
async def test_compaction_that_takes_long_goes_by_the_present_high_watermarks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log whose turn comes later may be truncated meanwhile, or may belong to another topic of the same name."""
    rounds: list[Mapping[TopicPartition, int]] = []
    has_begun = threading.Event()

    def compact(
        directories: object, high_watermarks: Mapping[TopicPartition, int], *_: object
    ) -> None:
        rounds.append(high_watermarks)
        has_begun.set()

    monkeypatch.setattr(DataDirectories, "compact", compact)
    hosted = HostedReplicas(tmp_path)
    leader = hosted.create("t", **{"cleanup.policy": "compact"})
    hosted.create("other")
    data = data_batch(0).data
    assert isinstance(data, bytes)
    produce(leader, data)
    await asyncio.sleep(BACKOFF_MS / 1000 + 1)
    assert has_begun.wait(60)
    assert dict(rounds[0]) == {("t", 0): 1}
    produce(leader, data)
    assert dict(rounds[0]) == {("t", 0): 2}
    hosted.delete("t")
    assert dict(rounds[0]) == {("t", 0): 0}, "a later topic of this name has another log"
    hosted.close()
