"""Members that must run on different hosts: a planned move without a free host does not start, and a repair continues."""

import random
from collections import Counter
from dataclasses import replace

import pytest

from quorum_operator.planner.conditions import PLACEMENT_BLOCKED
from quorum_operator.planner.host_capacity import HostCapacity
from quorum_operator.planner.object_facts import Templates
from quorum_operator.planner.observed import (
    ClaimFacts,
    Incarnation,
    Observation,
    PodFacts,
    StorageChoice,
    VolumeFacts,
    Wanted,
)
from quorum_operator.planner.placement import shortage
from quorum_operator.planner.plan import plan
from quorum_operator.planner.situation import Situation
from quorum_operator.planner.status import build_status
from quorum_operator.planner.step import (
    CreateMember,
    DeleteIncarnation,
    Nothing,
    RestartMember,
    ScaleToZero,
    Step,
    Wait,
)
from quorum_operator.status_crd import Condition, MetadataQuorumStatus
from support.quorum_model import STORAGE, Model

pytestmark = pytest.mark.requirement("OP-06")

OTHER = StorageChoice("2Gi", "other")
HOSTS = ("h1", "h2", "h3", "h4", "h5")


class Placed:
    """A model with pods placed on `hosts` by a scheduler that never puts two members on one."""

    def __init__(self, hosts: int, replicas: int = 3) -> None:
        self.model = Model(random.Random(5), Wanted(replicas, STORAGE))
        self.hosts = HOSTS[:hosts]
        self.of_pod: dict[str, str] = {}
        self.steps: list[Step] = []

    def observe(self) -> Observation:
        seen = self.model.observe()
        pods = {each.pod.uid for each in seen.incarnations if each.pod is not None}
        self.of_pod = {uid: host for uid, host in self.of_pod.items() if uid in pods}
        members = tuple(map(self._placed, seen.incarnations))
        rooms = tuple(HostCapacity(each, each) for each in self.hosts)
        return replace(seen, incarnations=members, host_capacities=rooms)

    def _placed(self, each: Incarnation) -> Incarnation:
        pod, each = each.pod, replace(each, volume=None)  # on a volume that any host can mount
        if pod is None:
            return each
        free = [host for host in self.hosts if host not in self.of_pod.values()]
        if pod.uid not in self.of_pod and free:
            self.of_pod[pod.uid] = free[0]
        host = self.of_pod.get(pod.uid)
        if host is None:
            self.model.sets[each.name].pod.up_at = self.model.now + 5.0  # type: ignore[union-attr]
            waits = replace(pod, running=False, ready=False, unschedulable="no host is free")
            return replace(each, pod=waits, report=None)
        return replace(each, pod=replace(pod, host=host))

    def step(self) -> Step:
        self.model.tick(0.5)
        step = plan(self.observe())
        self.steps.append(step)
        self.model.apply(step)
        return step

    def until_settled(self, limit: int = 600) -> None:
        for _ in range(limit):
            step = self.step()
            model = self.model
            if isinstance(step, Nothing) and len(model.live()) == model.wanted.replicas:
                return
        raise AssertionError(f"it does not settle: {self.steps[-1]}")

    def wants(self, **changes: object) -> None:
        self.model.wanted = replace(self.model.wanted, **changes)  # type: ignore[arg-type]

    def created(self) -> list[CreateMember]:
        return [each for each in self.steps if isinstance(each, CreateMember)]


def formed(hosts: int, replicas: int = 3) -> Placed:
    placed = Placed(hosts, replicas)
    placed.until_settled()
    placed.steps.clear()
    return placed


def condition(seen: Observation) -> Condition:
    status = build_status(seen, plan(seen), MetadataQuorumStatus(), "")
    return next(each for each in status.conditions if each.type == PLACEMENT_BLOCKED)


MOVES = {
    "other storage": {"storage": OTHER},
    "a retired member": {"retire": frozenset({2})},
    "more voters": {"replicas": 5},
}


@pytest.mark.parametrize("change", MOVES.values(), ids=MOVES)
def test_planned_move_without_a_free_host_is_delayed_with_a_reason(
    change: dict[str, object],
) -> None:
    placed = formed(3)
    assert condition(placed.observe()).status == "False"
    placed.wants(**change)
    for _ in range(20):
        step = placed.step()
        assert isinstance(step, Wait), step
        assert "spec.spread is Required" in step.blocked_by
    reported = condition(placed.observe())
    assert (reported.status, reported.reason) == ("True", "TooFewHosts")
    assert "h1, h2, h3" in reported.message
    assert len(placed.model.sets) == 3, "an object was created without the other"


@pytest.mark.parametrize("change", MOVES.values(), ids=MOVES)
def test_delayed_move_continues_when_hosts_are_added_and_is_dropped_when_reverted(
    change: dict[str, object],
) -> None:
    placed = formed(3)
    before = placed.model.wanted
    placed.wants(**change)
    placed.step()
    placed.model.wanted = before
    placed.until_settled()
    assert placed.created() == []
    placed.wants(**change)
    placed.step()
    placed.hosts = HOSTS
    placed.until_settled()
    assert placed.created()
    assert condition(placed.observe()).status == "False"


def test_one_spare_host_suffices_to_move_all_members_one_after_the_other() -> None:
    """Each host is free for the next one only when who has left it is stopped, in the middle of the move."""
    placed = formed(4)
    placed.wants(storage=OTHER)
    placed.until_settled()
    assert len(placed.created()) == 3
    assert len(set(placed.of_pod.values())) == len(placed.of_pod)
    stops = [each for each in placed.steps if isinstance(each, ScaleToZero | DeleteIncarnation)]
    assert placed.steps.index(stops[0]) < placed.steps.index(placed.created()[-1])


