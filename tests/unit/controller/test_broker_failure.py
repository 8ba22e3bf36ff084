"""What a failed broker means for its partitions while others change them too: the partition version decides (KV3-01).

The replication design V3, "A. Failover during broker failure", writes on condition that nobody else has written since
it read. Here a decision reads what is accepted, not what is committed, and a leader's request names the version.
"""

import pytest

from quorum_node.protocol.errors import ErrorCode
from support.broker_requests import heartbeat
from support.controller_scene import play
from support.partition_scene import FAR, PartitionScene

pytestmark = pytest.mark.requirement("KV3-01")


async def scene_with_topic() -> PartitionScene:
    scene = PartitionScene()
    await scene.begin(7, 8, 9)
    await scene.topic((7, 8, 9))
    return scene


def test_a_new_leader_has_new_epochs_and_a_smaller_isr_a_new_version() -> None:
    async def test() -> None:
        scene = await scene_with_topic()
        await scene.fail(9)
        now = scene.partition()
        assert (now.leader, now.isr, now.leader_epoch, now.partition_epoch) == (7, (7, 8), 0, 1)
        await scene.fail(7)
        now = scene.partition()
        assert (now.leader, now.isr, now.leader_epoch, now.partition_epoch) == (8, (8,), 1, 2)
        await scene.fail(8)
        now = scene.partition()
        assert (now.leader, now.isr, now.leader_epoch, now.partition_epoch) == (-1, (), 2, 3)
        assert now.eligible_leader_replicas == (8,), "who was the last is remembered"

    play(test)


def test_what_a_leader_changes_meanwhile_is_not_undone() -> None:
    """The leader takes 8 out; before that is committed 9 fails, and then the leader."""

    async def test() -> None:
        scene = await scene_with_topic()
        changed = scene.altered(7, 7, 9)
        failed = scene.ask(heartbeat(9, scene.epochs[9], FAR, want_fence=True))
        await scene.turn()
        assert scene.partition().isr == (7, 8, 9), "nothing is committed yet"
        await scene.settle()
        assert changed.answer.topics[0].partitions[0].error_code == ErrorCode.NONE
        assert failed.answer.is_fenced
        assert (scene.partition().isr, scene.partition().partition_epoch) == ((7,), 2)
        await scene.fail(7)
        assert scene.partition().leader == -1, "8 was taken out, and may lack messages"

    play(test)


@pytest.mark.parametrize("committed", [True, False])
def test_a_leader_that_has_not_seen_the_change_does_not_change_it_back(committed: bool) -> None:
    async def test() -> None:
        scene = await scene_with_topic()
        seen = scene.partition()
        asked = scene.ask(heartbeat(9, scene.epochs[9], FAR, want_fence=True))
        await scene.turn()
        if committed:
            await scene.settle()
            assert asked.answer.is_fenced
        state = await scene.alter(7, 7, 8, 9, known=seen)
        assert state.error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert (scene.partition().isr, scene.partition().partition_epoch) == ((7, 8), 1)

    play(test)
