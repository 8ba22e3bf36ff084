"""What the controller does with the replicas in a log directory that a broker reports as failed (KIP-858)."""

from uuid import UUID

import pytest

from quorum_node.controller.alter_partition import alter_partition
from quorum_node.controller.directories import assign_replicas_to_dirs
from quorum_node.controller.heartbeats import heartbeat
from quorum_node.controller.partition_repair import MAX_RECORDS
from quorum_node.controller.topics import create_topics
from quorum_node.protocol.alter_partition import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionRequest,
    AlterPartitionResponse,
    IsrMember,
)
from quorum_node.protocol.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    PlacedDirectory,
    PlacedPartition,
    PlacedTopic,
)
from quorum_node.protocol.broker_registration import BrokerHeartbeatResponse
from quorum_node.protocol.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from quorum_node.protocol.errors import ErrorCode
from support import broker_requests
from support.controlled_cluster import ControlledCluster

pytestmark = pytest.mark.requirement("KV3-07")


FIRST, SECOND = UUID(int=1 << 80), UUID(int=1 << 81)


def cluster_with(*assignments: tuple[int, ...]) -> ControlledCluster:
    """Topic t; broker 1 has two directories, with the even partitions in the first one."""
    cluster = ControlledCluster((1, 2))
    cluster.change(1, log_dirs=(FIRST, SECOND))
    topic = CreatableTopic(
        name="t",
        num_partitions=-1,
        replication_factor=-1,
        assignments=tuple(
            CreatableReplicaAssignment(partition_index=number, broker_ids=replicas)
            for number, replicas in enumerate(assignments)
        ),
        configs=(),
    )
    cluster.ask(create_topics, CreateTopicsRequest(topics=(topic,)), CreateTopicsResponse)
    numbers = range(len(assignments))
    place(cluster, FIRST, *(number for number in numbers if not number % 2))
    place(cluster, SECOND, *(number for number in numbers if number % 2))
    return cluster


def place(cluster: ControlledCluster, directory: UUID, *partitions: int) -> None:
    placed = tuple(PlacedPartition(partition_index=each) for each in partitions)
    topic = PlacedTopic(topic_id=cluster.topic_id("t"), partitions=placed)
    request = AssignReplicasToDirsRequest(
        broker_id=1,
        broker_epoch=cluster.epoch(1),
        directories=(PlacedDirectory(id=directory, topics=(topic,)),),
    )
    cluster.ask(assign_replicas_to_dirs, request, AssignReplicasToDirsResponse)


def beat(cluster: ControlledCluster, *offline: UUID) -> None:
    request = broker_requests.heartbeat(
        1, cluster.epoch(1), cluster.offset, offline_log_dirs=offline
    )
    cluster.ask(heartbeat, request, BrokerHeartbeatResponse)


def directories(cluster: ControlledCluster) -> tuple[UUID, ...]:
    broker = cluster.image.brokers.get(1)
    assert broker is not None
    return broker.log_dirs


def test_replicas_in_a_failed_directory_leave_isrs_and_leaderships_and_others_stay() -> None:
    cluster = cluster_with((1, 2), (1, 2), (2, 1), (2, 1))
    beat(cluster, FIRST)
    found = [cluster.partition("t", number) for number in range(4)]
    assert [(each.leader, each.isr) for each in found] == [
        (2, (2,)),
        (1, (1, 2)),
        (2, (2,)),
        (2, (2, 1)),
    ]
    assert directories(cluster) == (SECOND,)
    before = cluster.image
    beat(cluster, FIRST)
    assert cluster.image.topics is before.topics, "the next heartbeat reports nothing new"


def test_partition_whose_last_member_of_the_isr_was_in_the_directory_has_no_leader() -> None:
    cluster = cluster_with((1,), (1,))
    beat(cluster, FIRST)
    assert cluster.partition("t", 0).leader == -1
    assert cluster.partition("t", 1).leader == 1


def test_replicas_of_a_large_directory_are_removed_over_several_heartbeats() -> None:
    cluster = cluster_with(*[(1, 2)] * (2 * MAX_RECORDS + 2))
    beat(cluster, FIRST)
    assert directories(cluster) == (FIRST, SECOND), "it counts as online until the last one"
    left = sum(cluster.partition("t", each).leader == 1 for each in range(2 * MAX_RECORDS + 2))
    assert left == MAX_RECORDS + 2
    beat(cluster, FIRST)
    assert directories(cluster) == (SECOND,)
    left = sum(cluster.partition("t", each).leader == 1 for each in range(2 * MAX_RECORDS + 2))
    assert left == MAX_RECORDS + 1


def test_replica_in_a_failed_directory_cannot_join_an_isr() -> None:
    """The leader may propose it before it knows, because the follower had caught up a moment ago."""
    cluster = cluster_with((2, 1), (2, 1))
    beat(cluster, FIRST)
    for number, code in ((0, ErrorCode.INELIGIBLE_REPLICA), (1, ErrorCode.NONE)):
        now = cluster.partition("t", number)
        members = tuple(
            IsrMember(broker_id=each, broker_epoch=cluster.epoch(each)) for each in (2, 1)
        )
        wanted = AlteredPartition(
            partition_index=number,
            leader_epoch=now.leader_epoch,
            partition_epoch=now.partition_epoch,
            new_isr_with_epochs=members,
        )
        request = AlterPartitionRequest(
            broker_id=2,
            broker_epoch=cluster.epoch(2),
            topics=(AlteredTopic(topic_id=cluster.topic_id("t"), partitions=(wanted,)),),
        )
        answer = cluster.ask(alter_partition, request, AlterPartitionResponse)
        assert answer.topics[0].partitions[0].error_code == code
