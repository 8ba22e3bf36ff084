"""Logs are opened, and leader epochs written, on threads (broker/directory_threads.py, log_openings.py, replica_start.py)."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

from quorum_node.broker.errors import BrokerError
from quorum_node.broker.placement import AmbiguousReplica
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.metadata import METADATA, MetadataRequest, MetadataRequestTopic
from quorum_node.records.metadata import (
    ConfigRecord,
    NodeEndpoint,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from quorum_node.server.broker.directory_threads import THREADS
from quorum_node.server.broker.metadata_api import MetadataApi
from quorum_node.server.broker.topic_lookup import Found, look_up
from quorum_node.storage.errors import StorageFailure
from quorum_node.storage.file_system import PosixFileSystem
from quorum_node.storage.leader_epochs import read_checkpoint
from support.awaited_threads import when_waited_for
from support.controlled_cluster import ControlledCluster, directory_of
from support.counted_syncs import CountedSyncs
from support.data_batches import data_batch
from support.hosted_replicas import ME, OTHER, HostedReplicas, answered, produce

PARTITIONS = 30
TO_CREATE_A_LOG, OF_A_NEW_LEADER = 5, 2
"""Syncs."""


async def until(check: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not check():  # noqa: ASYNC110 - what is awaited has no event
            await asyncio.sleep(0.005)


def bytes_of() -> bytes:
    data = data_batch(0).data
    assert isinstance(data, bytes)
    return data


class Occupied:
    """All threads of the directories that create logs wait for `go_on`, so that no work begins."""

    def __init__(self, hosted: HostedReplicas) -> None:
        self._go_on = threading.Event()
        for directory_id in hosted.directories.online_ids * THREADS:
            hosted.threads.run(directory_id, lambda: self._go_on.wait(60), lambda _: None)

    def go_on(self) -> None:
        self._go_on.set()


def led(hosted: HostedReplicas) -> int:
    return sum(1 for replica in hosted.replicas if replica.is_leader)


def lead(hosted: HostedReplicas, name: str) -> None:
    """Make this broker the leader of all partitions."""
    topic_id = hosted.cluster.topic_id(name)
    hosted.cluster.replay(
        PartitionChangeRecord(topic_id=topic_id, partition_id=each.key.partition_id, leader=ME)
        for each in hosted.replicas
    )
    hosted.replicas.apply(hosted.cluster.image)


def count_of(folder: Path, pattern: str) -> int:
    return len(list(folder.glob(pattern)))


async def all_turns(hosted: HostedReplicas) -> None:
    """In virtual time."""
    await asyncio.sleep(2)
    hosted.threads.finish()


def is_opening(hosted: HostedReplicas, name: str) -> bool:
    """Whether requests are told that the replica can't be used yet."""
    found = look_up(hosted.replicas, None, name, 0)
    return isinstance(found, Found) and found.replica is None


# -- what the loop waits for


@pytest.mark.virtual_time
async def test_loop_makes_no_sync_to_create_logs_and_to_lead_them(tmp_path: Path) -> None:
    files = CountedSyncs()
    hosted = HostedReplicas(tmp_path, files=files)
    loop, others = files.in_loop, files.in_threads
    hosted._create("many", ((OTHER, ME),) * PARTITIONS, {}, is_awaited=False)
    await all_turns(hosted)
    assert (files.in_loop - loop, files.in_threads - others) == (0, TO_CREATE_A_LOG * PARTITIONS)
    lead(hosted, "many")
    await all_turns(hosted)
    assert led(hosted) == PARTITIONS
    assert files.in_loop == loop
    assert files.in_threads == others + (TO_CREATE_A_LOG + OF_A_NEW_LEADER) * PARTITIONS
    hosted.close()


@pytest.mark.virtual_time
async def test_loop_makes_no_sync_at_the_start(tmp_path: Path) -> None:
    hosted = HostedReplicas(tmp_path)
    hosted._create("gone", ((ME,),) * 3, {})
    hosted._create("many", ((ME,),) * PARTITIONS, {})
    hosted.close(cleanly=False)
    for number in range(3):
        (tmp_path / f"gone-{number}" / "partition.metadata").unlink()
    files = CountedSyncs()
    again = HostedReplicas(tmp_path, hosted.cluster, files=files, is_awaited=False)
    again.threads.finish()
    await all_turns(again)
    assert again.refused == [None]
    assert led(again) == PARTITIONS + 3
    assert files.in_loop == 0
    assert count_of(tmp_path, "*-stray") == 3
    again.close()


