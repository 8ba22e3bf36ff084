"""What two images differ in for one broker, and which logs it should not have."""

from uuid import UUID

import pytest

from quorum_node.broker.assignments import FoundLog, assignment_changes, strays
from quorum_node.controller.alter_partition import alter_partition
from quorum_node.controller.topic_deletion import delete_topics
from quorum_node.controller.topics import create_topics
from quorum_node.image.topics import TopicsImage
from quorum_node.protocol.alter_partition import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionRequest,
    AlterPartitionResponse,
    IsrMember,
)
from quorum_node.protocol.create_topics import CreateTopicsRequest, CreateTopicsResponse
from quorum_node.protocol.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from support.controlled_cluster import ControlledCluster, assigned

EMPTY = TopicsImage()


def created(*topics: tuple[str, tuple[int, ...]]) -> ControlledCluster:
    cluster = ControlledCluster((1, 2, 3))
    for name, replicas in topics:
        create(cluster, name, replicas)
    return cluster


def create(cluster: ControlledCluster, name: str, replicas: tuple[int, ...]) -> None:
    request = CreateTopicsRequest(topics=(assigned(name, replicas),))
    cluster.ask(create_topics, request, CreateTopicsResponse)


def delete(cluster: ControlledCluster, name: str) -> None:
    request = DeleteTopicsRequest(topic_names=(name,), timeout_ms=1000)
    cluster.ask(delete_topics, request, DeleteTopicsResponse)


def shrink(cluster: ControlledCluster, name: str, *isr: int) -> None:
    now = cluster.partition(name)
    wanted = AlteredPartition(
        partition_index=0,
        leader_epoch=now.leader_epoch,
        partition_epoch=now.partition_epoch,
        new_isr_with_epochs=tuple(IsrMember(broker_id=each, broker_epoch=-1) for each in isr),
    )
    request = AlterPartitionRequest(
        broker_id=now.leader,
        broker_epoch=cluster.epoch(now.leader),
        topics=(AlteredTopic(topic_id=cluster.topic_id(name), partitions=(wanted,)),),
    )
    cluster.ask(alter_partition, request, AlterPartitionResponse)


@pytest.mark.requirement("KV3-07")
def test_first_image_reports_all_assignments_and_nothing_else() -> None:
    cluster = created(("a", (1, 2)), ("b", (2, 3)), ("c", (3, 1)))
    changes = assignment_changes(1, EMPTY, cluster.image.topics)
    assert changes.stopped == ()
    assert {each.topic_name for each in changes.changed} == {"a", "c"}
    assert {each.partition.leader for each in changes.changed} == {1, 3}


@pytest.mark.requirement("KV3-07")
def test_only_changes_are_reported() -> None:
    cluster = created(("a", (1, 2)), ("b", (1, 2)))
    before = cluster.image.topics
    assert assignment_changes(1, before, before).changed == ()
    shrink(cluster, "b", 1)
    (changed,) = assignment_changes(1, before, cluster.image.topics).changed
    assert (changed.topic_name, changed.partition.isr) == ("b", (1,))
    assert changed.key == (cluster.topic_id("b"), 0)
    assert assignment_changes(3, before, cluster.image.topics).changed == ()


@pytest.mark.requirement("KV3-07")
def test_recreated_topic_is_a_different_topic() -> None:
    cluster = created(("a", (1, 2)))
    before, old_id = cluster.image.topics, cluster.topic_id("a")
    delete(cluster, "a")
    create(cluster, "a", (1, 2))
    changes = assignment_changes(1, before, cluster.image.topics)
    assert changes.stopped == ((old_id, 0),)
    assert [each.key.topic_id for each in changes.changed] == [cluster.topic_id("a")]
    assert cluster.topic_id("a") != old_id


def test_topic_created_and_deleted_between_two_images_is_not_reported() -> None:
    cluster = created(("a", (1, 2)))
    before = cluster.image.topics
    create(cluster, "b", (1,))
    delete(cluster, "b")
    changes = assignment_changes(1, before, cluster.image.topics)
    assert (changes.stopped, changes.changed) == ((), ())


@pytest.mark.requirement("KV3-08")
def test_removed_replica_is_stopped_and_a_new_one_is_reported() -> None:
    here = created(("a", (1, 2)))
    there = created(("a", (2, 3)))
    same_id = here.topic_id("a") == there.topic_id("a")
    assert same_id, "the clusters are made from one seed"
    before, after = here.image.topics, there.image.topics
    assert assignment_changes(1, before, after).stopped == ((here.topic_id("a"), 0),)
    assert [each.topic_name for each in assignment_changes(3, before, after).changed] == ["a"]


@pytest.mark.requirement("KV3-07")
def test_stray_replicas_are_identified_by_topic_id_and_assignment() -> None:
    cluster = created(("a", (1, 2)), ("b", (2, 3)))
    a, b = cluster.topic_id("a"), cluster.topic_id("b")
    kept = FoundLog("a", 0, a)
    found = [
        kept,
        FoundLog("a", 1, a),
        FoundLog("a", 0, UUID(int=5)),
        FoundLog("b", 0, b),
        FoundLog("a", 0, None),
        FoundLog("a-copy", 0, a),
    ]
    assert strays(1, found, cluster.image.topics) == found[1:]
    assert strays(1, found, EMPTY) == found
