"""Brokers, partitions and reassignments against a naive model: any order of events, long and short.

The model has the expected results, not their causes: the assigned replicas, the requested ones, the holders of every
acknowledged message. Commands, repairs and replay are the real ones; every record is encoded and decoded.
"""

from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from quorum_node.controller.alter_partition import alter_partition
from quorum_node.controller.broker_partitions import suspicious
from quorum_node.controller.elections import balance_some
from quorum_node.controller.feature_levels import ELIGIBLE_LEADER_REPLICAS
from quorum_node.controller.partition_repair import repair_some
from quorum_node.controller.partitions import create_partitions
from quorum_node.controller.reassignments import alter_reassignments
from quorum_node.controller.topic_deletion import delete_topics
from quorum_node.controller.topic_settings import (
    ALL_BROKERS,
    MIN_INSYNC_REPLICAS,
    min_insync_replicas,
)
from quorum_node.controller.topics import create_topics
from quorum_node.controller.unclean_shutdown import is_unclean, remove_replicas
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.image.partition import Partition
from quorum_node.image.resource_types import BROKER
from quorum_node.protocol.alter_partition import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionRequest,
    AlterPartitionResponse,
    IsrMember,
)
from quorum_node.protocol.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from quorum_node.protocol.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from quorum_node.protocol.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from quorum_node.records.metadata import (
    NO_LEADER,
    RECOVERING,
    ConfigRecord,
    FeatureLevelRecord,
)
from support.controlled_cluster import ControlledCluster

BROKERS = range(1, 7)
NAMES = ("a", "b")
Key = tuple[str, int]
MOSTLY_NOT = st.sampled_from((False, False, True))


@dataclass(slots=True)
class Expected:
    """The expected state of a partition."""

    assigned: tuple[int, ...]
    """Who was assigned when it did not move."""
    target: tuple[int, ...] | None
    """Who was asked for since."""
    complete: set[int]
    """Who holds every acknowledged message."""
    seen: Partition


