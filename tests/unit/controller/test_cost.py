"""What a request costs does not depend on how many partitions or configs there are.

Counted in calls of functions, not in time: a busy machine counts the same.
"""

import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from quorum_node.controller.alter_partition import alter_partition
from quorum_node.controller.authorization import CLUSTER_NAME, AclOperation, AclResource
from quorum_node.controller.configs import incremental_alter_configs
from quorum_node.controller.elections import MAX_LOOKS, balance_some, elect_leaders
from quorum_node.controller.reassignments import alter_reassignments, list_reassignments
from quorum_node.controller.topic_deletion import delete_topics
from quorum_node.controller.topics import create_topics
from quorum_node.image.resource_types import BROKER
from quorum_node.protocol.alter_partition import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionRequest,
    IsrMember,
)
from quorum_node.protocol.configs import (
    AlterableConfig,
    AlterConfigsResource,
    ConfigOperation,
    IncrementalAlterConfigsRequest,
)
from quorum_node.protocol.create_topics import CreatableTopic, CreateTopicsRequest
from quorum_node.protocol.delete_topics import DeleteTopicsRequest, DeleteTopicState
from quorum_node.protocol.elect_leaders import ElectionType, ElectLeadersRequest
from quorum_node.protocol.reassignments import (
    AlterPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from quorum_node.records.metadata import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
)
from support.controlled_cluster import ControlledCluster, directory_of

SMALL, LARGE = 200, 5_000


def filled(partitions: int) -> ControlledCluster:
    """Topic t with 100 partitions on brokers 1 to 3, others with the rest; brokers 4 to 6 are empty."""
    cluster = ControlledCluster(range(1, 7))
    records: list[TopicRecord | PartitionRecord] = []
    for number in range(partitions // 100):
        topic_id = directory_of(1000 + number)
        records.append(TopicRecord(name=f"t.{number}" if number else "t", topic_id=topic_id))
        records += [
            PartitionRecord(
                partition_id=index, topic_id=topic_id, replicas=(1, 2, 3), isr=(1, 2, 3), leader=1,
                leader_epoch=0, partition_epoch=0, directories=tuple(map(directory_of, (1, 2, 3))),
            )
            for index in range(100)
        ]  # fmt: skip
    cluster.image = cluster.image.replay_all(records)
    return cluster


def calls_of(work: Callable[[], object]) -> int:
    """Calls of Python functions, comprehensions and generators."""
    count = 0

    def seen(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def create(cluster: ControlledCluster) -> None:
    wanted = (
        CreatableTopic(name=f"n_{i}", num_partitions=1, replication_factor=3) for i in range(20)
    )
    decision = create_topics(cluster.view(), CreateTopicsRequest(topics=tuple(wanted)))
    assert len(decision.records) == 40


def alter(cluster: ControlledCluster) -> None:
    requested = tuple(
        AlteredPartition(
            partition_index=index, leader_epoch=0, partition_epoch=0,
            new_isr_with_epochs=(IsrMember(broker_id=1), IsrMember(broker_id=2)),
        )
        for index in range(100)
    )  # fmt: skip
    request = AlterPartitionRequest(
        broker_id=1,
        broker_epoch=cluster.epoch(1),
        topics=(AlteredTopic(topic_id=cluster.topic_id("t"), partitions=requested),),
    )
    assert len(alter_partition(cluster.view(), request).records) == 100


def move(cluster: ControlledCluster) -> None:
    requested = tuple(
        ReassignablePartition(partition_index=i, replicas=(4, 5, 6)) for i in range(100)
    )
    request = AlterPartitionReassignmentsRequest(
        topics=(ReassignableTopic(name="t", partitions=requested),)
    )
    decision = alter_reassignments(cluster.view(), request)
    assert len(decision.records) == 100
    cluster.take(decision)
    list_reassignments(cluster.view(), ListPartitionReassignmentsRequest(topics=None))


@pytest.mark.parametrize("work", [create, alter, move])
def test_request_cost_is_proportional_to_its_size(
    work: Callable[[ControlledCluster], None],
) -> None:
    small, large = filled(SMALL), filled(LARGE)
    work(filled(SMALL))  # compiles what is compiled once
    few, many = calls_of(lambda: work(small)), calls_of(lambda: work(large))
    assert many < 1.2 * few + 200


def test_config_change_cost_is_independent_of_the_number_of_configs() -> None:
    """Told by memory: a copy of all configs of a resource is made in C, where no call is counted."""
    cluster = ControlledCluster(range(1, 2))
    cluster.image = cluster.image.replay_all(
        ConfigRecord(resource_type=BROKER, resource_name="", name=f"n{i}", value="v")
        for i in range(20_000)
    )
    change = AlterableConfig(name="n1", config_operation=ConfigOperation.SET, value="w")
    resource = AlterConfigsResource(resource_type=BROKER, resource_name="", configs=(change,))
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    view = cluster.view()
    incremental_alter_configs(view, request)  # compiles what is compiled once
    tracemalloc.start()
    try:
        decision = incremental_alter_configs(view, request)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(decision.records) == 1
    assert peak_bytes < 64 << 10


def without_preferred_leader(partitions: int) -> ControlledCluster:
    """Broker 1, the preferred leader of all partitions, is away."""
    cluster = filled(partitions)
    cluster.fence(1)
    changes = [
        PartitionChangeRecord(topic_id=topic.topic_id, partition_id=number, leader=2, isr=(2, 3))
        for topic in cluster.image.topics
        for number in topic.partitions
    ]
    cluster.image = cluster.image.replay_all(changes)
    return cluster


def test_balancing_leaders_takes_bounded_steps() -> None:
    """A step holds the loop, and a broker that is away for long is the preferred leader of any number of partitions."""
    view = without_preferred_leader(2 * MAX_LOOKS).view()
    keys = view.image.topics.not_preferred()
    steps: list[bool] = []
    while not any(steps):
        calls = calls_of(lambda: steps.append(balance_some(view, keys)[1]))
        assert calls < 15 * MAX_LOOKS
    assert steps == [False, False, True]


def test_election_of_absent_preferred_leaders_costs_little_for_each() -> None:
    view = without_preferred_leader(LARGE).view()
    request = ElectLeadersRequest(election_type=ElectionType.PREFERRED, topic_partitions=None)
    assert calls_of(lambda: elect_leaders(view, request)) < 20 * LARGE


class NoRights:
    """Counts the questions."""

    def __init__(self) -> None:
        self.asked: Counter[AclResource] = Counter()

    def allows(
        self, operation: AclOperation, resource: AclResource, name: str = CLUSTER_NAME
    ) -> bool:
        self.asked[resource] += 1
        return False


def test_right_on_the_cluster_is_asked_for_once_in_a_request() -> None:
    """Anybody who may connect can send fifty thousand names, and each question holds the loop."""
    names = [f"n_{number}" for number in range(100)]
    view = ControlledCluster([1]).view()
    rights = NoRights()
    creations = tuple(CreatableTopic(name=name) for name in names)
    create_topics(replace(view, rights=rights), CreateTopicsRequest(topics=creations))
    assert rights.asked == {AclResource.CLUSTER: 1, AclResource.TOPIC: 100}
    rights = NoRights()
    deletions = tuple(DeleteTopicState(name=name) for name in names)
    request = DeleteTopicsRequest(topics=deletions, timeout_ms=1)
    delete_topics(replace(view, rights=rights), request)
    assert rights.asked == {AclResource.CLUSTER: 1, AclResource.TOPIC: 200}
