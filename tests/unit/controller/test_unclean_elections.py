"""Every leader from outside of the ISR is counted, for any cause of the election, and no other leader is (KV3-01)."""

import pytest

from quorum_node.protocol.elect_leaders import ElectionType, ElectLeadersRequest, TopicPartitions
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from quorum_node.records.metadata import NO_LEADER
from support.partition_env import PartitionEnv

pytestmark = pytest.mark.requirement("KV3-01")


def counted(env: PartitionEnv) -> float:
    """The value of the metric."""
    return env.metrics.counters["unclean_elections"]


async def last_isr_member_fails(env: PartitionEnv, *replicas: int) -> None:
    """The first replica is the only one in sync, and fails."""
    await env.alter(replicas[0], replicas[0])
    await env.fail(replicas[0])


async def test_requested_unclean_election_is_counted() -> None:
    env = PartitionEnv()
    await env.begin(7, 8)
    await env.topic((7, 8))
    await last_isr_member_fails(env, 7, 8)
    assert (env.partition().leader, counted(env)) == (NO_LEADER, 0)
    await env.elect(ElectionType.UNCLEAN)
    assert (env.partition().leader, counted(env)) == (8, 1)


async def test_unclean_election_after_a_broker_failure_is_counted_per_partition() -> None:
    env = PartitionEnv()
    await env.begin(7, 8)
    await env.topic((7, 8), (7, 8), unclean_leader_election_enable="true")
    await last_isr_member_fails(env, 7, 8)
    assert env.partition().leader == 8
    assert env.partition(1).leader == 8, "clean: both were in its ISR"
    assert counted(env) == 1


async def test_next_unclean_election_is_counted_while_the_leader_recovers_from_the_first() -> None:
    env = PartitionEnv()
    await env.begin(7, 8, 9)
    await env.topic((7, 8, 9), unclean_leader_election_enable="true")
    await last_isr_member_fails(env, 7, 8)
    assert (env.partition().leader, counted(env)) == (8, 1)
    await env.fail(8)
    assert (env.partition().leader, counted(env)) == (9, 2)


async def reassign(env: PartitionEnv, replicas: tuple[int, ...] | None) -> None:
    """A move of the partition, or None: back to where it came from."""
    partition = ReassignablePartition(partition_index=0, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(
        topics=(ReassignableTopic(name="t", partitions=(partition,)),)
    )
    answer = await env.do(request)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE
    await env.settle()


async def test_cancelled_move_to_an_out_of_sync_replica_is_counted() -> None:
    env = PartitionEnv()
    await env.begin(7, 8, 9)
    await env.topic((7,), unclean_leader_election_enable="true")
    await reassign(env, (8, 9))
    await env.alter(7, 7, 8)
    await env.fail(7)
    await env.beat(7)
    assert (env.partition().leader, env.partition().isr) == (8, (8,))
    assert counted(env) == 0
    await reassign(env, None)
    assert (env.partition().leader, env.partition().replicas) == (7, (7,))
    assert counted(env) == 1


async def test_clean_elections_are_not_counted() -> None:
    env = PartitionEnv()
    await env.begin(7, 8)
    await env.topic((7, 8), unclean_leader_election_enable="true")
    await env.fail(7)
    assert env.partition().leader == 8
    await env.beat(7)
    await env.alter(8, 8, 7)
    await env.elect(ElectionType.PREFERRED)
    assert (env.partition().leader, env.partition().isr) == (7, (8, 7))
    await env.elect(ElectionType.UNCLEAN)
    assert counted(env) == 0


async def test_uncommitted_unclean_election_is_not_counted() -> None:
    env = PartitionEnv()
    await env.begin(7, 8)
    await env.topic((7, 8))
    await last_isr_member_fails(env, 7, 8)
    wanted = TopicPartitions(topic="t", partitions=(0,))
    request = env.ask(
        ElectLeadersRequest(
            election_type=ElectionType.UNCLEAN, topic_partitions=(wanted,), timeout_ms=1000
        )
    )
    await env.turn()
    assert counted(env) == 0, "not before the commit"
    await env.lose()
    assert request.answer.error_code == ErrorCode.NOT_CONTROLLER
    assert (env.partition().leader, counted(env)) == (NO_LEADER, 0)
