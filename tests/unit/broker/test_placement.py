"""In which log directory a replica is opened or created, and when it is not."""

from dataclasses import replace
from uuid import UUID

import pytest

from quorum_node.broker.assignments import FoundLog
from quorum_node.broker.placement import (
    AmbiguousReplica,
    Offline,
    directory_of_replica,
    lacks_directory,
    possibly_superseded,
    superseded_logs,
)
from quorum_node.controller.topics import create_topics
from quorum_node.image.partition import Partition
from quorum_node.protocol.create_topics import CreateTopicsRequest, CreateTopicsResponse
from quorum_node.records.metadata import LOST, MIGRATING, UNASSIGNED, PartitionChangeRecord
from support.controlled_cluster import ControlledCluster, assigned, directory_of

pytestmark = pytest.mark.requirement("KV3-07")

ME, OTHER = 1, 2
A, B, DEAD = UUID(int=1 << 80), UUID(int=1 << 81), UUID(int=1 << 82)
ONLINE = {A: 5, B: 3}


def partition(directory: UUID, isr: tuple[int, ...] = (ME, OTHER)) -> Partition:
    cluster = ControlledCluster((ME, OTHER))
    request = CreateTopicsRequest(topics=(assigned("t", (ME, OTHER)),))
    cluster.ask(create_topics, request, CreateTopicsResponse)
    return replace(cluster.partition("t"), directories=(directory, directory_of(OTHER)), isr=isr)


def chosen(
    now: Partition,
    found: UUID | None = None,
    *,
    is_new: bool = False,
    has_offline: bool = False,
    preferred: UUID | None = None,
) -> UUID | Offline:
    return directory_of_replica(
        ME, now, found, ONLINE, is_new=is_new, has_offline=has_offline, preferred=preferred
    )


@pytest.mark.parametrize("directory", [UNASSIGNED, MIGRATING, DEAD, LOST, B])
@pytest.mark.parametrize("has_offline", [False, True])
def test_existing_log_stays_where_it_is(directory: UUID, has_offline: bool) -> None:
    assert chosen(partition(directory), A, has_offline=has_offline) == A


def test_new_log_is_created_in_the_assigned_directory_else_where_there_are_the_fewest() -> None:
    assert chosen(partition(A)) == A
    for directory in (UNASSIGNED, MIGRATING, LOST, DEAD):
        assert chosen(partition(directory)) == B
    assert chosen(partition(UNASSIGNED), preferred=A) == A
    assert chosen(partition(UNASSIGNED), preferred=DEAD) == B
    assert chosen(partition(A), preferred=B) == A, "the metadata has precedence"


def test_missing_log_is_not_created_while_it_may_be_in_an_offline_directory() -> None:
    assert chosen(partition(DEAD), has_offline=True) == Offline(DEAD)
    assert chosen(partition(DEAD, isr=(OTHER,)), has_offline=True) == Offline(DEAD)
    assert chosen(partition(DEAD), is_new=True, has_offline=True) == Offline(DEAD)


@pytest.mark.parametrize("directory", [UNASSIGNED, MIGRATING, A])
def test_missing_log_of_an_isr_member_is_reported_as_lost_while_a_directory_is_offline(
    directory: UUID,
) -> None:
    """The broker may have ended before it reported the directory, which is offline now."""
    assert chosen(partition(directory), has_offline=True) == Offline(LOST)
    eligible = replace(partition(directory, isr=(OTHER,)), eligible_leader_replicas=(ME,))
    assert chosen(eligible, has_offline=True) == Offline(LOST)
    last = replace(partition(directory, isr=(OTHER,)), last_known_elr=(ME,))
    assert chosen(last, has_offline=True) == Offline(LOST)


def test_replica_without_records_is_created_although_a_directory_is_offline() -> None:
    assert chosen(partition(UNASSIGNED, isr=(OTHER,)), has_offline=True) == B
    assert chosen(partition(UNASSIGNED), is_new=True, has_offline=True) == B
    assert chosen(partition(A), is_new=True, has_offline=True) == A


def test_copy_of_an_ended_move_is_current_although_the_metadata_names_the_old_directory() -> None:
    cluster = ControlledCluster((ME, OTHER))
    request = CreateTopicsRequest(topics=(assigned("t", (ME, OTHER)),))
    cluster.ask(create_topics, request, CreateTopicsResponse)
    named, topic_id = directory_of(ME), cluster.topic_id("t")
    old = FoundLog("t", 0, topic_id, named, moving_to=A)
    copy = FoundLog("t", 0, topic_id, A)
    assert superseded_logs(ME, [old, copy], cluster.image.topics) == [old]
    elsewhere = FoundLog("t", 0, topic_id, named, moving_to=B)
    assert superseded_logs(ME, [elsewhere, copy], cluster.image.topics) == [copy]
    assert superseded_logs(ME, [old], cluster.image.topics) == [], "the copy was not complete"
    circle = [old, FoundLog("t", 0, topic_id, A, moving_to=named)]
    with pytest.raises(AmbiguousReplica, match="t-0"):
        superseded_logs(ME, circle, cluster.image.topics)


def test_log_is_possibly_superseded_if_its_copy_may_be_in_an_offline_directory() -> None:
    moving, other = FoundLog("t", 0, None, A, moving_to=B), FoundLog("u", 0, None, A)
    assert possibly_superseded([moving, other], (A,), has_offline=True) == [moving]
    assert possibly_superseded([moving, other], (A, B), has_offline=True) == []
    assert possibly_superseded([moving, other], (A,), has_offline=False) == []


def test_of_two_logs_of_a_replica_the_one_in_the_assigned_directory_is_current() -> None:
    cluster = ControlledCluster((ME, OTHER))
    for name in ("t", "u"):
        request = CreateTopicsRequest(topics=(assigned(name, (ME, OTHER)),))
        cluster.ask(create_topics, request, CreateTopicsResponse)
    current, old = directory_of(ME), DEAD
    logs = [
        FoundLog("t", 0, cluster.topic_id("t"), old),
        FoundLog("t", 0, cluster.topic_id("t"), current),
        FoundLog("u", 0, cluster.topic_id("u"), old),
    ]
    assert superseded_logs(ME, logs, cluster.image.topics) == logs[:1]
    ambiguous = [logs[0], FoundLog("t", 0, cluster.topic_id("t"), A)]
    with pytest.raises(AmbiguousReplica, match="t-0"):
        superseded_logs(ME, ambiguous, cluster.image.topics)


def test_replica_in_a_directory_that_was_removed_is_noticed() -> None:
    cluster = ControlledCluster((ME, OTHER))
    request = CreateTopicsRequest(topics=(assigned("t", (ME, OTHER)),))
    cluster.ask(create_topics, request, CreateTopicsResponse)
    topics = cluster.image.topics
    assert not lacks_directory(ME, topics, (directory_of(ME), A))
    assert lacks_directory(ME, topics, (A, B))
    assert not lacks_directory(3, topics, (A,)), "of another broker"
    for directory in (UNASSIGNED, MIGRATING, LOST):
        change = PartitionChangeRecord(
            partition_id=0,
            topic_id=cluster.topic_id("t"),
            directories=(directory, directory_of(OTHER)),
        )
        cluster.replay([change])
        assert not lacks_directory(ME, cluster.image.topics, (A, B))
