"""A coordinator reads its log, and makes its groups ready, in short turns of the loop (broker/group_coordinators.py)."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

from quorum_node.coordinator.errors import GroupError
from quorum_node.coordinator.offsets import offset_record_of
from quorum_node.coordinator.requests import Committed, TopicPartition
from quorum_node.records.group_records import NO_EPOCH, NO_TIME
from quorum_node.records.metadata import PartitionChangeRecord
from quorum_node.server.broker import group_log
from quorum_node.server.broker.events import BrokerEvents
from quorum_node.server.broker.group_coordinators import GroupCoordinators, LedGroups, partition_of
from quorum_node.server.broker.hosted_replica import HostedReplica
from quorum_node.server.broker.internal_topics import OFFSETS_TOPIC
from support.hosted_replicas import ME, HostedReplicas, broker_config, produce

pytestmark = pytest.mark.virtual_time

MANY = 300
PRODUCER = 7
PARTITION = TopicPartition("t", 0)


def commit(replica: HostedReplica, *groups: str, topic_id: UUID | None = None) -> None:
    """In one batch."""
    offset = Committed(5, NO_EPOCH, "", 0, NO_TIME, topic_id)
    data = group_log._encoded([offset_record_of(each, PARTITION, offset) for each in groups])
    outcome = produce(replica, data, acks=-1)
    assert outcome is not None
    assert not outcome[0].value.startswith("the"), outcome


class Coordinators:
    """Those of a broker that leads all partitions of the groups' topic. `turns`: of the loop, until all are ready."""

    def __init__(self, hosted: HostedReplicas) -> None:
        self.groups = GroupCoordinators(
            hosted.replicas, broker_config().groups.settings, 1000, BrokerEvents()
        )
        self.turns = 0
        self.groups.image_changed()

    @property
    def led(self) -> list[LedGroups]:
        return list(self.groups.led())

    async def ready(self, between: Callable[[], None] = lambda: None) -> None:
        """`between`: called in each turn."""
        async with asyncio.timeout(60):
            while not all(each.is_ready for each in self.led):
                between()
                await asyncio.sleep(0)
                self.turns += 1


async def test_each_record_may_end_a_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_log, "TURN_SECONDS", 0)
    hosted = HostedReplicas(tmp_path)
    commit(hosted.create(OFFSETS_TOPIC), *(f"g{number}" for number in range(MANY)))
    coordinators = Coordinators(hosted)
    await coordinators.ready()
    assert coordinators.turns >= 3 * MANY, "records, groups of offsets, and timers"
    assert len(coordinators.led[0].table.groups) == MANY
    coordinators.groups.close()
    hosted.close()