class Cluster(RuleBasedStateMachine):
    """Events in any order. `keeps_eligible`: with eligible leader replicas (KIP-966)."""

    keeps_eligible = False

    def __init__(self) -> None:
        super().__init__()
        self.cluster = ControlledCluster()
        self.expected: dict[Key, Expected] = {}

    @initialize(count=st.integers(1, 4), min_isr=st.integers(1, 3))
    def some_brokers(self, count: int, min_isr: int) -> None:
        if self.keeps_eligible:
            level = FeatureLevelRecord(name=ELIGIBLE_LEADER_REPLICAS, feature_level=1)
            config = ConfigRecord(
                resource_type=BROKER,
                resource_name=ALL_BROKERS,
                name=MIN_INSYNC_REPLICAS,
                value=str(min_isr),
            )
            self.cluster.replay([level, config])
        for broker_id in range(1, count + 1):
            self.cluster.register(broker_id)

    # -- brokers

    @rule(broker_id=st.sampled_from(BROKERS), fenced=MOSTLY_NOT, cleanly=st.booleans())
    def a_process_starts(self, broker_id: int, fenced: bool, cleanly: bool) -> None:
        """The one before stopped cleanly, or lost what was not flushed."""
        before = self.cluster.image.brokers.get(broker_id)
        epoch = before.broker_epoch if before is not None and cleanly else -1
        if self.keeps_eligible and before is not None and is_unclean(before.broker_epoch, epoch):
            records, complete = remove_replicas(self.cluster.view(), broker_id)
            assert complete
            self.cluster.replay(records)
            for expected in self.expected.values():
                expected.complete.discard(broker_id)
        self.cluster.register(broker_id, fenced=fenced)
        self.settle()

    def taken(self, key: Key, isr: tuple[int, ...]) -> None:
        """A leader has this ISR. While it is too small nothing new is acknowledged."""
        acknowledges = not self.keeps_eligible or len(isr) >= self.min_isr(key)
        complete = self.expected[key].complete
        self.expected[key].complete = set(isr) if acknowledges else complete | set(isr)

    def min_isr(self, key: Key) -> int:
        """As it is in force."""
        replication_factor = len(self.cluster.partition(key[0], 0).replicas)
        return min(min_insync_replicas(self.cluster.view(), key[0]), replication_factor)

    @rule()
    def all_are_back(self) -> None:
        for broker_id in list(self.cluster.image.brokers.by_id):
            self.cluster.register(broker_id)
        self.settle()

    @precondition(lambda self: self.expected)
    @rule(data=st.data())
    def a_leader_that_is_alone_in_sync_dies(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.expected)))
        now = self.cluster.partition(*key)
        if now.leader == NO_LEADER:
            return
        if self.ask_for_isr(key, now.leader, (now.leader,), now, age=0) == ErrorCode.NONE:
            self.taken(key, (now.leader,))
        self.cluster.fence(now.leader)
        self.settle()

    @rule(broker_id=st.sampled_from(BROKERS), fenced=MOSTLY_NOT)
    def a_lease_ends_or_begins(self, broker_id: int, fenced: bool) -> None:
        if self.cluster.image.brokers.get(broker_id) is not None:
            self.cluster.fence(broker_id, fenced=fenced)
            self.settle()

    @rule(broker_id=st.sampled_from(BROKERS))
    def a_broker_wants_to_leave(self, broker_id: int) -> None:
        if self.cluster.image.brokers.get(broker_id) is not None:
            self.cluster.change(broker_id, in_controlled_shutdown=1)
            self.settle()

    # -- topics

    @rule(name=st.sampled_from(NAMES), partitions=st.integers(1, 3), factor=st.integers(1, 3))
    def a_topic_is_created(self, name: str, partitions: int, factor: int) -> None:
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor)
        request = CreateTopicsRequest(topics=(topic,))
        (result,) = self.cluster.ask(create_topics, request, CreateTopicsResponse).topics
        registered = self.cluster.image.brokers.by_id.values()
        usable = [each for each in registered if not each.in_controlled_shutdown]
        if any(key[0] == name for key in self.expected):
            assert result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
        elif len(usable) < factor or all(each.fenced for each in usable):
            assert result.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
        else:
            assert result.error_code == ErrorCode.NONE
            self.note_new(name, range(partitions))

    @rule(name=st.sampled_from(NAMES))
    def a_topic_is_deleted(self, name: str) -> None:
        request = DeleteTopicsRequest(topics=(DeleteTopicState(name=name),), timeout_ms=0)
        (result,) = self.cluster.ask(delete_topics, request, DeleteTopicsResponse).responses
        mine = [key for key in self.expected if key[0] == name]
        assert (result.error_code == ErrorCode.NONE) == bool(mine)
        for key in mine:
            del self.expected[key]

    @rule(name=st.sampled_from(NAMES))
    def a_topic_grows(self, name: str) -> None:
        now = sum(key[0] == name for key in self.expected)
        topic = CreatePartitionsTopic(name=name, count=now + 1)
        request = CreatePartitionsRequest(topics=(topic,), timeout_ms=0, validate_only=False)
        answer = self.cluster.ask(create_partitions, request, CreatePartitionsResponse)
        if answer.results[0].error_code == ErrorCode.NONE:
            self.note_new(name, (now,))
        else:
            live = map(self.cluster.image.brokers.is_active, BROKERS)
            assert not now or not any(live) or answer.results[0].error_code == 38

    # -- partitions

    @precondition(lambda self: self.expected)
    @rule(data=st.data(), stale=st.integers(0, 3))
    def a_leader_asks_for_another_isr(self, data: st.DataObject, stale: int) -> None:
        """`stale` 1: by a replica that isn't the leader; 2: with old epochs; else as a leader does."""
        key = data.draw(st.sampled_from(sorted(self.expected)))
        now = self.cluster.partition(*key)
        sender = now.leader
        if stale == 1:
            sender = data.draw(st.sampled_from(now.replicas))
        if sender == NO_LEADER:
            return
        isr = data.draw(st.sets(st.sampled_from(now.replicas)).map(lambda some: {*some, sender}))
        answer = self.ask_for_isr(key, sender, tuple(sorted(isr)), now, age=int(stale == 2))
        brokers = self.cluster.image.brokers
        if sender != now.leader or stale == 2:
            assert answer not in (ErrorCode.NONE, ErrorCode.NEW_LEADER_ELECTED)
            assert self.cluster.partition(*key) == now
        elif not all(map(brokers.is_active, isr)):
            assert answer == ErrorCode.INELIGIBLE_REPLICA
        else:
            assert answer in (ErrorCode.NONE, ErrorCode.NEW_LEADER_ELECTED)
            self.taken(key, tuple(isr))
        self.settle()

    def ask_for_isr(
        self, key: Key, sender: int, isr: tuple[int, ...], now: Partition, age: int
    ) -> ErrorCode:
        requested = AlteredPartition(
            partition_index=key[1],
            leader_epoch=now.leader_epoch,
            partition_epoch=now.partition_epoch - age,
            new_isr_with_epochs=tuple(IsrMember(broker_id=each) for each in isr),
        )
        request = AlterPartitionRequest(
            broker_id=sender,
            broker_epoch=self.cluster.epoch(sender),
            topics=(AlteredTopic(topic_id=self.cluster.topic_id(key[0]), partitions=(requested,)),),
        )
        answer = self.cluster.ask(alter_partition, request, AlterPartitionResponse)
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    @precondition(lambda self: self.expected)
    @rule(data=st.data(), cancel=st.booleans())
    def partition_is_reassigned(self, data: st.DataObject, cancel: bool) -> None:
        key = data.draw(st.sampled_from(sorted(self.expected)))
        expected, now = self.expected[key], self.cluster.partition(*key)
        target = None
        if not cancel:
            brokers = st.sampled_from(BROKERS)
            target = tuple(data.draw(st.lists(brokers, min_size=1, max_size=3, unique=True)))
        error = self.reassign(key, target)
        known = self.cluster.image.brokers.by_id
        if target is None and expected.target is None:
            assert error == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        elif target is not None and not all(each in known for each in target):
            assert error == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        elif target is not None:
            assert error == ErrorCode.NONE
            expected.target = target
        elif set(now.isr) & set(expected.assigned):
            assert error == ErrorCode.NONE
            expected.target = None
        else:
            assert error == ErrorCode.INVALID_REPLICA_ASSIGNMENT, "it would lose messages"
        self.settle()

    def reassign(self, key: Key, target: tuple[int, ...] | None) -> ErrorCode:
        partition = ReassignablePartition(partition_index=key[1], replicas=target)
        topic = ReassignableTopic(name=key[0], partitions=(partition,))
        request = AlterPartitionReassignmentsRequest(topics=(topic,))
        answer = self.cluster.ask(alter_reassignments, request, AlterPartitionReassignmentsResponse)
        return ErrorCode(answer.responses[0].partitions[0].error_code)

    @rule()
    def leaders_are_balanced(self) -> None:
        view = self.cluster.view()
        self.cluster.take(balance_some(view, view.image.topics.not_preferred())[0])
        self.settle()

    # -- the controller

    @rule()
    def another_controller_takes_over(self) -> None:
        """From a snapshot, and byte for byte the same."""
        before = list(self.cluster.image.snapshot_records())
        image = ClusterImage().replay_all(self.cluster.image.snapshot_messages())
        assert image == self.cluster.image
        assert list(image.snapshot_records()) == before
        self.cluster.image = image

    def note_new(self, name: str, partition_ids: tuple[int, ...] | range) -> None:
        for partition_id in partition_ids:
            new = self.cluster.partition(name, partition_id)
            key = (name, partition_id)
            self.expected[key] = Expected(new.replicas, None, set(new.isr), new)

    def settle(self) -> None:
        """The controller does what follows, until nothing is left to do."""
        for _ in range(100):
            view = self.cluster.view()
            decision, _ended = repair_some(view, suspicious(view.image))
            if not decision.records:
                return
            self.cluster.take(decision)
        raise AssertionError("repairing does not end")

    # -- what always holds

    @invariant()
    def partitions_are_what_is_expected(self) -> None:
        for key, expected in self.expected.items():
            now, before = self.cluster.partition(*key), expected.seen
            self.check_progress(key, before, now)
            self.check_assignment(key, expected, now)
            assert set(now.isr) <= set(now.replicas), key
            eligible = now.eligible_leader_replicas or ()
            assert now.isr or self.keeps_eligible, key
            assert not set(eligible) & set(now.isr), key
            assert set(eligible) <= set(now.replicas), f"{key}: a removed replica has no log"
            if now.leader != NO_LEADER:
                assert now.leader in now.isr, key
                self.check_leader(key, expected, before, now)
                assert self.cluster.image.brokers.is_active(now.leader), key
                if not self.keeps_eligible or len(now.isr) >= self.min_isr(key):
                    # The minimum also falls with the replicas of partition 0, which changes no other partition.
                    assert not eligible or now == before, key
                    expected.complete &= set(now.isr)
            else:
                electable = now.isr or eligible or now.last_known_elr or ()
                assert not any(map(self.cluster.image.brokers.is_active, electable)), key
            if expected.complete & set(before.replicas) & set(now.replicas):
                assert expected.complete & {*now.isr, *eligible}, f"{key}: no replica is eligible"
            expected.complete &= set(now.replicas)  # a removed replica has no log
            expected.seen = now

    def check_leader(self, key: Key, expected: Expected, before: Partition, now: Partition) -> None:
        """The leader has all records; or no live replica has, and it was the last leader."""
        if self.keeps_eligible and not expected.complete:
            assert now.leader_recovery_state == RECOVERING, key
            expected.complete = {now.leader}
        assert now.leader in expected.complete, f"{key}: acknowledged messages are lost"

    def check_progress(self, key: Key, before: Partition, now: Partition) -> None:
        assert now.partition_epoch >= before.partition_epoch, key
        if now.partition_epoch == before.partition_epoch:
            assert now == before, key
        assert now.leader_epoch >= before.leader_epoch, key
        if now.leader != before.leader or set(before.replicas) - set(now.replicas):
            assert now.leader_epoch > before.leader_epoch, key

    def check_assignment(self, key: Key, expected: Expected, now: Partition) -> None:
        target = expected.target
        if (
            target is not None
            and not now.is_reassigning
            # Assigned replicas are reordered at once: no new replica has to catch up.
            and (set(target) <= set(now.isr) or set(target) == set(expected.assigned))
        ):
            expected.assigned, expected.target = target, None
        if expected.target is None:
            if not now.is_reassigning and set(now.replicas) == set(expected.assigned):
                expected.assigned = now.replicas
            assert now.replicas == expected.assigned, key
            assert not now.is_reassigning, key
        else:
            assert now.is_reassigning, key
            assert not set(expected.target) <= set(now.isr), f"{key} should have arrived"
            assert now.replicas[: len(expected.target)] == expected.target, key
            assert set(now.replicas) >= set(expected.assigned), key

    @invariant()
    def nothing_else_is_there_and_the_indexes_are_true(self) -> None:
        topics = self.cluster.image.topics
        found = {(t.name, number): p for t in topics for number, p in t.partitions.items()}
        assert set(found) == set(self.expected)
        number_of = {name: self.cluster.topic_id(name).int for name in {key[0] for key in found}}

        def marked(holds: list[bool]) -> set[tuple[int, int]]:
            keys = [(number_of[name], number) for name, number in found]
            return {key for key, held in zip(keys, holds, strict=True) if held}

        partitions = found.values()
        assert set(topics.marked_leaderless) == marked([not p.has_leader for p in partitions])
        assert set(topics.marked_reassigning) == marked([p.is_reassigning for p in partitions])
        for broker_id in BROKERS:
            held = sum(broker_id in p.replicas for p in partitions)
            assert topics.replica_count(broker_id) == held


class ClusterWithEligibleReplicas(Cluster):
    """The same at eligible.leader.replicas.version 1."""

    keeps_eligible = True


def run(machine: type[Cluster], examples: int, steps: int, *, others_each_time: bool) -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            derandomize=not others_each_time,
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.requirement("KV3-01", "KV3-04", "KV3-05", "KV3-06")
@pytest.mark.parametrize("machine", [Cluster, ClusterWithEligibleReplicas])
def test_invariants_hold_for_any_order_of_events(machine: type[Cluster]) -> None:
    run(machine, 40, 40, others_each_time=False)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("machine", [Cluster, ClusterWithEligibleReplicas])
def test_invariants_hold_for_many_orders_of_events(machine: type[Cluster]) -> None:
    run(machine, 3000, 60, others_each_time=True)
