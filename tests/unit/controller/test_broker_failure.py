"""What a failed broker means for its partitions during concurrent changes: the partition version decides (KV3-01).

The replication design V3, "A. Failover during broker failure", writes on condition that the version is unchanged since
the read. Here a decision reads what is accepted, not what is committed, and a leader's request contains the version.
"""

import pytest

from quorum_node.protocol.errors import ErrorCode
from support.broker_requests import heartbeat
from support.partition_env import FAR, PartitionEnv

pytestmark = pytest.mark.requirement("KV3-01")


async def env_with_topic() -> PartitionEnv:
    env = PartitionEnv()
    await env.begin(7, 8, 9)
    await env.topic((7, 8, 9))
    return env


async def test_broker_failure_increases_leader_epochs_and_partition_epochs() -> None:
    env = await env_with_topic()
    await env.fail(9)
    now = env.partition()
    assert (now.leader, now.isr, now.leader_epoch, now.partition_epoch) == (7, (7, 8), 0, 1)
    await env.fail(7)
    now = env.partition()
    assert (now.leader, now.isr, now.leader_epoch, now.partition_epoch) == (8, (8,), 1, 2)
    await env.fail(8)
    now = env.partition()
    assert (now.leader, now.isr, now.leader_epoch, now.partition_epoch) == (-1, (), 2, 3)
    assert now.eligible_leader_replicas == (8,), "the last replica of the ISR is kept"


async def test_concurrent_change_by_a_leader_is_not_reverted_by_a_failover() -> None:
    """The leader takes 8 out; before that is committed 9 fails, and then the leader."""
    env = await env_with_topic()
    changed = env.altered(7, 7, 9)
    failed = env.ask(heartbeat(9, env.epochs[9], FAR, want_fence=True))
    await env.turn()
    assert env.partition().isr == (7, 8, 9), "nothing is committed yet"
    await env.settle()
    assert changed.answer.topics[0].partitions[0].error_code == ErrorCode.NONE
    assert failed.answer.is_fenced
    assert (env.partition().isr, env.partition().partition_epoch) == ((7,), 2)
    await env.fail(7)
    assert env.partition().leader == -1, "8 was removed from the ISR and may lack messages"


@pytest.mark.parametrize("committed", [True, False])
async def test_leader_with_stale_state_does_not_revert_the_change(committed: bool) -> None:
    env = await env_with_topic()
    seen = env.partition()
    pending = env.ask(heartbeat(9, env.epochs[9], FAR, want_fence=True))
    await env.turn()
    if committed:
        await env.settle()
        assert pending.answer.is_fenced
    state = await env.alter(7, 7, 8, 9, known=seen)
    assert state.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert (env.partition().isr, env.partition().partition_epoch) == ((7, 8), 1)