async def test_coordinators_load_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The turns of many would follow each other without a pause for other work."""
    monkeypatch.setattr(group_log, "TURN_SECONDS", 0)
    hosted = HostedReplicas(tmp_path)
    replicas = ((101,),) * 3
    hosted.create(OFFSETS_TOPIC, *replicas)
    await asyncio.sleep(1)
    for number in range(MANY):
        name = f"g{number}"
        commit(hosted.replica(OFFSETS_TOPIC, partition_of(name, len(replicas))), name)
    coordinators = Coordinators(hosted)
    seen = set()

    def look() -> None:
        seen.add(sum(bool(each.table.groups) and not each.is_ready for each in coordinators.led))

    await coordinators.ready(look)
    assert seen == {0, 1}
    assert sum(len(each.table.groups) for each in coordinators.led) == MANY
    coordinators.groups.close()
    hosted.close()


async def test_marker_that_comes_while_groups_are_made_ready_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_log, "TURN_SECONDS", 0)
    hosted = HostedReplicas(tmp_path)
    commit(hosted.create(OFFSETS_TOPIC), *(f"g{number}" for number in range(MANY)))
    coordinators = Coordinators(hosted)
    (led,) = coordinators.led
    replayed = led.table.offsets

    def write_marker() -> None:
        if len(replayed.groups()) == MANY and not replayed.unstable("late"):
            # As if it had been replayed, in an open transaction.
            offset = Committed(6, NO_EPOCH, "", 0, NO_TIME, None)
            replayed.commit_with(PRODUCER, "late", {PARTITION: offset})
        elif led._is_read and not led.is_ready and replayed.unstable("late"):
            coordinators.groups.marker_written(0, PRODUCER, commit=True)

    await coordinators.ready(write_marker)
    assert replayed.of("late")[PARTITION].offset == 6
    assert led.table.describe("late") is not None
    assert coordinators.groups.of("late") is not GroupError.COORDINATOR_LOAD_IN_PROGRESS
    coordinators.groups.close()
    hosted.close()


async def test_coordinator_whose_leadership_ends_reads_no_further(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next coordinator waits for its turn, and a log may be large."""
    monkeypatch.setattr(group_log, "TURN_SECONDS", 0)
    monkeypatch.setattr(group_log, "_PIECE_BYTES", 1)
    hosted = HostedReplicas(tmp_path)
    replica = hosted.create(OFFSETS_TOPIC, (101,), (101,))
    await asyncio.sleep(1)
    for number in range(MANY):
        commit(replica, f"g{number}")
    coordinators = Coordinators(hosted)
    first, second = coordinators.led
    for _ in range(10 * MANY):
        if first.table.offsets.groups():
            break
        await asyncio.sleep(0)
    ended = PartitionChangeRecord(partition_id=0, topic_id=replica.key.topic_id, leader=-1)
    hosted.cluster.replay([ended])
    hosted.replicas.apply(hosted.cluster.image)
    coordinators.groups.image_changed()
    assert coordinators.led == [second]
    await coordinators.ready()
    assert len(first.table.offsets.groups()) < MANY
    assert not first.is_ready
    coordinators.groups.close()
    hosted.close()


async def test_topic_that_is_deleted_while_the_log_is_read_loses_its_offsets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it is created again: a consumer would skip the first records of the new topic."""
    monkeypatch.setattr(group_log, "TURN_SECONDS", 0)
    hosted = HostedReplicas(tmp_path)
    replica = hosted.create(OFFSETS_TOPIC)
    before = hosted.create(PARTITION.topic).key.topic_id
    commit(replica, "before", topic_id=before)
    coordinators = Coordinators(hosted)
    (led,) = coordinators.led
    hosted.delete(PARTITION.topic)
    coordinators.groups.image_changed()
    assert not led.is_ready
    hosted.create_elsewhere(PARTITION.topic)
    after = hosted.cluster.topic_id(PARTITION.topic)
    commit(replica, "after", topic_id=after)
    commit(replica, "unknown")
    coordinators.groups.image_changed()
    await coordinators.ready()
    assert {*led.table.offsets.groups()} == {"before", "after", "unknown"}
    await asyncio.sleep(1)
    assert {*led.table.offsets.groups()} == {"after", "unknown"}
    coordinators.groups.close()
    hosted.close()


@pytest.mark.parametrize("others", [(), (-1,)])
async def test_coordinator_goes_on_while_the_same_broker_leads(
    tmp_path: Path, others: tuple[int, ...]
) -> None:
    """Members that wait for a rebalance need not join again, unless another replica led between two leader epochs."""
    hosted = HostedReplicas(tmp_path)
    replica = hosted.create(OFFSETS_TOPIC)
    coordinators = Coordinators(hosted)
    await coordinators.ready()
    (led,) = coordinators.led
    epoch = replica.core.leader_epoch
    for leader in (*others, ME):
        elected = PartitionChangeRecord(
            partition_id=0, topic_id=replica.key.topic_id, leader=leader
        )
        hosted.cluster.replay([elected])
        hosted.replicas.apply(hosted.cluster.image)
    coordinators.groups.image_changed()
    assert replica.core.leader_epoch > epoch
    assert (coordinators.led == [led]) is (not others)
    coordinators.groups.close()
    hosted.close()