class Stalled(PosixFileSystem):
    """The threads wait when they open the log of a partition."""

    def __init__(self) -> None:
        self._loop_thread = threading.get_ident()
        self.go_on = threading.Event()

    def open(self, path: Path, flags: int, mode: int = 0o640) -> int:
        if threading.get_ident() != self._loop_thread and path.suffix == ".log":
            assert self.go_on.wait(60)
        return super().open(path, flags, mode)


@pytest.mark.virtual_time
async def test_progress_of_the_start_is_logged_and_nothing_is_served_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hosted = HostedReplicas(tmp_path)
    hosted._create("many", ((ME,),) * PARTITIONS, {})
    hosted.close()
    files = Stalled()
    again = HostedReplicas(tmp_path, hosted.cluster, files=files, is_awaited=False)
    again.threads.finish_found()
    await asyncio.sleep(12)
    logged = capsys.readouterr().out
    assert f"0 of {PARTITIONS} are open after 5 s" in logged
    assert f"0 of {PARTITIONS} are open after 10 s" in logged
    assert is_opening(again, "many")
    assert not again.refused
    files.go_on.set()
    again.threads.finish()
    assert again.refused == [None]
    assert led(again) == PARTITIONS
    assert f"opened {PARTITIONS} replicas in 12.0 s" in capsys.readouterr().out
    await asyncio.sleep(12)
    assert "are open after" not in capsys.readouterr().out
    again.close()


class StalledNames(Stalled):
    """The threads wait when they look for logs."""

    def names(self, directory: Path) -> list[str]:
        if threading.get_ident() != self._loop_thread:
            assert self.go_on.wait(60)
        return super().names(directory)


@pytest.mark.virtual_time
async def test_progress_is_logged_before_the_logs_are_known_as_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = StalledNames()
    hosted = HostedReplicas(tmp_path, files=files, is_awaited=False)
    await asyncio.sleep(12)
    logged = capsys.readouterr().out
    assert (
        "looking for logs in log.dirs, and setting stray ones aside: not done after 5 s" in logged
    )
    assert "not done after 10 s" in logged
    files.go_on.set()
    hosted.threads.finish()
    assert hosted.refused == [None]
    await asyncio.sleep(12)
    assert "after" not in capsys.readouterr().out
    hosted.close()


async def test_two_logs_of_one_replica_refuse_the_start(tmp_path: Path) -> None:
    hosted = HostedReplicas(tmp_path / "a", second=tmp_path / "b")
    hosted.create("t")
    hosted.close(cleanly=False)
    hosted.opened[1].close(None)
    source, copy = tmp_path / "a" / "t-0", tmp_path / "b" / "t-0"
    copy.mkdir()
    for each in source.iterdir():
        (copy / each.name).write_bytes(each.read_bytes())
    stray = tmp_path / "a" / "stray-0"
    stray.mkdir()
    again = HostedReplicas(tmp_path / "a", hosted.cluster, second=tmp_path / "b")
    assert [type(each) for each in again.refused] == [AmbiguousReplica]
    assert stray.exists(), "nothing was changed"
    again.close(cleanly=False)


