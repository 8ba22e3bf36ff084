"""The deletion of a log while it is synced: the loop goes on, and a log of the same name begins afterwards."""

import asyncio
import errno
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from quorum_node.broker.errors import BrokerError
from quorum_node.broker.events import BatchesFetched
from quorum_node.server.broker.replica_turns import AT_ONCE
from quorum_node.storage.broker.log_directory import LogDirectory
from support.data_batches import data_batch
from support.hosted_replicas import ME, OTHER, HostedReplicas, accepted, position_of
from support.stalled_syncs import Produced, StalledSyncs

EACH = {"flush.messages": "1"}


@pytest.fixture
def files() -> Iterator[StalledSyncs]:
    made = StalledSyncs()
    yield made
    made.go_on()


def deleted_in(path: Path) -> int:
    return len(list(path.glob("t-0.*-delete")))


async def until(check: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not check():  # noqa: ASYNC110 - what is awaited has no event
            await asyncio.sleep(0.005)


async def test_deletion_waits_for_a_sync_on_another_thread(
    tmp_path: Path, files: StalledSyncs
) -> None:
    hosted = HostedReplicas(tmp_path, files=files)
    replica, other = hosted.create("t", **EACH), hosted.create("other")
    opened = list[str]()
    hosted.replicas.watch(lambda: opened.append("opened"))
    files.stall()
    waiting = Produced(replica)
    await until(files.begun.is_set)
    hosted.delete("t")
    assert waiting.answer == (BrokerError.NOT_LEADER_OR_FOLLOWER, -1)
    assert Produced(other).answer == (BrokerError.NONE, 0)
    await asyncio.sleep(0.05)
    assert (tmp_path / "t-0").exists(), "it is still synced"
    files.go_on()
    await until(lambda: not (tmp_path / "t-0").exists())
    assert deleted_in(tmp_path) == 1
    assert not hosted.failures
    assert not opened
    hosted.close()


async def test_topic_that_is_created_again_meanwhile_has_a_new_log(
    tmp_path: Path, files: StalledSyncs
) -> None:
    hosted = HostedReplicas(tmp_path, files=files)
    replica = hosted.create("t", **EACH)
    opened = list[str]()
    hosted.replicas.watch(lambda: opened.append("opened"))
    await until(lambda: bool(hosted.controller.asked))
    reported, done = hosted.controller.asked.pop()
    done(accepted(reported))
    files.stall()
    Produced(replica)
    await until(files.begun.is_set)
    hosted.delete("t")
    hosted._create("t", ((ME,),), {})
    again = hosted.cluster.topic_id("t")
    assert hosted.replicas.replica(again, 0) is None, "the path has the files of the old one"
    assert not hosted.replicas.is_offline(again, 0)
    files.go_on()
    await until(lambda: hosted.replicas.replica(again, 0) is not None)
    assert opened == ["opened"]
    assert Produced(hosted.replica("t")).answer == (BrokerError.NONE, 0), "it is empty"
    await until(lambda: bool(hosted.controller.asked))
    assert str(again) in str(hosted.controller.asked[-1][0]), "its directory is reported"
    hosted.close()


async def test_topic_with_many_partitions_is_created_again_at_once(tmp_path: Path) -> None:
    """Its replicas are stopped in turns of the loop, and each path has the files of the old log until then."""
    count = 3 * AT_ONCE
    hosted = HostedReplicas(tmp_path)
    hosted._create("t", ((ME,),) * count, {}, is_awaited=False)
    await until(lambda: sum(1 for _ in hosted.replicas) == count)
    for number in range(count):
        assert Produced(hosted.replica("t", number)).answer == (BrokerError.NONE, 0)
    hosted.delete("t")
    hosted._create("t", ((ME,),) * count, {}, is_awaited=False)
    assert not any(True for _ in hosted.replicas)
    await until(lambda: sum(1 for _ in hosted.replicas) == count)
    assert [hosted.replica("t", number).core.end_offset for number in range(count)] == [0] * count
    hosted.close()


async def test_many_deletions_leave_threads_for_other_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop's own threads are 32 at most. Commits of many offsets are encoded there."""
    count, go_on = 40, threading.Event()
    hosted = HostedReplicas(tmp_path)
    hosted._create("t", ((ME,),) * count, {}, is_awaited=False)
    await until(lambda: sum(1 for _ in hosted.replicas) == count)
    deleted: list[tuple[str, int]] = []

    def late(directory: LogDirectory, replica: tuple[str, int]) -> None:
        assert go_on.wait(60)
        delete(directory, replica)
        deleted.append(replica)

    delete = LogDirectory.delete
    monkeypatch.setattr(LogDirectory, "delete", late)
    hosted.delete("t")
    await until(lambda: not hosted.replicas._stops._waiting)
    other = asyncio.get_running_loop().run_in_executor(None, lambda: 7)
    try:
        assert await asyncio.wait_for(other, 20) == 7
    finally:
        go_on.set()
    await until(lambda: len(deleted) == count)
    hosted.close()


async def test_topic_that_is_deleted_again_meanwhile_is_not_opened(
    tmp_path: Path, files: StalledSyncs
) -> None:
    hosted = HostedReplicas(tmp_path, files=files)
    replica = hosted.create("t", **EACH)
    files.stall()
    Produced(replica)
    await until(files.begun.is_set)
    for _ in range(2):
        hosted.delete("t")
        hosted._create("t", ((ME,),), {})
    hosted.delete("t")
    files.go_on()
    await until(lambda: not (tmp_path / "t-0").exists())
    await asyncio.sleep(0.05)
    assert not list(hosted.replicas)
    assert deleted_in(tmp_path) == 1
    hosted.close()


async def test_sync_that_fails_during_the_deletion_fails_the_directory(
    tmp_path: Path, files: StalledSyncs
) -> None:
    hosted = HostedReplicas(tmp_path, files=files)
    replica = hosted.create("t", **EACH)
    files.stall()
    Produced(replica)
    await until(files.begun.is_set)
    hosted.delete("t")
    files.error = errno.EIO
    files.go_on()
    await until(lambda: bool(hosted.failures))
    hosted.close(cleanly=False)


async def test_move_while_records_wait_for_a_sync(tmp_path: Path, files: StalledSyncs) -> None:
    """The copy has them as well, and is synced: they are acknowledged. The old log is deleted after its sync."""
    hosted = HostedReplicas(tmp_path / "a", files=files, second=tmp_path / "b")
    a, b = hosted.register_directories()
    replica = hosted.create("t", (OTHER, ME), **EACH)
    assert replica.directory_id == a
    files.stall()
    batches = tuple(data_batch(offset) for offset in range(3))
    replica.take(BatchesFetched(position_of(replica), batches, 3, 0))
    await until(files.begun.is_set)
    assert replica.core.written_offset == 0
    hosted.replicas.moves.request(replica, b)
    await until(lambda: replica.directory_id == b)
    assert replica.log.synced_offset == replica.core.end_offset == 3
    data = b"".join(bytes(cast(bytes, each.data)) for each in batches)
    assert bytes(replica.log.read(0, 3, 1 << 20)) == data
    await asyncio.sleep(0.05)
    assert (tmp_path / "a" / "t-0").exists()
    files.go_on()
    await until(lambda: not list(hosted.replicas.moves))
    await until(lambda: not (tmp_path / "a" / "t-0").exists())
    await until(lambda: replica.core.written_offset == 3)
    hosted.replicas.close()
    hosted.directories.close(1)
