"""`flush.messages` and `flush.ms`: when logs are synced, what waits for it, and what a failed sync ends."""

import asyncio
import errno
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from quorum_node.broker.batch import Batch
from quorum_node.broker.errors import BrokerError
from quorum_node.broker.events import BatchesFetched
from quorum_node.image.configs import ConfigsImage
from quorum_node.protocol.fetch import (
    FetchRequest,
    FetchResponse,
    FetchResponsePartition,
    FetchResponseTopic,
)
from quorum_node.server.broker.hosted_replica import HostedReplica
from quorum_node.server.broker.topic_values import TopicValues
from quorum_node.storage.broker.log_settings import LogSettings
from support.data_batches import data_batch
from support.hosted_replicas import ME, OTHER, HostedReplicas, position_of
from support.stalled_syncs import Produced, StalledSyncs

EVERY_100_MS = {"log.flush.scheduler.interval.ms": "100"}


@pytest.fixture
def files() -> Iterator[StalledSyncs]:
    made = StalledSyncs()
    yield made
    made.go_on()


def fetched(follower: HostedReplica, batch: Batch) -> FetchResponse:
    """The leader's answer with one batch."""
    assert isinstance(batch.data, bytes)
    partition = FetchResponsePartition(
        partition_index=0, error_code=0, high_watermark=0, records=batch.data
    )
    topic = FetchResponseTopic(topic_id=follower.key.topic_id, partitions=(partition,))
    return FetchResponse(error_code=0, responses=(topic,))


