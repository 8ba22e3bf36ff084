"""A process that dies at the end of a move between log directories: the log that got the last records is the current one."""

import asyncio
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from quorum_node.broker.errors import BrokerError
from quorum_node.server.broker.hosted_replica import HostedReplica
from quorum_node.storage.broker.log_directory import LogDirectory
from quorum_node.storage.broker.move_mark import FILE_NAME
from support.data_batches import data_batch
from support.hosted_replicas import ME, HostedReplicas, produce

pytestmark = pytest.mark.requirement("KV3-07")


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Deletions of logs wait until it is set, like those in a directory whose disk is slow."""
    go = threading.Event()
    delete = LogDirectory.delete

    def late(self: LogDirectory, replica: tuple[str, int]) -> None:
        assert go.wait(20)
        delete(self, replica)

    monkeypatch.setattr(LogDirectory, "delete", late)
    yield go
    go.set()


async def moved(root: Path) -> tuple[HostedReplicas, HostedReplica, UUID]:
    """A replica with one record that moved from a to b, and got another one there. The log in a is not deleted yet."""
    hosted = HostedReplicas(root / "a", second=root / "b")
    a, b = hosted.register_directories()
    replica = hosted.create("t", (ME,))
    assert replica.directory_id == a
    assert written(replica) == (BrokerError.NONE, 0)
    hosted.replicas.moves.request(replica, b)
    async with asyncio.timeout(20):
        while replica.directory_id != b:  # noqa: ASYNC110 - what is awaited has no event
            await asyncio.sleep(0.01)
    assert written(replica) == (BrokerError.NONE, 1)
    return hosted, replica, b


def written(replica: HostedReplica) -> tuple[BrokerError, int] | None:
    data = data_batch(0).data
    assert isinstance(data, bytes)
    return produce(replica, data)


def died(hosted: HostedReplicas, root: Path, image: Path, held: threading.Event) -> None:
    """Keep the files as they are now in `image`, and end the rest."""
    # Checkpoints may be written meanwhile: a temporary file can be renamed before it is copied.
    shutil.copytree(root, image, ignore=shutil.ignore_patterns("*.tmp"))
    held.set()
    hosted.replicas.close()
    hosted.directories.close(None)


async def test_records_after_the_exchange_survive_a_crash_before_the_deletion(
    tmp_path: Path, held: threading.Event
) -> None:
    root, image = tmp_path / "disks", tmp_path / "after"
    hosted, _, b = await moved(root)
    died(hosted, root, image, held)
    again = HostedReplicas(image / "a", hosted.cluster, second=image / "b")
    replica = again.replica("t")
    assert (replica.directory_id, replica.core.end_offset) == (b, 2)
    assert [each.name.rpartition("-")[2] for each in folders(image / "a")] == ["stray"]
    again.replicas.close()
    again.directories.close(None)


async def test_replica_stays_offline_if_its_copy_may_be_in_an_offline_directory(
    tmp_path: Path, held: threading.Event
) -> None:
    root, image = tmp_path / "disks", tmp_path / "after"
    hosted, _, _ = await moved(root)
    died(hosted, root, image, held)
    again = HostedReplicas(image / "a", hosted.cluster, not_opened={str(image / "b"): "no disk"})
    assert again.replicas.replica(hosted.cluster.topic_id("t"), 0) is None
    assert [each.name for each in folders(image / "a")] == ["t-0"], "it is kept"
    again.replicas.close()
    again.directories.close(None)


async def test_incomplete_copy_leaves_the_log_and_its_mark_is_removed(tmp_path: Path) -> None:
    hosted = HostedReplicas(tmp_path / "a", second=tmp_path / "b")
    a, b = hosted.register_directories()
    replica = hosted.create("t", (ME,))
    assert written(replica) == (BrokerError.NONE, 0)
    hosted.directory.mark_move(("t", 0), b)
    assert (tmp_path / "a" / "t-0" / FILE_NAME).exists()
    hosted.replicas.close()
    hosted.directories.close(None)
    again = HostedReplicas(tmp_path / "a", hosted.cluster, second=tmp_path / "b")
    replica = again.replica("t")
    assert (replica.directory_id, replica.core.end_offset) == (a, 1)
    assert not (tmp_path / "a" / "t-0" / FILE_NAME).exists()
    again.replicas.close()
    again.directories.close(None)


def folders(path: Path) -> list[Path]:
    return sorted(each for each in path.iterdir() if each.is_dir())
