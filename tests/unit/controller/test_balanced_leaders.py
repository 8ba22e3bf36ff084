"""Leadership returns to the preferred replicas: all of it in one period, whatever the number of partitions."""

from quorum_node.controller.elections import MAX_ELECTIONS_AT_ONCE
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from support.partition_env import PartitionEnv

PERIOD_SECONDS = 3600.0


async def test_more_leaders_than_one_step_elects_return_in_one_period() -> None:
    env = PartitionEnv(balance_seconds=PERIOD_SECONDS)
    await env.begin(7, 8)
    count = 2 * MAX_ELECTIONS_AT_ONCE + 500
    await env.topic(*[(7, 8)] * count)
    reordered = tuple(
        ReassignablePartition(partition_index=number, replicas=(8, 7)) for number in range(count)
    )
    topic = ReassignableTopic(name="t", partitions=reordered)
    answer = await env.do(AlterPartitionReassignmentsRequest(topics=(topic,)))
    assert {each.error_code for each in answer.responses[0].partitions} == {ErrorCode.NONE}
    await env.settle()

    assert env.committed.image.topics.led_count(8) == 0
    assert env.maintenance is not None
    env.maintenance._balance_leaders()  # as the timer does, once a period
    await env.settle()
    assert env.committed.image.topics.led_count(8) == count
    assert list(env.committed.image.topics.not_preferred()) == []
    env.maintenance.close()
