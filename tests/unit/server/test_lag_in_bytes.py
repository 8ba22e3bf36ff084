"""`quorum.replica.lag.max.bytes` on a broker: a follower that stays too far behind is removed from the ISR, and one that is near stays."""

import asyncio
from pathlib import Path

import pytest

from quorum_node.broker.settings import PartitionSettings
from quorum_node.protocol.alter_partition import AlterPartitionRequest
from support.data_batches import data_batch
from support.hosted_replicas import ME, OTHER, HostedReplicas, produce

pytestmark = pytest.mark.virtual_time

LIMIT_BYTES = 50_000
BATCHES = 20


@pytest.mark.requirement("KV3-10")
@pytest.mark.parametrize(("fetch_offset", "leaves"), [(0, True), (BATCHES - 1, False)])
async def test_isr_shrinks_by_a_lag_in_bytes(
    tmp_path: Path, fetch_offset: int, leaves: bool
) -> None:
    hosted = HostedReplicas(tmp_path)
    leader = hosted.create("t", (ME, OTHER))
    leader.configure(
        PartitionSettings(replica_lag_time_max_ms=600_000, replica_lag_max_bytes=LIMIT_BYTES)
    )
    for _ in range(BATCHES):
        data = data_batch(0, value_bytes=10_000).data
        assert isinstance(data, bytes)
        assert produce(leader, data)
    for _ in range(4):
        epoch = leader.core.leader_epoch
        leader.follower_fetched(OTHER, hosted.cluster.epoch(OTHER), epoch, fetch_offset, epoch, 0)
        await asyncio.sleep(0.3)
    leader.tick()
    await asyncio.sleep(0.1)
    proposed = [
        body for body, _ in hosted.controller.asked if isinstance(body, AlterPartitionRequest)
    ]
    assert bool(proposed) == leaves
    for each in proposed:
        (topic,) = each.topics
        members = topic.partitions[0].new_isr_with_epochs
        assert [member.broker_id for member in members or ()] == [ME]
    hosted.close()
