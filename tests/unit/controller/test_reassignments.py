"""Reassignments, elections and more partitions, as requests of clients."""

import pytest

from quorum_node.controller.alter_partition import alter_partition
from quorum_node.controller.broker_partitions import suspicious
from quorum_node.controller.elections import balance_some, elect_leaders
from quorum_node.controller.partition_repair import repair_some
from quorum_node.controller.partitions import create_partitions
from quorum_node.controller.reassignments import alter_reassignments, list_reassignments
from quorum_node.controller.topics import create_topics
from quorum_node.protocol.alter_partition import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionRequest,
    AlterPartitionResponse,
    IsrMember,
)
from quorum_node.protocol.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from quorum_node.protocol.create_topics import CreateTopicsRequest, CreateTopicsResponse
from quorum_node.protocol.elect_leaders import (
    ElectionType,
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListedTopic,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingTopicReassignment,
    ReassignablePartition,
    ReassignableTopic,
)
from quorum_node.records.metadata import PartitionChangeRecord
from support.controlled_cluster import ControlledCluster, assigned

Targets = dict[int, tuple[int, ...] | None]


@pytest.fixture
def cluster() -> ControlledCluster:
    """Topic t: partition 0 on brokers 1, 2, 3 and partition 1 on 2, 3, 1."""
    cluster = ControlledCluster([1, 2, 3, 4, 5, 6])
    request = CreateTopicsRequest(topics=(assigned("t", (1, 2, 3), (2, 3, 1)),))
    cluster.ask(create_topics, request, CreateTopicsResponse)
    cluster.decided.clear()
    return cluster


def reassign(
    cluster: ControlledCluster, targets: Targets, *, factor_may_change: bool = True
) -> list[ErrorCode]:
    """The error codes of t's partitions."""
    request = AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=factor_may_change,
        topics=(
            ReassignableTopic(
                name="t",
                partitions=tuple(
                    ReassignablePartition(partition_index=index, replicas=replicas)
                    for index, replicas in targets.items()
                ),
            ),
        ),
    )
    answer = cluster.ask(alter_reassignments, request, AlterPartitionReassignmentsResponse)
    assert answer.error_code == ErrorCode.NONE
    return [ErrorCode(each.error_code) for each in answer.responses[0].partitions]


def moving(cluster: ControlledCluster) -> tuple[OngoingTopicReassignment, ...]:
    request = ListPartitionReassignmentsRequest(topics=None)
    return cluster.ask(list_reassignments, request, ListPartitionReassignmentsResponse).topics


def catch_up(cluster: ControlledCluster, *isr: int, partition_id: int = 0) -> ErrorCode:
    """The leader reports the in-sync replicas."""
    now = cluster.partition("t", partition_id)
    request = AlterPartitionRequest(
        broker_id=now.leader,
        broker_epoch=cluster.epoch(now.leader),
        topics=(
            AlteredTopic(
                topic_id=cluster.topic_id("t"),
                partitions=(
                    AlteredPartition(
                        partition_index=partition_id,
                        leader_epoch=now.leader_epoch,
                        partition_epoch=now.partition_epoch,
                        new_isr_with_epochs=tuple(IsrMember(broker_id=each) for each in isr),
                    ),
                ),
            ),
        ),
    )
    answer = cluster.ask(alter_partition, request, AlterPartitionResponse)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


@pytest.mark.requirement("KV3-04")
@pytest.mark.requirement("KV3-06")
def test_reassignment_writes_the_same_steps_as_stock_kafka(
    cluster: ControlledCluster,
) -> None:
    """After every step a new controller continues with the image alone."""
    assert reassign(cluster, {0: (4, 5, 1)}) == [ErrorCode.NONE]
    begun = cluster.decided[-1]
    assert isinstance(begun, PartitionChangeRecord)
    assert (begun.replicas, begun.adding_replicas, begun.removing_replicas) == (
        (4, 5, 1, 2, 3), (4, 5), (2, 3),
    )  # fmt: skip
    assert (begun.isr, begun.leader) == (None, -2), "brokers that serve have nothing to do yet"
    (topic,) = moving(cluster)
    assert topic.partitions[0].adding_replicas == (4, 5)
    assert catch_up(cluster, 1, 2, 3, 4) == ErrorCode.NONE
    assert cluster.partition("t").is_reassigning
    assert catch_up(cluster, 1, 2, 3, 4, 5) == ErrorCode.NONE
    ended = cluster.decided[-1]
    assert isinstance(ended, PartitionChangeRecord)
    assert (ended.replicas, ended.adding_replicas, ended.removing_replicas) == ((4, 5, 1), (), ())
    assert ended.isr == (1, 4, 5)
    assert ended.leader == 1, (
        "named, so that the leader epoch rises and removed replicas are notified"
    )
    assert moving(cluster) == ()
    assert len(cluster.partition("t").directories) == 3


