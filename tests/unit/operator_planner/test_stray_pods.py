"""Pods whose StatefulSet was deleted with --cascade=orphan: ended unless their replica is a voter, or may be one."""

from dataclasses import replace

import pytest

from quorum_node.survivor import parse_survivor
from quorum_operator.planner.harm import harm, may_harm
from quorum_operator.planner.observed import (
    ClaimFacts,
    Confirmation,
    Key,
    LoneClaim,
    Marks,
    Observation,
    ReplicaView,
    StrayPod,
    TargetVoter,
)
from quorum_operator.planner.plan import plan
from quorum_operator.planner.situation import Situation
from quorum_operator.planner.step import (
    DeleteStrayPod,
    GuardDrains,
    Nothing,
    RebuildMember,
    ScaleToZero,
    Wait,
)
from support.observed_quorum import (
    STORAGE,
    observation_of,
    sound_member,
    sound_pod,
    view_of,
)

MEMBERS = [sound_member(node_id) for node_id in (1, 2, 3)]
VOTERS = [ReplicaView(Key(node_id, f"u{node_id}"), True, True) for node_id in (1, 2, 3)]
VIEW = view_of(VOTERS)


def stray(node_id: int, number: int = 2, **changes: object) -> StrayPod:
    name = f"q-{node_id}-{number}-0"
    return StrayPod(
        node_id, number, sound_pod(node_id, name=name, uid=f"stray-{node_id}", **changes)
    )


def lone(node_id: int, number: int = 2, uuid: str | None = "other") -> LoneClaim:
    name = f"q-{node_id}-{number}"
    marks = Marks(uuid=uuid, cluster_id="c1", resource_uid="", formation=1)
    claim = ClaimFacts(f"data-{name}-0", f"uid-{name}", "Bound", marks=marks)
    return LoneClaim(node_id, number, name, claim, STORAGE, in_use=True)


def seen(*strays: StrayPod, claims: tuple[LoneClaim, ...] = (), **changes: object) -> Observation:
    found = observation_of(MEMBERS, VIEW, stray_pods=strays, lone_claims=claims)
    return replace(found, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("node_id", [3, 4])
@pytest.mark.parametrize("uuid", ["other", None])
def test_pod_of_a_replica_that_is_no_voter_is_deleted(node_id: int, uuid: str | None) -> None:
    found = seen(stray(node_id), claims=(lone(node_id, uuid=uuid),))
    step = plan(found)
    assert isinstance(step, DeleteStrayPod), step
    assert (step.pod, step.pod_uid) == (f"q-{node_id}-2-0", f"stray-{node_id}")
    assert may_harm(step)
    assert harm(Situation(found), step) is None


def test_pod_that_is_being_deleted_is_not_deleted_again() -> None:
    assert isinstance(plan(seen(stray(4, deleting=True))), Nothing)


def test_set_of_a_voter_is_created_again_and_its_pod_stays() -> None:
    claims = (lone(3, 1, "u3"),)
    found = seen(stray(3, 1), claims=claims, incarnations=tuple(MEMBERS[:2]))
    assert isinstance(plan(found), RebuildMember)
    step = DeleteStrayPod("q-3-1-0", "stray-3", "")
    assert "voter 3" in (harm(Situation(found), step) or "")


def test_pod_that_may_be_a_voter_is_never_deleted() -> None:
    """Nothing tells its UUID, and nobody else is the voter of its id."""
    found = seen(stray(3, 1), incarnations=tuple(MEMBERS[:2]))
    step = DeleteStrayPod("q-3-1-0", "stray-3", "")
    assert not isinstance(plan(found), DeleteStrayPod)
    assert "voter 3" in (harm(Situation(found), step) or "")


@pytest.mark.parametrize(
    ("view", "says"),
    [
        (None, "no majority"),
        (replace(VIEW, pending_change=True), "uncommitted"),
        (replace(VIEW, voters_committed=False), "uncommitted"),
        (replace(VIEW, target_voters=(TargetVoter(4),)), "target voter"),
        (view_of([*VOTERS, ReplicaView(Key(4, "other"), True, True)]), "voter 4"),
    ],
)
def test_pod_is_not_deleted_now(view: object, says: str) -> None:
    found = seen(stray(4), claims=(lone(4),), view=view)
    assert not isinstance(plan(found), DeleteStrayPod)
    step = DeleteStrayPod("q-4-2-0", "stray-4", "")
    assert says in (harm(Situation(found), step) or "")


def test_drain_counts_the_ready_pods_without_a_stateful_set() -> None:
    """The budget of a drain selects them, too: without them a drain could take the majority."""
    three = seen(drain_floor=2)
    assert not isinstance(plan(three), GuardDrains)
    step = plan(seen(stray(4), claims=(lone(4),), drain_floor=2))
    assert isinstance(step, GuardDrains)
    assert step.least_ready == 3
    claims = (lone(3, 1, "u3"),)
    voter = seen(stray(3, 1), claims=claims, incarnations=tuple(MEMBERS[:2]), drain_floor=2)
    assert not isinstance(plan(voter), GuardDrains), "it counts among the voters"


SURVIVOR = parse_survivor("AAAAAAAAAAAAAAAAAAAAAQ:4:10")
UUID = "AAAAAAAAAAAAAAAAAAAAAQ"


def recovering(*strays: StrayPod) -> Observation:
    """The recovery from member 1 is under way; member 2 was stopped before."""
    survivor = replace(
        MEMBERS[0], uuid=UUID, recovery=SURVIVOR, pod=sound_pod(1, ready=False), report=None
    )
    found = observation_of([survivor], size=3, stray_pods=strays, resource_uid="r")
    accepted = Confirmation(1, UUID, 4, 10)
    return replace(found, wanted=replace(found.wanted, recovery=accepted))


def test_recovery_ends_the_pods_of_old_voters_before_the_survivor_restarts() -> None:
    found = recovering(stray(2, 1), stray(3, 1))
    step = plan(found)
    assert isinstance(step, DeleteStrayPod), step
    assert step.pod == "q-2-1-0"
    assert harm(Situation(found), step) is None
    waits = plan(recovering(stray(2, 1, deleting=True), stray(3, 1, deleting=True)))
    assert isinstance(waits, Wait)
    assert "q-2-1-0" in (waits.blocked_by or "")
    assert "q-3-1-0" in (waits.blocked_by or "")
    assert not isinstance(plan(recovering()), DeleteStrayPod | ScaleToZero)


def test_pod_of_the_survivor_is_not_ended() -> None:
    found = recovering(stray(1, 1))
    assert not isinstance(plan(found), DeleteStrayPod)
    assert harm(Situation(found), DeleteStrayPod("q-1-1-0", "stray-1", "")) is not None


def test_recovery_that_is_no_longer_accepted_ends_no_pod() -> None:
    found = recovering(stray(2, 1))
    found = replace(found, wanted=replace(found.wanted, recovery=None))
    assert not isinstance(plan(found), DeleteStrayPod)
    assert "no majority" in (harm(Situation(found), DeleteStrayPod("q-2-1-0", "stray-2", "")) or "")
