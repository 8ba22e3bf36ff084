"""The next controller finishes what the last one had begun: another node, with nothing but the committed log (KV3-06)."""

import pytest

from quorum_node.protocol.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from quorum_node.protocol.create_topics import CreateTopicsRequest
from quorum_node.protocol.delete_topics import DeleteTopicsRequest, DeleteTopicState
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from quorum_node.records.metadata import NO_LEADER, PartitionChangeRecord
from quorum_node.schema.schema import Message
from support.broker_requests import heartbeat
from support.controlled_cluster import assigned
from support.controller_env import PendingRequest
from support.partition_env import FAR, PartitionEnv

pytestmark = pytest.mark.requirement("KV3-06")

PARTITIONS = 50


async def takeover(old: PartitionEnv, *, began: bool = True) -> PartitionEnv:
    """The old controller is deposed, and another node takes over with the committed state. `began`: its work in progress."""
    await old.lose()
    new = PartitionEnv(first_uuid=1 << 101)
    new.log, new.high_watermark = list(old.log), old.high_watermark
    new.epochs = dict(old.epochs)
    new.apply()
    await new.lead(2)
    if began:
        await new.settle()
    return new


async def fenced_and_no_more(env: PartitionEnv, broker_id: int) -> None:
    """The record that fences a broker is committed; what it means for partitions is not."""
    env.ask(heartbeat(broker_id, env.epochs[broker_id], FAR, want_fence=True))
    await env.commit(most=1)
    assert not env.committed.image.brokers.is_active(broker_id)


async def test_partitions_of_a_broker_fenced_before_the_takeover_get_leaders() -> None:
    old = PartitionEnv()
    await old.begin(7, 8, 9)
    await old.topic((7, 8), (8, 7), (7, 9))
    await old.fail(9)
    await fenced_and_no_more(old, 7)
    assert [old.partition(each).leader for each in range(3)] == [7, 8, 7], "not yet"
    new = await takeover(old)
    assert [new.partition(each).leader for each in range(3)] == [8, 8, NO_LEADER]
    assert [new.partition(each).isr for each in range(3)] == [(8,), (8,), ()]
    assert new.partition(2).eligible_leader_replicas == (7,)


async def test_broker_that_became_silent_during_the_takeover_is_fenced() -> None:
    old = PartitionEnv()
    await old.begin(7, 8)
    await old.topic((7, 8))
    new = await takeover(old)
    new.now_ms += 8999
    await new.beat(8)
    assert new.partition().leader == 7, "it has a whole lease"
    new.now_ms += 1
    await new.start(9)
    await new.settle()
    assert (new.partition().leader, new.partition().isr) == (8, (8,))


async def test_leaderless_partition_gets_a_broker_that_returned_before_the_takeover() -> None:
    old = PartitionEnv()
    await old.begin(7, 8)
    await old.topic((7,), (8,))
    await old.fail(7)
    assert old.partition().leader == NO_LEADER
    old.ask(heartbeat(7, old.epochs[7], FAR))
    await old.commit(most=1)
    assert old.committed.image.brokers.is_active(7)
    assert old.partition().leader == NO_LEADER, "not yet"
    new = await takeover(old)
    assert (new.partition().leader, new.partition().leader_epoch) == (7, 2)


async def test_leaderless_partition_with_unclean_election_gets_any_broker() -> None:
    old = PartitionEnv()
    await old.begin(7, 8)
    await old.topic((7, 8), unclean_leader_election_enable="true")
    await old.alter(7, 7)
    await fenced_and_no_more(old, 7)
    new = await takeover(old)
    assert (new.partition().leader, new.partition().isr) == (8, (8,))
    assert new.metrics.counters["unclean_elections"] == 1


async def test_reassignment_continues_after_the_takeover() -> None:
    old = PartitionEnv()
    await old.begin(7, 8)
    await old.topic((7,))
    await old.do(moved(8))
    new = await takeover(old)
    assert (new.partition().replicas, new.partition().adding_replicas) == ((8, 7), (8,))
    await new.alter(7, 7, 8)
    now = new.partition()
    assert (now.replicas, now.isr, now.leader, now.adding_replicas) == ((8,), (8,), 8, ())


def moved(*replicas: int) -> Message:
    """Partition 0 goes to these brokers."""
    partition = ReassignablePartition(partition_index=0, replicas=replicas)
    return AlterPartitionReassignmentsRequest(
        topics=(ReassignableTopic(name="t", partitions=(partition,)),)
    )


CHANGES: dict[str, Message] = {
    "create": CreateTopicsRequest(
        topics=(assigned("new", *[(7, 8)] * PARTITIONS),), timeout_ms=1000
    ),
    "add": CreatePartitionsRequest(
        topics=(CreatePartitionsTopic(name="t", count=PARTITIONS, assignments=None),),
        timeout_ms=1000,
        validate_only=False,
    ),
    "remove": DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),), timeout_ms=0),
}


def sizes(env: PartitionEnv) -> dict[str, int]:
    """Partitions of each topic."""
    return {topic.name: len(topic.partitions) for topic in env.committed.image.topics}


BEFORE = {"t": 2}
AFTER = {
    "create": {"t": 2, "new": PARTITIONS},
    "add": {"t": PARTITIONS},
    "remove": {},
}


def code(requested: PendingRequest) -> int:
    """The error of the one requested topic."""
    answer = requested.answer
    found = getattr(answer, "topics", None) or getattr(answer, "results", None) or answer.responses
    error: int = found[0].error_code
    return error


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("committed", [True, False])
async def test_topic_change_is_atomic_across_a_takeover(change: str, committed: bool) -> None:
    """Never partly applied; the client of a dropped change gets an error, and retries at the next controller."""
    old = PartitionEnv()
    await old.begin(7, 8)
    await old.topic((7, 8), (7, 8))
    pending = old.ask(CHANGES[change])
    await old.turn()
    assert sizes(old) == BEFORE, "nothing is visible before the commit"
    if committed:
        await old.commit(most=1)
    new = await takeover(old, began=False)
    assert sizes(new) == (AFTER[change] if committed else BEFORE)
    assert code(pending) == (ErrorCode.NONE if committed else ErrorCode.NOT_CONTROLLER)
    records = await new.commit()
    assert not [each for each in records if not isinstance(each, PartitionChangeRecord)]
    if not committed:
        again = new.ask(CHANGES[change])
        await new.settle()
        assert (code(again), sizes(new)) == (ErrorCode.NONE, AFTER[change])