@pytest.mark.requirement("KV3-04")
def test_removed_leader_is_informed_of_the_new_leader(cluster: ControlledCluster) -> None:
    reassign(cluster, {0: (4, 5, 6)})
    assert catch_up(cluster, 1, 4, 5, 6) == ErrorCode.NEW_LEADER_ELECTED
    now = cluster.partition("t")
    assert (now.leader, now.isr, now.replicas) == (4, (4, 5, 6), (4, 5, 6))


@pytest.mark.requirement("KV3-04")
def test_reassignment_is_cancelled(cluster: ControlledCluster) -> None:
    reassign(cluster, {0: (4, 5, 6)})
    catch_up(cluster, 1, 2, 3, 4)
    assert reassign(cluster, {0: None}) == [ErrorCode.NONE]
    now = cluster.partition("t")
    assert (now.replicas, now.isr, now.is_reassigning) == ((1, 2, 3), (1, 2, 3), False)
    assert reassign(cluster, {0: None}) == [ErrorCode.NO_REASSIGNMENT_IN_PROGRESS]


def test_cancellation_with_data_loss_must_be_allowed(cluster: ControlledCluster) -> None:
    reassign(cluster, {0: (4, 1)})
    cluster.replay(
        [PartitionChangeRecord(topic_id=cluster.topic_id("t"), partition_id=0, isr=(4,), leader=4)]
    )
    before = cluster.image
    assert reassign(cluster, {0: None}) == [ErrorCode.INVALID_REPLICA_ASSIGNMENT]
    assert cluster.image == before


def test_reordered_or_fewer_replicas_need_no_catch_up(cluster: ControlledCluster) -> None:
    assert reassign(cluster, {0: (3, 2, 1), 1: (3, 2)}) == [ErrorCode.NONE] * 2
    assert cluster.partition("t", 0).replicas == (3, 2, 1)
    assert cluster.partition("t", 0).leader == 1, "an election is another request"
    assert cluster.partition("t", 1).replicas == (3, 2)
    assert moving(cluster) == ()


