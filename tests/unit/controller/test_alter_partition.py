"""AlterPartition: every check, and that a leader which was deposed can't commit (the design's "two leaders")."""

from dataclasses import replace
from typing import Any

import pytest

from quorum_node.controller.alter_partition import alter_partition
from quorum_node.controller.directories import assign_replicas_to_dirs
from quorum_node.controller.partition_change import Wanted, change_partition
from quorum_node.controller.partition_rules import circumstances
from quorum_node.controller.topics import create_topics
from quorum_node.protocol.alter_partition import (
    AlteredPartition,
    AlteredPartitionState,
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
from quorum_node.protocol.create_topics import CreateTopicsRequest, CreateTopicsResponse
from quorum_node.protocol.errors import ErrorCode
from quorum_node.records.metadata import (
    LOST,
    NO_LEADER,
    RECOVERED,
    RECOVERING,
    PartitionChangeRecord,
)
from support.controlled_cluster import ControlledCluster, assigned, directory_of


@pytest.fixture
def cluster() -> ControlledCluster:
    """Topic t with one partition on brokers 1, 2 and 3; 1 leads."""
    cluster = ControlledCluster([1, 2, 3, 4])
    request = CreateTopicsRequest(topics=(assigned("t", (1, 2, 3)),))
    cluster.ask(create_topics, request, CreateTopicsResponse)
    cluster.decided.clear()
    return cluster


def fail(cluster: ControlledCluster, broker_id: int) -> PartitionChangeRecord | None:
    """A broker's lease expires: it is fenced and its partition continues without it."""
    cluster.fence(broker_id)
    now = cluster.partition("t")
    wanted = Wanted(isr=tuple(each for each in now.isr if each != broker_id))
    given = circumstances(cluster.view(), "t", now)
    record = change_partition(cluster.topic_id("t"), 0, now, wanted, given)
    if record is not None:
        cluster.replay([record])
    return record


def asked(cluster: ControlledCluster, *isr: int, **fields: Any) -> AlteredPartition:
    """The current request of the partition's leader."""
    now = cluster.partition("t")
    return AlteredPartition(
        partition_index=0,
        leader_epoch=fields.pop("leader_epoch", now.leader_epoch),
        partition_epoch=fields.pop("partition_epoch", now.partition_epoch),
        new_isr_with_epochs=tuple(
            IsrMember(broker_id=each, broker_epoch=fields.get("epochs", {}).get(each, -1))
            for each in isr
        ),
        leader_recovery_state=fields.get("recovery", RECOVERED),
    )


def alter(
    cluster: ControlledCluster, broker_id: int, partition: AlteredPartition
) -> AlteredPartitionState:
    """The answer for the one partition."""
    request = AlterPartitionRequest(
        broker_id=broker_id,
        broker_epoch=cluster.epoch(broker_id),
        topics=(AlteredTopic(topic_id=cluster.topic_id("t"), partitions=(partition,)),),
    )
    answer = cluster.ask(alter_partition, request, AlterPartitionResponse)
    assert answer.error_code == ErrorCode.NONE
    return answer.topics[0].partitions[0]


def test_leader_shrinks_and_expands_its_isr(cluster: ControlledCluster) -> None:
    state = alter(cluster, 1, asked(cluster, 1, 3))
    assert (state.error_code, state.isr, state.partition_epoch) == (ErrorCode.NONE, (1, 3), 1)
    assert (state.leader_id, state.leader_epoch) == (1, 0), "no new leader epoch for that"
    state = alter(cluster, 1, asked(cluster, 1, 3, 2, epochs={2: cluster.epoch(2)}))
    assert cluster.partition("t").isr == state.isr == (1, 3, 2)
    unchanged = alter(cluster, 1, asked(cluster, 1, 3, 2))
    assert (unchanged.error_code, unchanged.partition_epoch) == (ErrorCode.NONE, 2)
    assert len(cluster.decided) == 2


def test_partition_that_is_listed_twice_is_changed_once(cluster: ControlledCluster) -> None:
    """The first entry ends a reassignment and moves the leadership. The second would bring a removed replica back."""
    now = cluster.partition("t")
    begun = PartitionChangeRecord(
        partition_id=0, topic_id=cluster.topic_id("t"), replicas=(4, 2, 1, 3), adding_replicas=(4,),
        removing_replicas=(1, 3), directories=(directory_of(4), *(directory_of(x) for x in (2, 1, 3))),
    )  # fmt: skip
    cluster.replay([begun])
    assert now.isr == cluster.partition("t").isr
    topic = AlteredTopic(
        topic_id=cluster.topic_id("t"),
        partitions=(asked(cluster, 1, 2, 3, 4), asked(cluster, 1)),
    )
    request = AlterPartitionRequest(broker_id=1, broker_epoch=cluster.epoch(1), topics=(topic,))
    answer = cluster.ask(alter_partition, request, AlterPartitionResponse)
    codes = [each.error_code for each in answer.topics[0].partitions]
    assert codes == [ErrorCode.NEW_LEADER_ELECTED, ErrorCode.FENCED_LEADER_EPOCH]
    now = cluster.partition("t")
    assert (now.replicas, now.isr, now.leader) == ((4, 2), (2, 4), 4)


def test_isr_shrink_before_3_6_increases_the_leader_epoch() -> None:
    cluster = ControlledCluster([1, 2], level=11)
    request = CreateTopicsRequest(topics=(assigned("t", (1, 2)),))
    cluster.ask(create_topics, request, CreateTopicsResponse)
    assert alter(cluster, 1, asked(cluster, 1)).leader_epoch == 1
    assert alter(cluster, 1, asked(cluster, 1, 2)).leader_epoch == 1


FAULTS: list[tuple[str, int, tuple[int, ...], dict[str, Any], ErrorCode]] = [
    ("controller behind, leader epoch", 1, (1,), {"leader_epoch": 9}, ErrorCode.NOT_CONTROLLER),
    ("controller behind, partition", 1, (1,), {"partition_epoch": 9}, ErrorCode.NOT_CONTROLLER),
    ("old leader epoch", 1, (1,), {"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
    ("not the leader", 2, (1, 2), {}, ErrorCode.INVALID_REQUEST),
    ("old partition epoch", 1, (1,), {"partition_epoch": -1}, ErrorCode.INVALID_UPDATE_VERSION),
    ("without itself", 1, (2, 3), {}, ErrorCode.INVALID_REQUEST),
    ("nobody", 1, (), {}, ErrorCode.INVALID_REQUEST),
    ("a replica twice", 1, (1, 2, 2), {}, ErrorCode.INVALID_REQUEST),
    ("no replica of it", 1, (1, 4), {}, ErrorCode.INVALID_REQUEST),
    ("no longer recovering", 1, (1,), {"recovery": RECOVERING}, ErrorCode.INVALID_REQUEST),
    ("unknown recovery state", 1, (1,), {"recovery": 7}, ErrorCode.INVALID_REQUEST),
    ("restarted replica", 1, (1, 2), {"epochs": {2: 0}}, ErrorCode.INELIGIBLE_REPLICA),
]


@pytest.mark.parametrize(
    ("broker_id", "isr", "fields", "code"), [pytest.param(*row[1:], id=row[0]) for row in FAULTS]
)
def test_invalid_isr_is_rejected(
    cluster: ControlledCluster,
    broker_id: int,
    isr: tuple[int, ...],
    fields: dict[str, Any],
    code: ErrorCode,
) -> None:
    before = cluster.image
    assert alter(cluster, broker_id, asked(cluster, *isr, **fields)).error_code == code
    assert cluster.image == before


@pytest.mark.parametrize("change", [{"fenced": 1}, {"in_controlled_shutdown": 1}])
def test_fenced_or_stopping_broker_does_not_join_the_isr(
    cluster: ControlledCluster, change: dict[str, int]
) -> None:
    cluster.change(2, **change)
    assert alter(cluster, 1, asked(cluster, 1, 2)).error_code == ErrorCode.INELIGIBLE_REPLICA


def test_request_of_an_older_process_or_unregistered_broker_is_stale(
    cluster: ControlledCluster,
) -> None:
    for broker_id, epoch in ((1, 0), (9, 5)):
        request = AlterPartitionRequest(broker_id=broker_id, broker_epoch=epoch, topics=())
        answer = cluster.ask(alter_partition, request, AlterPartitionResponse)
        assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH


def test_unknown_topics_and_partitions_are_reported(cluster: ControlledCluster) -> None:
    other = replace(asked(cluster, 1), partition_index=5)
    assert alter(cluster, 1, other).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    request = AlterPartitionRequest(
        broker_id=1,
        broker_epoch=cluster.epoch(1),
        topics=(AlteredTopic(topic_id=directory_of(1), partitions=(other,)),),
    )
    answer = cluster.ask(alter_partition, request, AlterPartitionResponse)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.requirement("KV3-11")
def test_two_leaders_cannot_both_commit(cluster: ControlledCluster) -> None:
    """1 pauses and is replaced, then resumes and still assumes to lead with the ISR 1, 2, 3.

    It can't commit with 2, which no longer follows it; so it would have to remove it first.
    """
    believed = asked(cluster, 1, 3)
    alone = asked(cluster, 1)
    fail(cluster, 1)
    now = cluster.partition("t")
    assert (now.leader, now.isr, now.leader_epoch) == (2, (2, 3), 1)
    for attempt in (believed, alone):
        assert alter(cluster, 1, attempt).error_code == ErrorCode.FENCED_LEADER_EPOCH
    # Even if it had seen the new epochs, it is not the leader that they belong to.
    assert alter(cluster, 1, asked(cluster, 1)).error_code == ErrorCode.INVALID_REQUEST
    cluster.fence(1, fenced=False)
    assert alter(cluster, 1, alone).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert cluster.partition("t") == now
    # The leader that is the leader can.
    assert alter(cluster, 2, asked(cluster, 2)).error_code == ErrorCode.NONE


@pytest.mark.requirement("KV3-11")
def test_concurrently_changed_isr_is_not_overwritten(
    cluster: ControlledCluster,
) -> None:
    """The same leader epoch, but a follower was taken out: the leader has to see that first."""
    seen_before = asked(cluster, 1, 2, 3)
    fail(cluster, 3)
    assert cluster.partition("t").leader_epoch == 0
    assert alter(cluster, 1, seen_before).error_code == ErrorCode.INVALID_UPDATE_VERSION


@pytest.mark.requirement("KV3-01")
def test_unclean_election_is_marked_until_the_leader_has_recovered() -> None:
    cluster = ControlledCluster([1, 2])
    topic = assigned("t", (1, 2), unclean_leader_election_enable="true")
    cluster.ask(create_topics, CreateTopicsRequest(topics=(topic,)), CreateTopicsResponse)
    alter(cluster, 1, asked(cluster, 1))
    record = fail(cluster, 1)
    assert record is not None
    assert (record.leader, record.isr, record.leader_recovery_state) == (2, (2,), RECOVERING)
    cluster.fence(1, fenced=False)
    early = asked(cluster, 2, 1, recovery=RECOVERING)
    assert alter(cluster, 2, early).error_code == ErrorCode.INVALID_REQUEST
    state = alter(cluster, 2, asked(cluster, 2))
    assert (state.error_code, state.leader_recovery_state) == (ErrorCode.NONE, RECOVERED)


@pytest.mark.requirement("KV3-01")
def test_partition_without_live_isr_members_has_no_leader_and_keeps_its_isr(
    cluster: ControlledCluster,
) -> None:
    alter(cluster, 1, asked(cluster, 1))
    record = fail(cluster, 1)
    assert record is not None
    assert (record.leader, record.isr) == (NO_LEADER, None)
    assert cluster.partition("t").isr == (1,)


def place(
    cluster: ControlledCluster, directory: Any, partition_id: int = 0, broker_id: int = 1
) -> ErrorCode:
    """A broker reports the directory of its replica of t."""
    request = AssignReplicasToDirsRequest(
        broker_id=broker_id,
        broker_epoch=cluster.epoch(broker_id),
        directories=(
            PlacedDirectory(
                id=directory,
                topics=(
                    PlacedTopic(
                        topic_id=cluster.topic_id("t"),
                        partitions=(PlacedPartition(partition_index=partition_id),),
                    ),
                ),
            ),
        ),
    )
    answer = cluster.ask(assign_replicas_to_dirs, request, AssignReplicasToDirsResponse)
    assert answer.error_code == ErrorCode.NONE
    return ErrorCode(answer.directories[0].topics[0].partitions[0].error_code)


def test_replica_moves_to_another_directory(cluster: ControlledCluster) -> None:
    other = directory_of(77)
    cluster.change(1, log_dirs=(directory_of(1), other))
    assert place(cluster, other) == ErrorCode.NONE
    now = cluster.partition("t")
    assert now.directories == (other, directory_of(2), directory_of(3))
    assert (now.leader, now.leader_epoch, now.isr) == (1, 0, (1, 2, 3))
    assert place(cluster, other, 5) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_broker_assigns_directories_of_its_own_replicas_only(cluster: ControlledCluster) -> None:
    cluster.register(9)
    before = cluster.partition("t")
    assert place(cluster, directory_of(9), broker_id=9) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert cluster.partition("t") == before


def test_replica_in_a_failed_directory_loses_leadership(cluster: ControlledCluster) -> None:
    assert place(cluster, LOST) == ErrorCode.NONE
    now = cluster.partition("t")
    assert (now.leader, now.leader_epoch, now.isr) == (2, 1, (2, 3))
    assert now.directories[0] == LOST
