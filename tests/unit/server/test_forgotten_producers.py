"""Idle producers expire, on leaders and followers: otherwise memory and snapshots would only grow."""

import asyncio
import time
from pathlib import Path

import pytest

from quorum_node.broker.errors import BrokerError
from quorum_node.broker.events import BatchesFetched
from quorum_node.image.resource_types import BROKER
from quorum_node.records.metadata import ConfigRecord
from quorum_node.server.broker.hosted_replica import HostedReplica
from support.data_batches import data_batch, end_of_transaction
from support.hosted_replicas import ME, OTHER, HostedReplicas, position_of, produce

pytestmark = pytest.mark.virtual_time

TEN_MINUTES_S = 600
DAY_MS = 86_400_000
EXPIRATION = "producer.id.expiration.ms"


def produced(producer_id: int, sequence: int, timestamp_ms: int) -> bytes:
    batch = data_batch(0, producer_id=producer_id, sequence=sequence, timestamp_ms=timestamp_ms)
    assert isinstance(batch.data, bytes)
    return batch.data


async def test_leader_expires_idle_producers_only(tmp_path: Path) -> None:
    hosted, now_ms = HostedReplicas(tmp_path), time.time_ns() // 1_000_000
    replicas = [hosted.create(f"t{number}") for number in range(3)]
    for replica in replicas:
        for producer_id in range(5):
            assert produce(replica, produced(producer_id, 0, now_ms - 2 * DAY_MS))
        assert produce(replica, produced(7, 0, now_ms))
        out_of_order = BrokerError.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        assert produce(replica, produced(1, 9, now_ms)) == out_of_order
    await asyncio.sleep(TEN_MINUTES_S + 60)
    for replica in replicas:
        assert [each.producer_id for each in replica.core.producers()] == [7]
        log = hosted.directory.logs[replica.topic_name, 0]
        assert [each.producer_id for each in log.producers()] == [7]
        assert produce(replica, produced(1, 9, now_ms)) == (BrokerError.NONE, 6)
    assert not hosted.failures
    hosted.close()


def ids(hosted: HostedReplicas, replica: HostedReplica) -> list[list[int]]:
    """Of the producers that the core, and the log, know."""
    log = hosted.directory.logs[replica.topic_name, 0]
    return [
        [each.producer_id for each in producers]
        for producers in (replica.core.producers(), log.producers())
    ]


async def test_expiration_is_configured_and_can_be_changed(tmp_path: Path) -> None:
    """The configuration file says two days, a dynamic config three hours."""
    now_ms = time.time_ns() // 1_000_000
    hosted = HostedReplicas(
        tmp_path, static={EXPIRATION: str(2 * DAY_MS)}, producer_check_ms=20_000
    )
    replica = hosted.create("t")
    for producer_id, age_ms in ((1, DAY_MS), (2, 3 * DAY_MS), (3, DAY_MS // 12)):
        assert produce(replica, produced(producer_id, 0, now_ms - age_ms))
    await asyncio.sleep(15)
    assert ids(hosted, replica) == [[1, 2, 3]] * 2, "it is checked every 20 s"
    await asyncio.sleep(20)
    assert ids(hosted, replica) == [[1, 3]] * 2
    changed = ConfigRecord(
        resource_type=BROKER, resource_name="", name=EXPIRATION, value=str(DAY_MS // 8)
    )
    hosted.cluster.replay([changed])
    hosted.replicas.apply(hosted.cluster.image)
    await asyncio.sleep(30)
    assert ids(hosted, replica) == [[3]] * 2
    assert not hosted.failures
    hosted.close()


async def test_follower_drops_decided_transactions(tmp_path: Path) -> None:
    """A follower gets no request for the last stable offset, which drops them on a leader."""
    hosted = HostedReplicas(tmp_path)
    follower = hosted.create("t", (OTHER, ME))
    for number in range(100):
        begun = data_batch(2 * number, producer_id=7, sequence=number, transactional=True)
        batches = begun, end_of_transaction(2 * number + 1, 7, abort=False)
        end = 2 * number + 2
        follower.take(BatchesFetched(position_of(follower), batches, end, 0))
        assert follower.core.end_offset == end
    table = hosted.directory.logs["t", 0]._producers
    assert len(table._decided) == 100
    await asyncio.sleep(TEN_MINUTES_S + 60)
    assert not table._decided
    hosted.close()
