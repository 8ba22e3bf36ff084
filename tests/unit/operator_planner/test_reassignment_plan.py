"""The planner of reassignments on a simulated controller: never too many at once, always converging, no memory."""

import random
from collections.abc import Iterable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quorum_operator import reassign
from quorum_operator.planner.reassignment import (
    Await,
    BeginMoves,
    CancelMoves,
    Cluster,
    Finished,
    PartitionReplicas,
    Step,
    Target,
    Wanted,
    lagging,
    plan,
    tally,
)
from quorum_operator.planner.reassignment_status import Held, Planned, build_status
from quorum_operator.reassignment_crd import (
    FINAL,
    MAX_PROBLEMS,
    PartitionReassignmentStatus,
    ReassignmentPhase,
)
from quorum_operator.reconcile import Next

SETTINGS = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
BROKERS = range(1, 7)
CALM_LIMIT = 300


class Controller:
    """What the quorum does with the changes: the rules of `quorum_node.controller.reassignments`, naively."""

    def __init__(self, rng: random.Random, partitions: int) -> None:
        self.rng = rng
        self.brokers = dict.fromkeys(BROKERS, False)
        self.partitions = {
            ("t", number): PartitionReplicas(replicas, replicas)
            for number in range(partitions)
            for replicas in [self.some_replicas()]
        }
        self.sent = 0

    def some_replicas(self, brokers: Iterable[int] = BROKERS) -> tuple[int, ...]:
        return tuple(self.rng.sample(list(brokers), 3))

    def observe(self) -> Cluster:
        return Cluster(dict(self.partitions), dict(self.brokers), self.moving())

    def moving(self) -> int:
        return sum(place.is_moving for place in self.partitions.values())

    def apply(self, step: Step) -> None:
        """As the node does: each partition by itself, conditional, within the limit."""
        if not isinstance(step, BeginMoves | CancelMoves):
            return
        self.sent += len(step.changes)
        for change in step.changes:
            key = (change.topic, change.partition)
            place = self.partitions[key]
            if place.replicas != change.expected:
                continue
            if change.replicas is None:
                assert place.is_moving
                back = tuple(each for each in place.replicas if each not in place.adding)
                self.partitions[key] = PartitionReplicas(back, back)
            elif isinstance(step, BeginMoves):
                assert set(change.replicas) <= set(self.brokers), "an invalid request was sent"
                self.move(key, change.replicas, step.max_moving)

    def move(self, key: tuple[str, int], target: tuple[int, ...], limit: int) -> None:
        place = self.partitions[key]
        adding = tuple(each for each in target if each not in place.target_replicas)
        removing = tuple(each for each in place.target_replicas if each not in target)
        if adding and self.moving() >= limit:
            return
        if not adding:
            self.partitions[key] = PartitionReplicas(target, target)
        else:
            self.partitions[key] = PartitionReplicas(
                (*target, *removing), place.isr, adding, removing
            )

    def arrive(self, key: tuple[str, int]) -> None:
        heading = self.partitions[key].target_replicas
        self.partitions[key] = PartitionReplicas(heading, heading)

    def some_arrive(self, share: float) -> None:
        for key, place in sorted(self.partitions.items()):
            if place.is_moving and self.rng.random() < share:
                self.arrive(key)


def wanted_of(rng: random.Random, partitions: int, limit: int) -> Wanted:
    """Some are right already; some name a partition or a broker that is not there."""
    targets = []
    for number in rng.sample(range(partitions + 3), partitions):
        brokers = range(1, 9) if rng.random() < 0.1 else BROKERS
        targets.append(Target("t", number, tuple(rng.sample(list(brokers), 3))))
    return Wanted(tuple(targets), limit)


def reconcile(controller: Controller, wanted: Wanted) -> Step:
    """One round; the operator may be killed before the step, or before it gets the response."""
    cluster = controller.observe()
    found = tally(wanted, cluster)
    assert sum(
        len(each)
        for each in (found.done, found.moving, found.elsewhere, found.waiting, found.problems)
    ) == len(wanted.targets)
    step = plan(wanted, cluster, found)
    assert plan(wanted, controller.observe(), tally(wanted, controller.observe())) == step
    if isinstance(step, BeginMoves):
        assert 0 < len(step.changes) <= wanted.max_moving - cluster.moving
        assert not wanted.paused
        assert not wanted.cancel
    if controller.rng.random() < 0.8:
        controller.apply(step)
    return step