async def until(check: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not check():  # noqa: ASYNC110 - what is awaited has no event
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("acks", [1, -1])
async def test_records_are_acknowledged_when_they_are_synced(
    tmp_path: Path, files: StalledSyncs, acks: int
) -> None:
    """`flush.messages=1`. The loop serves others meanwhile."""
    hosted = HostedReplicas(tmp_path, files=files)
    synced, other = hosted.create("synced", **{"flush.messages": "1"}), hosted.create("other")
    files.stall()
    first = Produced(synced, acks)
    await until(files.begun.is_set)
    second = Produced(synced, acks)
    assert Produced(other, acks).answer == (BrokerError.NONE, 0), "no other topic waits"
    assert synced.core.high_watermark == 0
    assert (first.answer, second.answer) == (None, None)
    files.go_on()
    await until(lambda: second.answer is not None)
    assert (first.answer, second.answer) == ((BrokerError.NONE, 0), (BrokerError.NONE, 1))
    assert synced.log.synced_offset == 2, "the second one was not covered by the first sync"
    assert other.log.synced_offset == 0
    hosted.close()


async def test_only_every_third_record_waits(tmp_path: Path, files: StalledSyncs) -> None:
    hosted = HostedReplicas(tmp_path, files=files)
    replica = hosted.create("t", **{"flush.messages": "3"})
    files.stall()
    for offset in range(2):
        assert Produced(replica).answer == (BrokerError.NONE, offset)
    third = Produced(replica)
    assert third.answer is None
    files.go_on()
    await until(lambda: third.answer is not None)
    assert replica.log.synced_offset == 3
    assert Produced(replica).answer == (BrokerError.NONE, 3)
    assert replica.log.synced_offset == 3
    hosted.close()


async def test_follower_fetches_on_when_its_log_is_synced(
    tmp_path: Path, files: StalledSyncs
) -> None:
    """The position of its next fetch says what it has: the leader counts it as replicated."""
    hosted = HostedReplicas(tmp_path, files=files)
    follower = hosted.create("t", (OTHER, ME), **{"flush.messages": "1"})
    files.stall()
    follower.take(BatchesFetched(position_of(follower), (data_batch(0),), 1, 0))
    assert follower.core.fetch_position is None
    await until(files.begun.is_set)
    assert follower.core.fetch_position is None
    files.go_on()
    await until(lambda: follower.core.fetch_position is not None)
    assert position_of(follower).fetch_offset == follower.log.synced_offset == 1
    hosted.close()


async def test_fetch_follows_the_sync_of_the_only_replica_that_is_fetched(
    tmp_path: Path, files: StalledSyncs
) -> None:
    """Nothing else wakes the fetcher of this leader."""
    hosted = HostedReplicas(tmp_path, files=files)
    follower = hosted.create("t", (OTHER, ME), **{"flush.messages": "1"})
    await until(lambda: len(hosted.peers.asked) == 1)
    (_, answered) = hosted.peers.asked[0]
    files.stall()
    answered(fetched(follower, data_batch(0)))
    await until(files.begun.is_set)
    await asyncio.sleep(0.05)
    assert len(hosted.peers.asked) == 1, "not before the record is synced"
    files.go_on()
    await until(lambda: len(hosted.peers.asked) == 2)
    (request, _) = hosted.peers.asked[1]
    assert isinstance(request, FetchRequest)
    assert request.topics[0].partitions[0].fetch_offset == 1
    hosted.close()


@pytest.mark.parametrize("replicas", [(ME,), (OTHER, ME)], ids=["leader", "follower"])
async def test_completed_segment_is_synced(tmp_path: Path, replicas: tuple[int, ...]) -> None:
    hosted = HostedReplicas(tmp_path)
    replica = hosted.create("t", replicas)
    replica.log.configure(LogSettings(segment_bytes=300))
    for offset in range(6):
        if replicas == (ME,):
            assert Produced(replica).answer == (BrokerError.NONE, offset), "it does not wait"
        else:
            replica.take(BatchesFetched(position_of(replica), (data_batch(offset),), 0, 0))
            assert position_of(replica).fetch_offset == offset + 1
    await until(lambda: replica.log.synced_offset >= 3)
    hosted.close()


async def test_segment_that_is_completed_during_a_sync_is_synced_after_it(
    tmp_path: Path, files: StalledSyncs
) -> None:
    """The sync that is running may have begun before its last records."""
    hosted = HostedReplicas(tmp_path, files=files)
    replica = hosted.create("t")
    replica.log.configure(LogSettings(segment_bytes=300))
    files.stall()
    for _ in range(6):
        Produced(replica)
    await until(files.begun.is_set)
    for _ in range(6):
        Produced(replica)
    files.go_on()
    await until(lambda: replica.log.synced_offset >= 9)
    hosted.close()


async def test_failed_sync_takes_the_directory_offline_for_good(
    tmp_path: Path, files: StalledSyncs
) -> None:
    hosted = HostedReplicas(tmp_path, files=files)
    replica, other = hosted.create("t", **{"flush.messages": "1"}), hosted.create("other")
    files.error = errno.EIO
    waiting = Produced(replica)
    await until(lambda: bool(hosted.failures))
    files.error = None
    assert Produced(replica).answer == (BrokerError.KAFKA_STORAGE_ERROR, -1)
    assert Produced(other).answer == (BrokerError.KAFKA_STORAGE_ERROR, -1)
    assert waiting.answer == (BrokerError.KAFKA_STORAGE_ERROR, -1)
    assert replica.log.synced_offset == 0
    hosted.close(cleanly=False)


async def test_failed_sync_of_one_directory_answers_its_requests(
    tmp_path: Path, files: StalledSyncs
) -> None:
    hosted = HostedReplicas(tmp_path / "a", second=tmp_path / "b", second_files=files)
    hosted.register_directories()
    in_a, in_b = (hosted.create(name, **{"flush.messages": "1"}) for name in ("in-a", "in-b"))
    assert in_a.directory_id != in_b.directory_id
    files.error = errno.EIO
    in_good, in_bad = Produced(in_a), Produced(in_b)
    await until(lambda: in_bad.answer is not None)
    await until(lambda: in_good.answer is not None)
    assert in_bad.answer == (BrokerError.KAFKA_STORAGE_ERROR, -1)
    assert in_good.answer == (BrokerError.NONE, 0)
    assert hosted.directories.failed_ids == (in_b.directory_id,)
    hosted.replicas.close()
    hosted.directories.close(None)


async def test_log_is_synced_when_its_interval_is_over(tmp_path: Path) -> None:
    hosted = HostedReplicas(tmp_path, static=EVERY_100_MS)
    soon, late = hosted.create("soon", **{"flush.ms": "50"}), hosted.create("late")
    late.log.configure(LogSettings(flush_ms=3_600_000))
    for replica in (soon, late):
        assert Produced(replica).answer == (BrokerError.NONE, 0), "flush.ms delays no answer"
    assert soon.log.synced_offset == 0
    await until(lambda: soon.log.synced_offset == 1)
    assert late.log.synced_offset == 0
    assert Produced(soon).answer == (BrokerError.NONE, 1)
    await until(lambda: soon.log.synced_offset == 2)
    assert late.log.synced_offset == 0
    hosted.close()


@pytest.mark.virtual_time
async def test_interval_begins_with_the_last_sync_and_is_checked_by_the_scheduler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """10 s after the last sync, at the first of the checks every 4 s."""
    loop = asyncio.get_running_loop()

    def at_once(_: object, action: Callable[[], None]) -> "asyncio.Future[None]":
        done = loop.create_future()
        done.set_result(action())
        return done

    # Virtual time does not wait for threads.
    monkeypatch.setattr(loop, "run_in_executor", at_once)
    static = {"log.flush.scheduler.interval.ms": "4000", "log.flush.interval.ms": "10000"}
    hosted = HostedReplicas(tmp_path, static=static)
    replica, idle = hosted.create("t"), hosted.create("idle")
    synced_s = list[float]()
    for count in range(1, 4):
        Produced(replica)
        while replica.log.synced_offset < count:  # noqa: ASYNC110 - what is awaited has no event
            await asyncio.sleep(0.1)
        synced_s.append(loop.time())
    assert synced_s == pytest.approx([12, 24, 36], abs=1.5)
    Produced(idle)
    await asyncio.sleep(5)
    assert idle.log.synced_offset == 1, "without a sync the interval begins when the log is opened"
    hosted.close()


def test_broker_keys_are_the_defaults_of_topics() -> None:
    none = ConfigsImage()
    for static, messages, interval_ms, check_ms in (
        ({}, 2**63 - 1, 2**63 - 1, 2**63 - 1),
        ({"log.flush.interval.messages": "7"}, 7, 2**63 - 1, 2**63 - 1),
        ({"log.flush.interval.ms": "8"}, 2**63 - 1, 8, 2**63 - 1),
        ({"log.flush.scheduler.interval.ms": "9"}, 2**63 - 1, 9, 9),
        (
            {"log.flush.scheduler.interval.ms": "9", "log.flush.interval.ms": "8"},
            2**63 - 1,
            8,
            9,
        ),
    ):
        values = TopicValues(ME, static, 1)
        settings = values.log_settings(none, "t")
        assert (settings.flush_messages, settings.flush_ms) == (messages, interval_ms)
        assert values.sync_check_ms == check_ms