def test_additional_members_are_created_all_or_none() -> None:
    """One of two would wait for the other one for ever."""
    placed = formed(4)
    placed.wants(replicas=5)
    for _ in range(20):
        placed.step()
    assert placed.created() == []
    found = shortage(Situation(placed.observe()))
    assert found is not None
    assert (found.wanted, found.free) == (2, 1)


@pytest.mark.parametrize("also", [{}, {"storage": OTHER}], ids=["alone", "while a move is held"])
def test_failed_member_is_replaced_on_its_own_host(also: dict[str, object]) -> None:
    placed = formed(3)
    placed.wants(**also)
    for _ in range(5):
        placed.step()
    assert placed.created() == []
    failed = placed.model.sets["q-2-1"]
    failed.disk.state = "failed"
    for _ in range(200):
        placed.step()
        created = placed.created()
        if created and len(placed.model.live()) == len(placed.model.current_voters()) == 3:
            break
    else:
        raise AssertionError(placed.steps[-1])
    assert [(each.node_id, each.number, each.replaces) for each in placed.created()] == [(2, 2, 1)]
    assert condition(placed.observe()).status == ("True" if also else "False")


@pytest.mark.parametrize(
    ("wants", "expected"),
    [
        ({"retire": frozenset({2})}, {4: "q-2-1"}),
        ({"retire": frozenset({1, 3})}, {4: "q-1-1", 5: "q-3-1"}),
        ({"storage": OTHER}, {1: "q-1-1", 2: "q-2-1", 3: "q-3-1"}),
        ({"replicas": 5}, {4: None, 5: None}),
    ],
    ids=["one retired", "two retired", "other storage", "more voters"],
)
def test_new_member_knows_whose_place_it_takes(
    wants: dict[str, object], expected: dict[int, str | None]
) -> None:
    placed = formed(9)
    placed.wants(**wants)
    placed.until_settled(2000)
    created = placed.created()
    assert sorted(each.node_id for each in created) == list(expected)
    assert Counter(each.predecessor for each in created) == Counter(expected.values())
    if "storage" in wants:
        assert {each.node_id: each.predecessor for each in created} == expected


def test_successor_of_a_failed_member_takes_its_place() -> None:
    placed = formed(9)
    placed.model.sets["q-2-1"].disk.state = "failed"
    placed.until_settled(2000)
    assert [(each.node_id, each.predecessor) for each in placed.created()] == [(2, "q-2-1")]


def test_other_due_steps_run_while_a_move_is_delayed() -> None:
    """Such as the restart for another image."""
    placed = formed(3)
    placed.wants(storage=OTHER)
    placed.model.restart_hash = "r1"
    for _ in range(200):
        placed.step()
    restarted = {each.pod for each in placed.steps if isinstance(each, RestartMember)}
    assert len(restarted) == 3
    assert placed.created() == []
    assert isinstance(placed.steps[-1], Wait)


def test_no_move_is_delayed_when_members_may_share_hosts_or_hosts_are_unknown() -> None:
    placed = formed(3)
    placed.wants(storage=OTHER)
    seen = replace(placed.observe(), host_capacities=None)
    assert isinstance(plan(seen), CreateMember)
    assert condition(seen).status == "False"


def member(node_id: int, **changes: object) -> Incarnation:
    name = f"q-{node_id}-1"
    each = Incarnation(node_id, 1, name, f"uid-{node_id}", "1", 0.0, 1, STORAGE, uuid=f"u{node_id}")
    return replace(
        each,
        pod=PodFacts(f"{name}-0", f"pod-{node_id}", 0.0, host=f"h{node_id}"),
        claim=ClaimFacts(f"data-{name}-0", "c", volume=f"pv{node_id}"),
        volume=VolumeFacts(f"pv{node_id}", hosts=(f"h{node_id}",)),
        template_hash="t",
        **changes,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("third", "free"),
    [
        (lambda each: each, 1),
        # It restarts, and is scheduled to the host of its volume.
        (lambda each: replace(each, pod=None), 1),
        # It restarts, and may come to any host.
        (lambda each: replace(each, pod=None, volume=VolumeFacts("pv3")), 1),
        (lambda each: replace(each, pod=replace(each.pod, host=None), volume=None), 1),
        (lambda each: replace(each, pod=replace(each.pod, deleting=True)), 1),
        # It is stopped, and its pod ends.
        (lambda each: replace(each, replicas=0, pod=replace(each.pod, deleting=True)), 2),
        (lambda each: replace(each, replicas=0), 1),
        (lambda each: replace(each, replicas=0, pod=None), 2),
    ],
)
def test_host_is_occupied_by_running_and_returning_members(third: object, free: int) -> None:
    placed = formed(3)
    seen = placed.observe()
    moved = third(member(3))  # type: ignore[operator]
    seen = replace(
        seen,
        incarnations=(member(1), member(2), moved),
        wanted=replace(seen.wanted, replicas=9),
        templates={f"q-{n}-1": Templates("t", "r") for n in (1, 2, 3)},
        host_capacities=tuple(HostCapacity(name, name) for name in HOSTS[:4]),
    )
    found = shortage(Situation(seen))
    assert found is not None
    assert found.free == free