def unreachable(wanted: Wanted, controller: Controller) -> set[int]:
    return {
        target.partition
        for target in wanted.targets
        if (target.topic, target.partition) not in controller.partitions
        or (
            not set(target.replicas) <= set(controller.brokers)
            and controller.partitions[target.topic, target.partition].replicas != target.replicas
        )
    }


@pytest.mark.requirement("OP-08")
@SETTINGS
@given(
    seed=st.integers(0, 1 << 32),
    partitions=st.integers(1, 25),
    limit=st.integers(1, 8),
    troubled=st.integers(0, 40),
)
def test_reassignment_converges_and_stays_within_its_limits(
    seed: int, partitions: int, limit: int, troubled: int
) -> None:
    """With an operator that is killed, foreign moves, and two operators that alternate."""
    controller = Controller(random.Random(seed), partitions)
    wanted = wanted_of(controller.rng, partitions, limit)
    for _ in range(troubled):
        before = controller.moving()
        reconcile(controller, wanted)
        assert controller.moving() <= max(limit, before)
        if controller.rng.random() < 0.2:
            key = controller.rng.choice(sorted(controller.partitions))
            controller.move(key, controller.some_replicas(), 1000)
        controller.some_arrive(0.3)
    for _ in range(CALM_LIMIT):
        step = reconcile(controller, wanted)
        if isinstance(step, Finished):
            break
        controller.some_arrive(0.5)
    assert isinstance(step, Finished), step
    lost = unreachable(wanted, controller)
    phase = ReassignmentPhase.FAILED if lost else ReassignmentPhase.COMPLETED
    assert step.phase is phase
    for target in wanted.targets:
        if target.partition not in lost:
            place = controller.partitions[target.topic, target.partition]
            assert (place.replicas, place.is_moving) == (target.replicas, False)
    sent = controller.sent
    for _ in range(3):
        assert reconcile(controller, wanted) == step, "it stays finished"
    assert controller.sent == sent


@SETTINGS
@given(seed=st.integers(0, 1 << 32), partitions=st.integers(1, 25), begun=st.integers(0, 10))
def test_cancelled_reassignment_reverts_its_moves_and_starts_none(
    seed: int, partitions: int, begun: int
) -> None:
    controller = Controller(random.Random(seed), partitions)
    wanted = wanted_of(controller.rng, partitions, 5)
    for _ in range(begun):
        reconcile(controller, wanted)
        controller.some_arrive(0.3)
    cancelled = Wanted(wanted.targets, wanted.max_moving, cancel=True)
    for _ in range(CALM_LIMIT):
        step = reconcile(controller, cancelled)
        assert not isinstance(step, BeginMoves | Await)
        if isinstance(step, Finished):
            break
    assert step == plan(cancelled, controller.observe(), tally(cancelled, controller.observe())), (
        "final"
    )
    assert isinstance(step, Finished)
    assert step.phase is ReassignmentPhase.CANCELLED
    assert controller.moving() == 0


@SETTINGS
@given(seed=st.integers(0, 1 << 32), partitions=st.integers(1, 25))
def test_paused_reassignment_starts_no_move_and_running_moves_complete(
    seed: int, partitions: int
) -> None:
    controller = Controller(random.Random(seed), partitions)
    wanted = wanted_of(controller.rng, partitions, 3)
    reconcile(controller, wanted)
    paused = Wanted(wanted.targets, 3, paused=True)
    moving = controller.moving()
    sent = controller.sent
    step = reconcile(controller, paused)
    assert isinstance(step, Await | Finished)
    assert (controller.moving(), controller.sent) == (moving, sent)


T0, T1 = Target("t", 0, (4, 2)), Target("t", 1, (3, 4))
HERE = PartitionReplicas((1, 2), (1, 2))
UNDER_WAY = PartitionReplicas((4, 2, 1), (1, 2), (4,), (1,))


def cluster(
    first: PartitionReplicas | None, second: PartitionReplicas | None = None, *, moving: int = 0
) -> Cluster:
    places = {("t", 0): first, ("t", 1): second}
    there = {key: place for key, place in places.items() if place is not None}
    return Cluster(there, {1: False, 2: False, 3: False, 4: True}, moving)


def planned(wanted: Wanted, seen: Cluster) -> Planned:
    found = tally(wanted, seen)
    return Planned(found, plan(wanted, seen, found), wanted.paused)


