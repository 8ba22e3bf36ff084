"""Moves of replicas between the log directories of a broker, with everything that happens to the log meanwhile."""

import asyncio
import errno
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from quorum_node.broker.batch import Batch
from quorum_node.broker.errors import BrokerError
from quorum_node.broker.events import BatchesFetched, MetadataChanged
from quorum_node.protocol.alter_replica_log_dirs import (
    ALTER_REPLICA_LOG_DIRS,
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from quorum_node.protocol.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from quorum_node.protocol.describe_log_dirs import DESCRIBE_LOG_DIRS, DescribeLogDirsRequest
from quorum_node.protocol.errors import ErrorCode
from quorum_node.raft.events import FailureReason
from quorum_node.records.batches import CorruptBatch
from quorum_node.server.broker.hosted_replica import HostedReplica
from quorum_node.server.broker.log_copy import FutureLog
from quorum_node.server.broker.log_dirs_api import LogDirsApi
from quorum_node.storage.broker.log_directory import LogDirectory
from quorum_node.storage.broker.log_settings import LogSettings
from quorum_node.storage.errors import StorageFailure
from support.data_batches import data_batch
from support.failing_files import FailingFiles
from support.hosted_replicas import (
    ME,
    OTHER,
    HostedReplicas,
    accepted,
    answered,
    position_of,
    produce,
)

pytestmark = pytest.mark.requirement("KV3-07")


LARGE = 300_000
SLOW = 4.0 * LARGE
"""Bytes a second: a move of twenty such records is seen while it lasts, and goes on soon."""


class Moves:
    """A broker with directories a and b. Its topics are created in a, unless b has fewer."""

    def __init__(self, root: Path) -> None:
        self.root, self.files = root, FailingFiles()
        self.hosted = HostedReplicas(root / "a", second=root / "b", second_files=self.files)
        self.a, self.b = self.hosted.register_directories()
        self.api = LogDirsApi(self.hosted.replicas, self.hosted.directories)

    def topic(self, name: str = "t", *replicas: int) -> HostedReplica:
        return self.hosted.create(name, replicas or (ME,))

    def request(self, path: str, name: str = "t") -> ErrorCode:
        topics = (AlterReplicaLogDirTopic(name=name, partitions=(0,)),)
        wanted = (AlterReplicaLogDir(path=path, topics=topics),)
        answer = answered(
            self.api.alter, ALTER_REPLICA_LOG_DIRS, AlterReplicaLogDirsRequest(dirs=wanted)
        )
        return ErrorCode(answer.results[0].partitions[0].error_code)

    def move(self, folder: str, name: str = "t") -> None:
        assert self.request(str(self.root / folder), name) == ErrorCode.NONE

    def described(self) -> list[tuple[str, str, bool]]:
        """(directory, topic, whether it is a copy)"""
        answer = answered(self.api.describe, DESCRIBE_LOG_DIRS, DescribeLogDirsRequest(topics=None))
        return [
            (Path(each.log_dir).name, topic.name, partition.is_future_key)
            for each in answer.results
            for topic in each.topics
            for partition in topic.partitions
        ]

    async def until(self, check: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not check():  # noqa: ASYNC110 - what is awaited has no event
                await asyncio.sleep(0.01)

    async def done(self) -> None:
        await self.until(lambda: not list(self.hosted.replicas.moves))

    def folders(self, folder: str) -> list[str]:
        return folders_in(self.root / folder)

    def suffixes(self, folder: str) -> list[str]:
        return [each.rpartition("-")[2] for each in self.folders(folder)]

    def close(self) -> None:
        self.hosted.replicas.close()
        self.hosted.directories.close(7)


def folders_in(path: Path) -> list[str]:
    return sorted(each.name for each in path.iterdir() if each.is_dir())


def bytes_of(size: int = 20, **fields: int) -> bytes:
    data = data_batch(0, value_bytes=size, **fields).data  # type: ignore[arg-type]
    assert isinstance(data, bytes)
    return data


def every_byte(replica: HostedReplica) -> bytes:
    return bytes(replica.log.read(replica.core.start_offset, replica.core.end_offset, 1 << 40))


async def test_moved_replica_has_the_same_log_and_serves_on(tmp_path: Path) -> None:
    made = Moves(tmp_path)
    replica = made.topic("t", ME, OTHER)
    for sequence in range(20):
        assert produce(replica, bytes_of(LARGE, producer_id=5, sequence=sequence))
    now = made.hosted.cluster.partition("t")
    epochs = {"leader_epoch": 1, "partition_epoch": now.partition_epoch + 1}
    replica.take(MetadataChanged(replace(now, **epochs), {}))
    assert replica.core.epoch_starts == ((0, 0), (1, 20)), "a leader epoch without records"
    before, opened, old = every_byte(replica), replica.log.opened(), replica.log
    made.move("b")
    assert made.described() == [("a", "t", False), ("b", "t", True)]
    await made.done()
    assert replica.directory_id == made.b
    assert every_byte(replica) == before
    assert replica.log.opened().producers == opened.producers
    assert replica.log.opened().epoch_starts == replica.core.epoch_starts
    assert made.described() == [("b", "t", False)]
    assert made.folders("b") == ["t-0"]
    await made.until(lambda: made.suffixes("a") == ["delete"])
    with pytest.raises(StorageFailure):
        old.read(0, 1, 1)
    await asyncio.sleep(0)
    assert not made.hosted.directories.failed_ids, "a late reader of the old log is no failed disk"
    assert produce(replica, bytes_of(producer_id=5, sequence=20)) == (BrokerError.NONE, 20)
    made.close()
    again = LogDirectory(tmp_path / "b", node_id=ME, cluster_id="c")
    log = again.open_log(("t", 0), replica.key.topic_id, LogSettings())
    assert log.end_offset == 21
    assert again.high_watermarks["t", 0] == replica.core.high_watermark
    again.close(-1, cleanly=False)


async def test_directory_after_a_move_is_reported(tmp_path: Path) -> None:
    made = Moves(tmp_path)
    made.topic()
    await made.until(lambda: bool(made.hosted.controller.asked))
    _, answered = made.hosted.controller.asked[-1]
    made.move("b")
    await made.done()
    answered(FailureReason.REFUSED)
    await made.until(lambda: len(made.hosted.controller.asked) == 2)
    body, _ = made.hosted.controller.asked[-1]
    assert isinstance(body, AssignReplicasToDirsRequest)
    assert [each.id for each in body.directories] == [made.b]
    body, answered = made.hosted.controller.asked[-1]
    answered(accepted(body))
    made.move("a")
    await made.until(lambda: len(made.hosted.controller.asked) == 3)
    body, _ = made.hosted.controller.asked[-1]
    assert isinstance(body, AssignReplicasToDirsRequest)
    assert [each.id for each in body.directories] == [made.a]
    made.close()


async def test_records_that_are_written_during_a_move_are_kept(tmp_path: Path) -> None:
    made = Moves(tmp_path)
    replica = made.topic()
    for _ in range(10):
        assert produce(replica, bytes_of(LARGE))
    made.move("b")
    count = 10
    while list(made.hosted.replicas.moves):
        assert produce(replica, bytes_of(LARGE)) == (BrokerError.NONE, count)
        count += 1
        await asyncio.sleep(0.01)
    assert replica.directory_id == made.b
    assert produce(replica, bytes_of()) == (BrokerError.NONE, count)
    found = every_byte(replica)
    assert len(found) > count * LARGE
    made.close()


async def test_log_without_records_keeps_its_end_when_it_is_moved(tmp_path: Path) -> None:
    made = Moves(tmp_path)
    follower = made.topic("t", OTHER, ME)
    follower.log.restart_at(50)
    made.move("b")
    await made.done()
    assert follower.directory_id == made.b
    assert follower.log.opened().end_offset == 50
    made.close()


async def test_start_of_the_log_is_kept(tmp_path: Path) -> None:
    made = Moves(tmp_path)
    replica = made.topic()
    for _ in range(4):
        assert produce(replica, bytes_of(count=5))
    replica.delete_records(7)  # within a batch
    made.move("b")
    await made.done()
    assert replica.log.opened().start_offset == 7
    made.close()
    again = LogDirectory(tmp_path / "b", node_id=ME, cluster_id="c")
    log = again.open_log(("t", 0), replica.key.topic_id, LogSettings())
    assert (log.start_offset, log.end_offset) == (7, 20)
    again.close(-1, cleanly=False)


async def test_log_that_is_truncated_during_a_move_is_copied_again(tmp_path: Path) -> None:
    made = Moves(tmp_path)
    follower = made.topic("t", OTHER, ME)
    batches = tuple(data_batch(n, value_bytes=LARGE) for n in range(20))
    fetched(follower, batches)
    made.hosted.replicas.moves.limit(SLOW)
    made.move("b")
    await made.until(lambda: any(each.size_bytes for each in made.hosted.replicas.moves))
    follower.log.truncate_to(3)
    await made.done()
    assert follower.directory_id == made.b
    assert follower.log.opened().end_offset == 3
    made.close()


def fetched(follower: HostedReplica, batches: tuple[Batch, ...]) -> None:
    follower.take(BatchesFetched(position_of(follower), batches, 0, 0))


async def test_cancelled_move_leaves_the_replica_and_no_copy(tmp_path: Path) -> None:
    made = Moves(tmp_path)
    replica = made.topic()
    for _ in range(20):
        assert produce(replica, bytes_of(LARGE))
    made.hosted.replicas.moves.limit(1.0)
    made.move("b")
    await made.until(lambda: any(each.size_bytes for each in made.hosted.replicas.moves))
    made.move("a")
    await made.until(lambda: made.folders("b") == [])
    assert replica.directory_id == made.a
    made.close()


async def test_failure_of_the_target_ends_the_move_and_the_replica_serves_on(
    tmp_path: Path,
) -> None:
    made = Moves(tmp_path)
    replica = made.topic()
    for _ in range(20):
        assert produce(replica, bytes_of(LARGE))
    made.hosted.replicas.moves.limit(SLOW)
    made.move("b")
    await made.until(lambda: any(each.size_bytes for each in made.hosted.replicas.moves))
    made.files.error = errno.EIO
    await made.done()
    assert replica.directory_id == made.a
    assert produce(replica, bytes_of()) == (BrokerError.NONE, 20)
    assert made.hosted.directories.failed_ids == (made.b,)
    assert made.request(str(tmp_path / "b")) == ErrorCode.KAFKA_STORAGE_ERROR


async def test_deleted_topic_ends_its_move(tmp_path: Path) -> None:
    made = Moves(tmp_path)
    replica = made.topic()
    for _ in range(20):
        assert produce(replica, bytes_of(LARGE))
    made.hosted.replicas.moves.limit(1.0)
    made.move("b")
    await made.until(lambda: any(each.size_bytes for each in made.hosted.replicas.moves))
    made.hosted.delete("t")
    await made.until(lambda: made.folders("b") == [])
    assert not made.hosted.directories.failed_ids
    made.close()


async def test_throttle_of_moves_is_applied(tmp_path: Path) -> None:
    made = Moves(tmp_path)
    replica = made.topic()
    for _ in range(10):
        assert produce(replica, bytes_of(LARGE))
    made.hosted.replicas.moves.limit(float(LARGE * 2))
    began = asyncio.get_running_loop().time()
    made.move("b")
    await made.done()
    # The first second is free, and so is the last piece.
    assert asyncio.get_running_loop().time() - began > 1.5
    made.close()


async def test_directory_of_a_later_replica_can_be_chosen_before(tmp_path: Path) -> None:
    made = Moves(tmp_path)
    made.topic("first")  # in a, so that b has fewer
    assert made.request("/nowhere", "later") == ErrorCode.LOG_DIR_NOT_FOUND
    assert made.request(str(tmp_path / "a"), "later") == ErrorCode.REPLICA_NOT_AVAILABLE
    assert made.topic("later").directory_id == made.a
    assert made.topic("other").directory_id == made.b
    made.close()


async def test_start_removes_unfinished_copies(tmp_path: Path) -> None:
    directory = LogDirectory(tmp_path, node_id=1, cluster_id="c")
    directory.open_future(("t", 0), UUID(int=7), LogSettings())
    again = LogDirectory(tmp_path, node_id=1, cluster_id="c")
    assert again.replicas() == {}
    assert again.remove_due() == 1
    assert folders_in(tmp_path) == []


async def test_log_that_is_truncated_while_it_is_read_is_copied_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reading thread finds the end of the log in the middle of a batch."""
    made = Moves(tmp_path)
    follower = made.topic("t", OTHER, ME)
    fetched(follower, tuple(data_batch(n, value_bytes=LARGE) for n in range(20)))
    loop, advance = asyncio.get_running_loop(), FutureLog.advance
    truncated: list[FutureLog] = []

    def interrupted(copy: FutureLog, end_offset: int) -> int:
        if not truncated:
            truncated.append(copy)
            loop.call_soon_threadsafe(follower.log.truncate_to, 3)
            while not copy.is_void:
                time.sleep(0.001)
            raise CorruptBatch(3, "the end of the log")
        return advance(copy, min(end_offset, 3))

    monkeypatch.setattr(FutureLog, "advance", interrupted)
    made.move("b")
    await made.done()
    assert follower.directory_id == made.b
    assert follower.log.opened().end_offset == 3
    made.close()
