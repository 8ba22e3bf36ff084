"""Changes of many replicas are made in many turns of the loop (broker/replica_turns.py)."""

import asyncio
from pathlib import Path
from uuid import UUID

import pytest

from quorum_node.broker.events import Event, MetadataChanged, ReplicaStopped
from quorum_node.image.topics import PartitionKey
from quorum_node.records.metadata import PartitionChangeRecord
from quorum_node.server.broker.hosted_replica import HostedReplica
from quorum_node.server.broker.replica_turns import AT_ONCE, TURN_SECONDS, ReplicaTurns
from support.hosted_replicas import ME, OTHER, HostedReplicas

pytestmark = pytest.mark.virtual_time

PARTITIONS = 60


def opened(hosted: HostedReplicas) -> int:
    return sum(1 for _ in hosted.replicas)


def names_in(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}


async def test_slow_changes_are_made_one_in_a_turn() -> None:
    now_s = 0.0
    changed: list[PartitionKey] = []
    ended: list[int] = []

    def change(key: PartitionKey) -> None:
        nonlocal now_s
        now_s += 1.5 * TURN_SECONDS if len(changed) < 10 else 0.3 * TURN_SECONDS
        changed.append(key)

    turns = ReplicaTurns(change, lambda: ended.append(len(changed)), lambda: now_s)
    keys = [PartitionKey(UUID(int=7), number) for number in range(PARTITIONS)]
    assert sum(map(turns.may_change_now, keys)) == AT_ONCE
    assert not changed
    await asyncio.sleep(10)
    assert changed == keys[AT_ONCE:]
    assert ended[:12] == [*range(1, 11), 14, 18]


async def test_many_logs_are_created_later(tmp_path: Path) -> None:
    hosted = HostedReplicas(tmp_path)
    told: list[int] = []
    hosted.replicas.watch(lambda: told.append(opened(hosted)))
    hosted.create("many", *((ME,),) * PARTITIONS)
    assert opened(hosted) == AT_ONCE
    await asyncio.sleep(10)
    hosted.threads.finish()
    assert opened(hosted) == PARTITIONS == told[-1]
    assert hosted.replica("many", PARTITIONS - 1).is_leader
    hosted.close()


def led(hosted: HostedReplicas) -> int:
    return sum(1 for replica in hosted.replicas if replica.is_leader)


async def test_leaderships_of_a_failed_broker_are_taken_over_in_turns(tmp_path: Path) -> None:
    hosted = HostedReplicas(tmp_path)
    hosted._create("many", ((OTHER, ME),) * PARTITIONS, {})
    await asyncio.sleep(10)
    hosted.threads.finish()
    assert (opened(hosted), led(hosted)) == (PARTITIONS, 0)
    topic_id = hosted.cluster.topic_id("many")
    hosted.cluster.replay(
        PartitionChangeRecord(topic_id=topic_id, partition_id=number, leader=ME)
        for number in range(PARTITIONS)
    )
    hosted.replicas.apply(hosted.cluster.image)
    assert led(hosted) == AT_ONCE
    await asyncio.sleep(10)
    hosted.threads.finish()
    assert led(hosted) == PARTITIONS
    hosted.close()


async def test_leaders_learn_in_turns_that_a_broker_was_fenced(tmp_path: Path) -> None:
    hosted = HostedReplicas(tmp_path)
    hosted._create("many", ((ME, OTHER),) * PARTITIONS, {})
    await asyncio.sleep(10)
    hosted.threads.finish()
    counts = [0]

    def take(replica: HostedReplica, event: Event) -> None:
        counts[-1] += isinstance(event, MetadataChanged)
        real(replica, event)

    real = HostedReplica.take
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HostedReplica, "take", take)
        hosted.cluster.fence(OTHER)
        hosted.replicas.apply(hosted.cluster.image)
        assert counts == [AT_ONCE]
        await asyncio.sleep(10)
    assert counts == [PARTITIONS]
    hosted.close()


async def test_replicas_of_a_deleted_topic_are_stopped_in_turns(tmp_path: Path) -> None:
    hosted = HostedReplicas(tmp_path)
    hosted._create("many", ((ME,),) * PARTITIONS, {})
    await asyncio.sleep(10)
    hosted.threads.finish()
    stopped: list[HostedReplica] = []

    def take(replica: HostedReplica, event: Event) -> None:
        if event == ReplicaStopped(delete=True):
            stopped.append(replica)
        real(replica, event)

    real = HostedReplica.take
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HostedReplica, "take", take)
        hosted.delete("many")
        assert (len(stopped), opened(hosted)) == (AT_ONCE, 0), "none of them gets requests any more"
        await asyncio.sleep(10)
    assert len(set(stopped)) == PARTITIONS == len(stopped)
    assert not hosted.replicas._timers.syncs._synced_at, "nothing is kept of them"
    hosted.close()


async def test_turns_of_several_images_share_the_limit(tmp_path: Path) -> None:
    hosted = HostedReplicas(tmp_path)
    for number in range(3 * AT_ONCE):
        hosted._create(f"topic-{number}", ((ME,),), {})
    assert opened(hosted) == AT_ONCE
    hosted._create("later", ((ME,),), {})
    await asyncio.sleep(10)
    hosted.threads.finish()
    assert opened(hosted) == 3 * AT_ONCE + 1
    hosted._create("alone", ((ME,),), {})
    assert hosted.replica("alone").is_leader, "a single one is opened at once"
    hosted.close()


async def test_deleted_topic_is_not_opened_later(tmp_path: Path) -> None:
    hosted = HostedReplicas(tmp_path)
    hosted.create("gone", *((ME,),) * PARTITIONS)
    hosted.delete("gone")
    await asyncio.sleep(10)
    assert opened(hosted) == 0
    assert f"gone-{PARTITIONS - 1}" not in names_in(tmp_path)
    hosted.close()


async def test_closed_broker_opens_nothing_more(tmp_path: Path) -> None:
    hosted = HostedReplicas(tmp_path)
    hosted.create("many", *((ME,),) * PARTITIONS)
    hosted.close()
    await asyncio.sleep(10)
    assert opened(hosted) == AT_ONCE


async def test_all_are_opened_at_the_start(tmp_path: Path) -> None:
    hosted = HostedReplicas(tmp_path)
    hosted.create("many", *((ME,),) * PARTITIONS)
    await asyncio.sleep(10)
    hosted.threads.finish()
    cluster = hosted.cluster
    hosted.close()
    again = HostedReplicas(tmp_path, cluster)
    assert not again.refused, "the start has not ended"
    await asyncio.sleep(10)
    again.threads.finish()
    assert again.refused == [None]
    assert opened(again) == PARTITIONS
    again.close()