def test_reassignment_step_contains_its_preconditions() -> None:
    wanted = Wanted((T0, T1), 1)
    step = planned(wanted, cluster(HERE, HERE)).step
    assert isinstance(step, BeginMoves)
    (change,) = step.changes
    assert (change.replicas, change.expected, step.max_moving) == ((4, 2), (1, 2), 1)
    step = planned(Wanted((T0,), 1, cancel=True), cluster(UNDER_WAY, moving=1)).step
    assert isinstance(step, CancelMoves)
    assert (step.changes[0].replicas, step.changes[0].expected) == (None, (4, 2, 1))


def test_foreign_moves_count_towards_limits_and_are_not_changed() -> None:
    elsewhere = PartitionReplicas((3, 1, 2), (1, 2), (3,), (2,))
    wanted = Wanted((T0, T1), 1)
    outcome = planned(wanted, cluster(elsewhere, HERE, moving=1))
    assert outcome.found.elsewhere == (T0,)
    assert isinstance(outcome.step, Await)
    assert "by another client" in outcome.step.reason
    cancelled = planned(Wanted((T0,), 1, cancel=True), cluster(elsewhere, moving=1))
    assert isinstance(cancelled.step, Finished)


def test_status_names_the_broker_that_a_move_waits_for() -> None:
    wanted = Wanted((T0,), 5)
    seen = cluster(UNDER_WAY, moving=1)
    assert lagging(seen, (T0,)) == (4,)
    step = planned(wanted, seen).step
    assert "broker 4 (fenced" in step.reason


def test_status_counts_moves_and_names_impossible_ones() -> None:
    wanted = Wanted((T0, Target("t", 1, (9,))), 5)
    fresh = PartitionReassignmentStatus()
    now = build_status(
        planned(wanted, cluster(UNDER_WAY, HERE, moving=1)), fresh, total=2, generation=3, now=10.0
    )
    assert (now.phase, now.done, now.moving, now.waiting, now.failed) == ("Running", 0, 1, 0, 1)
    assert [(each.partition, each.reason) for each in now.problems] == [(1, "UnknownBroker")]
    conditions = {each.type: each for each in now.conditions}
    assert conditions["PartitionsRefused"].status == "True"
    assert "broker 9" in conditions["PartitionsRefused"].message
    assert conditions["Progressing"].status == "True"
    later = build_status(
        Held("NoLeader", "nobody leads", unreachable=True), now, total=2, generation=3, now=20.0
    )
    assert (later.phase, later.moving) == ("Running", 1), "the last known progress"
    reachable = {each.type: each.status for each in later.conditions}["QuorumReachable"]
    assert reachable == "False"
    arrived = PartitionReplicas((4, 2), (4, 2))
    last = build_status(
        planned(wanted, cluster(arrived, HERE)), later, total=2, generation=3, now=30.0
    )
    assert (last.phase, last.done, last.failed) == ("Failed", 1, 1)
    assert last.phase in FINAL
    assert (last.started_at, last.finished_at) == ("1970-01-01T00:00:10Z", "1970-01-01T00:00:30Z")


def test_list_of_problems_is_bounded_and_their_count_is_complete() -> None:
    targets = tuple(Target("none", number, (1,)) for number in range(1000))
    outcome = planned(Wanted(targets, 5), cluster(HERE))
    now = build_status(outcome, PartitionReassignmentStatus(), total=1000, generation=1, now=0.0)
    assert (len(now.problems), now.failed, now.phase) == (MAX_PROBLEMS, 1000, "Failed")
    assert len(now.model_dump_json()) < 10_000


def test_reassignment_is_polled_often_only_while_moves_can_progress() -> None:
    wanted = Wanted((T0,), 1)
    assert reassign._next(planned(wanted, cluster(UNDER_WAY, moving=1))) == Next(1.0)
    paused = Wanted((T0,), 1, paused=True)
    assert reassign._next(planned(paused, cluster(UNDER_WAY, moving=1))) == Next(1.0)
    resync = Next()
    assert reassign._next(planned(paused, cluster(HERE))) == resync
    assert reassign._next(Held("NoLeader", "nobody leads", unreachable=True)) == resync
    arrived = planned(paused, cluster(PartitionReplicas((4, 2), (4, 2))))
    assert reassign._next(arrived) == Next(0.0), "its end is written at once"


def test_reassignment_waits_for_its_turn() -> None:
    now = build_status(
        Held("WaitingForTurn", "first-one moves partitions of q first"),
        PartitionReassignmentStatus(),
        total=2,
        generation=1,
        now=0.0,
    )
    assert now.phase is ReassignmentPhase.PENDING
    assert now.started_at is None