def test_invalid_reassignments_are_rejected(cluster: ControlledCluster) -> None:
    before = cluster.image
    assert reassign(cluster, {0: (), 1: (1, 1), 7: (1,)}) == [
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert reassign(cluster, {0: (1, 9)}) == [ErrorCode.INVALID_REPLICA_ASSIGNMENT]
    fewer = reassign(cluster, {0: (1, 2)}, factor_may_change=False)
    assert fewer == [ErrorCode.INVALID_REPLICATION_FACTOR]
    assert cluster.image == before


@pytest.mark.requirement("KV3-04")
def test_concurrent_reassignments_are_limited(cluster: ControlledCluster) -> None:
    cluster.with_settings(max_moving_partitions=1)
    assert reassign(cluster, {0: (4, 5, 6), 1: (4, 5, 6)}) == [
        ErrorCode.NONE,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    ]
    assert reassign(cluster, {0: (4, 5, 1)}) == [ErrorCode.NONE], "it is moving already"
    assert reassign(cluster, {1: (1, 2, 3)}) == [ErrorCode.NONE], "nothing has to be copied"
    assert reassign(cluster, {0: None, 1: (4, 5, 6)}) == [ErrorCode.NONE] * 2


def test_reassignments_of_named_partitions_are_listed(cluster: ControlledCluster) -> None:
    reassign(cluster, {0: (4, 5, 6), 1: (4, 5, 6)})
    requested = (
        ListedTopic(name="t", partition_indexes=(1, 9)),
        ListedTopic(name="u", partition_indexes=(0,)),
    )
    request = ListPartitionReassignmentsRequest(topics=requested)
    answer = cluster.ask(list_reassignments, request, ListPartitionReassignmentsResponse)
    assert [p.partition_index for topic in answer.topics for p in topic.partitions] == [1]


def elect(cluster: ControlledCluster, kind: int, *partition_ids: int) -> list[ErrorCode]:
    request = ElectLeadersRequest(
        election_type=kind,
        topic_partitions=(TopicPartitions(topic="t", partitions=partition_ids),),
    )
    answer = cluster.ask(elect_leaders, request, ElectLeadersResponse)
    return [ErrorCode(p.error_code) for p in answer.replica_election_results[0].partition_result]


def led_by(cluster: ControlledCluster, leader: int, isr: tuple[int, ...] | None = None) -> None:
    """Partition 0 of t has another leader."""
    topic_id = cluster.topic_id("t")
    cluster.replay(
        [PartitionChangeRecord(topic_id=topic_id, partition_id=0, leader=leader, isr=isr)]
    )


def test_preferred_replica_is_elected_if_it_is_eligible(cluster: ControlledCluster) -> None:
    assert elect(cluster, ElectionType.PREFERRED, 0, 9) == [
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    led_by(cluster, 2, (2, 3))
    assert elect(cluster, ElectionType.PREFERRED, 0) == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]
    led_by(cluster, 2, (2, 3, 1))
    assert elect(cluster, ElectionType.PREFERRED, 0) == [ErrorCode.NONE]
    assert cluster.partition("t").leader == 1


def test_unclean_election_applies_to_partitions_without_leader_only(
    cluster: ControlledCluster,
) -> None:
    assert elect(cluster, ElectionType.UNCLEAN, 0) == [ErrorCode.ELECTION_NOT_NEEDED]
    led_by(cluster, -1, (1,))
    for broker_id in (1, 2, 3):
        cluster.fence(broker_id)
    assert elect(cluster, ElectionType.UNCLEAN, 0) == [ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE]
    cluster.fence(3, fenced=False)
    assert elect(cluster, ElectionType.UNCLEAN, 0) == [ErrorCode.NONE]
    now = cluster.partition("t")
    assert (now.leader, now.isr, now.leader_recovery_state) == (3, (3,), 1)


def test_unknown_election_type_is_rejected(cluster: ControlledCluster) -> None:
    request = ElectLeadersRequest(election_type=7, topic_partitions=None)
    answer = cluster.ask(elect_leaders, request, ElectLeadersResponse)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_election_for_all_partitions_lists_only_partitions_with_a_result(
    cluster: ControlledCluster,
) -> None:
    led_by(cluster, 3)
    request = ElectLeadersRequest(topic_partitions=None)
    answer = cluster.ask(elect_leaders, request, ElectLeadersResponse)
    (topic,) = answer.replica_election_results
    assert [(each.partition_id, each.error_code) for each in topic.partition_result] == [(0, 0)]


def test_leaders_are_balanced_automatically(cluster: ControlledCluster) -> None:
    led_by(cluster, 3)
    view = cluster.view()
    decision, ended = balance_some(view, view.image.topics.not_preferred())
    assert ended
    assert len(cluster.take(decision)) == 1
    assert cluster.partition("t").leader == 1
    assert list(cluster.view().image.topics.not_preferred()) == []


@pytest.mark.requirement("KV3-06")
def test_leaderless_partitions_of_topics_with_unclean_election_get_a_leader() -> None:
    cluster = ControlledCluster([1, 2])
    risky = assigned("t", (1, 2), unclean_leader_election_enable="true")
    request = CreateTopicsRequest(topics=(risky, assigned("u", (1, 2))))
    cluster.ask(create_topics, request, CreateTopicsResponse)
    cluster.fence(1)
    for name in "tu":
        topic_id = cluster.topic_id(name)
        change = PartitionChangeRecord(topic_id=topic_id, partition_id=0, leader=-1, isr=(1,))
        cluster.replay([change])
    decision, ended = repair_some(cluster.view(), suspicious(cluster.view().image))
    assert ended
    assert len(cluster.take(decision)) == 1
    assert (cluster.partition("t").leader, cluster.partition("u").leader) == (2, -1)


def add(
    cluster: ControlledCluster,
    count: int,
    *assignments: tuple[int, ...],
    name: str = "t",
    validate_only: bool = False,
) -> ErrorCode:
    chosen = tuple(CreatePartitionsAssignment(broker_ids=each) for each in assignments) or None
    request = CreatePartitionsRequest(
        topics=(CreatePartitionsTopic(name=name, count=count, assignments=chosen),),
        timeout_ms=1000,
        validate_only=validate_only,
    )
    answer = cluster.ask(create_partitions, request, CreatePartitionsResponse)
    return ErrorCode(answer.results[0].error_code)


@pytest.mark.requirement("KV3-05")
def test_partitions_are_added(cluster: ControlledCluster) -> None:
    assert add(cluster, 4, validate_only=True) == ErrorCode.NONE
    assert cluster.decided == []
    assert add(cluster, 4) == ErrorCode.NONE
    assert add(cluster, 5, (6, 5, 4)) == ErrorCode.NONE
    topic = cluster.image.topics.named("t")
    assert topic is not None
    assert sorted(topic.partitions) == [0, 1, 2, 3, 4]
    assert topic.partitions[4].replicas == (6, 5, 4)
    assert {len(each.replicas) for each in topic.partitions.values()} == {3}


@pytest.mark.requirement("KV3-05")
def test_invalid_partition_additions_are_rejected(cluster: ControlledCluster) -> None:
    before = cluster.image
    assert add(cluster, 3, name="u") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert add(cluster, 2) == ErrorCode.INVALID_PARTITIONS
    assert add(cluster, 1) == ErrorCode.INVALID_PARTITIONS
    assert add(cluster, -1) == ErrorCode.INVALID_PARTITIONS
    assert add(cluster, 4, (1, 2, 3)) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert add(cluster, 3, (1, 2)) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert add(cluster, 3, (1, 2, 9)) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert add(cluster, 20_000) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert cluster.image == before