async def test_start_goes_on_once_if_the_directory_of_a_stray_log_fails_meanwhile(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    HostedReplicas(tmp_path / "a", second=tmp_path / "b").replicas.close()
    (tmp_path / "b" / "stray-0").mkdir()
    hosted = HostedReplicas(tmp_path / "a", second=tmp_path / "b", is_awaited=False)
    hosted.threads.finish_found()
    while not hosted.threads._ended.qsize():
        time.sleep(0.001)  # noqa: ASYNC251 - within the turn in which the directory fails
    hosted.opened[1].fail(StorageFailure("gone"))
    hosted.threads.finish()
    assert hosted.refused == [None]
    assert "stray-0" not in capsys.readouterr().out, "it is not renamed"
    hosted.replicas.close()
    for each in hosted.opened:
        each.close(None)


# -- changes while a log is being opened


async def test_replica_that_is_stopped_meanwhile_is_deleted(tmp_path: Path) -> None:
    hosted = HostedReplicas(tmp_path)
    occupied = Occupied(hosted)
    hosted._create("t", ((ME,),), {}, is_awaited=False)
    assert is_opening(hosted, "t")
    hosted.delete("t")
    occupied.go_on()
    await until(lambda: count_of(tmp_path, "t-0.*-delete") == 1)
    assert not list(hosted.replicas)
    assert not (tmp_path / "t-0").exists()
    hosted.close()


async def test_logs_that_a_thread_has_opened_already_count_once(tmp_path: Path) -> None:
    """New replicas go to the directory with fewer logs, also before the results of the threads are taken."""
    hosted = HostedReplicas(tmp_path / "a", second=tmp_path / "b")
    a, b = hosted.register_directories()
    hosted._create("t", ((ME,),), {}, is_awaited=False)
    while not hosted.threads._ended.qsize():
        time.sleep(0.001)  # noqa: ASYNC251 - within the turn in which the log is opened
    occupied = Occupied(hosted)
    hosted._create("u", ((ME,),) * 2, {}, is_awaited=False)
    occupied.go_on()
    hosted.threads.finish()
    assert Counter(each.directory_id for each in hosted.replicas) == {a: 2, b: 1}
    hosted.close()


async def test_log_of_a_replica_that_is_stopped_meanwhile_does_not_count(tmp_path: Path) -> None:
    hosted = HostedReplicas(tmp_path / "a", second=tmp_path / "b")
    a, b = hosted.register_directories()
    assert hosted.create("t").directory_id == a
    occupied = Occupied(hosted)
    hosted._create("u", ((ME,),), {}, is_awaited=False)
    hosted.delete("u")
    occupied.go_on()
    hosted.threads.finish()
    await asyncio.sleep(0)  # a turn of the loop creates few logs
    assert hosted.create("v").directory_id == b
    hosted.close()


async def test_topic_that_is_created_again_meanwhile_has_a_log_of_its_own(tmp_path: Path) -> None:
    hosted = HostedReplicas(tmp_path)
    occupied = Occupied(hosted)
    hosted._create("t", ((ME,),), {}, is_awaited=False)
    hosted.delete("t")
    hosted._create("t", ((ME,),), {}, is_awaited=False)
    again = hosted.cluster.topic_id("t")
    occupied.go_on()
    await until(lambda: hosted.replicas.replica(again, 0) is not None)
    assert hosted.replica("t").is_leader
    assert [each.key.topic_id for each in hosted.replicas] == [again]
    assert count_of(tmp_path, "t-0.*-delete") == 1
    hosted.close()


async def test_replica_has_the_newest_metadata_and_configuration(tmp_path: Path) -> None:
    hosted = HostedReplicas(tmp_path)
    occupied = Occupied(hosted)
    hosted._create("t", ((OTHER, ME),), {}, is_awaited=False)
    change = PartitionChangeRecord(topic_id=hosted.cluster.topic_id("t"), partition_id=0, leader=ME)
    config = ConfigRecord(resource_type=2, resource_name="t", name="segment.bytes", value="2000000")
    hosted.cluster.replay([change, config])
    hosted.replicas.apply(hosted.cluster.image)
    occupied.go_on()
    await until(lambda: bool(list(hosted.replicas)))
    replica = hosted.replica("t")
    assert replica.is_leader
    assert replica.log.settings.segment_bytes == 2_000_000
    hosted.close()


async def test_directory_that_fails_meanwhile_takes_the_replica_offline(tmp_path: Path) -> None:
    hosted = HostedReplicas(tmp_path / "a", second=tmp_path / "b")
    hosted.register_directories()
    occupied = Occupied(hosted)
    hosted._create("t", ((ME,),), {}, is_awaited=False)
    hosted.opened[0].fail(StorageFailure("gone"))
    await asyncio.sleep(0)
    occupied.go_on()
    await until(lambda: not hosted.threads.unfinished)
    assert look_up(hosted.replicas, None, "t", 0) == ErrorCode.KAFKA_STORAGE_ERROR
    assert not hosted.failures
    hosted.replicas.close()
    for each in hosted.opened:
        each.close(None)


async def test_logs_that_are_being_opened_count_for_the_choice_of_a_directory(
    tmp_path: Path,
) -> None:
    hosted = HostedReplicas(tmp_path / "a", second=tmp_path / "b")
    occupied = Occupied(hosted)
    hosted._create("t", ((ME,),) * 4, {}, is_awaited=False)
    occupied.go_on()
    hosted.threads.finish()
    assert set(Counter(each.directory_id for each in hosted.replicas).values()) == {2}
    hosted.replicas.close()
    for each in hosted.opened:
        each.close(None)


async def test_stop_waits_for_logs_that_are_being_opened_and_begins_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosted = HostedReplicas(tmp_path)
    hosted._create("many", ((ME,),) * PARTITIONS, {})
    hosted.close()
    files = Stalled()
    again = HostedReplicas(tmp_path, hosted.cluster, files=files, is_awaited=False)
    again.threads.finish_found()
    when_waited_for(monkeypatch, files.go_on.set)
    again.close()
    assert 0 < len(again.directory.logs) <= THREADS
    assert not list(again.replicas)
    last = HostedReplicas(tmp_path, hosted.cluster)
    await until(lambda: bool(last.refused))
    assert last.directory.was_closed, "those that were not opened were closed before"
    assert led(last) == PARTITIONS
    last.close()


async def test_metadata_names_no_leader_before_its_log_is_open(tmp_path: Path) -> None:
    cluster = ControlledCluster(())
    for broker_id in (ME, OTHER):
        end_point = NodeEndpoint(name="PLAINTEXT", host="b", port=9092, security_protocol=0)
        record = RegisterBrokerRecord(
            broker_id=broker_id,
            incarnation_id=UUID(int=broker_id),
            broker_epoch=cluster.offset,
            end_points=(end_point,),
            features=(),
            rack=None,
            fenced=False,
            log_dirs=(directory_of(broker_id),),
        )
        cluster.replay([record])
    hosted = HostedReplicas(tmp_path, cluster)
    replicas = hosted.replicas
    api = MetadataApi(ME, lambda: replicas.image, lambda: "c", lambda: 1, replicas.may_lead)
    occupied = Occupied(hosted)
    hosted._create("t", ((ME, OTHER), (OTHER, ME)), {}, is_awaited=False)

    def leaders() -> list[tuple[int, int]]:
        request = MetadataRequest(topics=(MetadataRequestTopic(name="t"),))
        answer = answered(api.metadata, METADATA, request)
        return [(each.error_code, each.leader_id) for each in answer.topics[0].partitions]

    assert leaders() == [(ErrorCode.LEADER_NOT_AVAILABLE, -1), (ErrorCode.NONE, OTHER)]
    occupied.go_on()
    hosted.threads.finish()
    assert leaders() == [(ErrorCode.NONE, ME), (ErrorCode.NONE, OTHER)]
    hosted.close()


# -- leader epochs


async def test_epoch_is_in_its_checkpoint_before_its_first_record(tmp_path: Path) -> None:
    hosted = HostedReplicas(tmp_path)
    leader = hosted.create("t")
    before = read_checkpoint(tmp_path / "t-0")
    assert produce(leader, bytes_of()) == (BrokerError.NONE, 0)
    occupied = Occupied(hosted)
    epoch = leader.core.leader_epoch + 1
    change = PartitionChangeRecord(
        topic_id=leader.key.topic_id, partition_id=0, leader=ME, isr=(ME,)
    )
    hosted.cluster.replay([change])
    hosted.replicas.apply(hosted.cluster.image)
    assert (leader.is_leader, leader.core.leader_epoch) == (True, epoch)
    assert read_checkpoint(tmp_path / "t-0") == before, "no thread has written it yet"
    assert produce(leader, bytes_of()) == (BrokerError.NONE, 1)
    assert read_checkpoint(tmp_path / "t-0") == [*before, (epoch, 1)]
    occupied.go_on()
    hosted.threads.finish()
    assert read_checkpoint(tmp_path / "t-0") == [*before, (epoch, 1)]
    hosted.close(cleanly=False)
    again = HostedReplicas(tmp_path, hosted.cluster)
    assert again.replica("t").core.epoch_starts[:2] == (*before, (epoch, 1))
    again.close()


async def test_clean_stop_writes_epochs_that_no_thread_has_written(tmp_path: Path) -> None:
    hosted = HostedReplicas(tmp_path)
    occupied = Occupied(hosted)
    hosted._create("t", ((OTHER, ME),), {}, is_awaited=False)
    occupied.go_on()
    hosted.threads.finish()
    occupied = Occupied(hosted)
    lead(hosted, "t")
    epoch = hosted.replica("t").core.leader_epoch
    assert read_checkpoint(tmp_path / "t-0") == []
    timer = threading.Timer(0.2, occupied.go_on)
    timer.start()
    hosted.close()
    assert read_checkpoint(tmp_path / "t-0") == [(epoch, 0)]
