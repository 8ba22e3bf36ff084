"""A formation begins again only if it can't be completed as it began, and only before anything can have been written."""

from dataclasses import replace

import pytest

from quorum_operator.planner.changed_formations import GRACE_S
from quorum_operator.planner.observed import (
    Identity,
    Incarnation,
    Key,
    NodeReport,
    Observation,
    QuorumView,
    ReplicaView,
    StorageChoice,
    Wanted,
)
from quorum_operator.planner.plan import plan
from quorum_operator.planner.step import CreateIdentity
from support.observed_quorum import NOW, STORAGE, observation_of, sound_member, sound_pod, view_of

OTHER = StorageChoice("1Gi", "other")
FORMING = NodeReport("u1", "c1", "leader", False, True, "ok")
FORMED = replace(FORMING, formed=True)
ALONE = view_of([ReplicaView(Key(1, "u1"), True, True)], formed=False, initial_voters=3)


def pending(node_id: int, **changes: object) -> Incarnation:
    """A member whose claim was never bound, so its pod never started."""
    found = sound_member(node_id, report=None, volume=None)
    assert found.claim is not None
    claim = replace(found.claim, phase="Pending", volume=None)
    pod = sound_pod(node_id, ready=False, running=False, started=False, phase="Pending")
    pod = replace(pod, unschedulable="0/1 nodes are available")
    return replace(found, claim=claim, pod=pod, **changes)  # type: ignore[arg-type]


def forming(
    *members: Incarnation,
    wanted: Wanted,
    view: QuorumView | None = None,
    formed: bool = False,
) -> Observation:
    identity = Identity(1, "c1", 1, "u1", 3, formed=formed)
    return observation_of(members, view, size=3, identities=(identity,), wanted=wanted)


def begins_again(seen: Observation) -> bool:
    step = plan(seen)
    if not isinstance(step, CreateIdentity):
        return False
    assert step.index == 2
    assert step.initial_voters == seen.wanted.replicas
    return True


MEMBERS = [pending(node_id) for node_id in (1, 2, 3)]


def test_other_storage_of_a_founder_that_never_ran() -> None:
    assert begins_again(forming(*MEMBERS, wanted=Wanted(3, OTHER)))
    assert not begins_again(forming(*MEMBERS, wanted=Wanted(3, STORAGE)))
    same = Wanted(3, StorageChoice("1024Mi", None))
    assert not begins_again(forming(*MEMBERS, wanted=same)), "the same size in other words"


FOUNDER = MEMBERS[0]
assert FOUNDER.claim is not None
assert FOUNDER.pod is not None


@pytest.mark.parametrize(
    "founder",
    [
        replace(FOUNDER, claim=replace(FOUNDER.claim, phase="Bound", volume="pv1")),
        replace(FOUNDER, claim=None),
        replace(FOUNDER, pod=replace(FOUNDER.pod, started=True)),
        replace(FOUNDER, report=FORMING),
    ],
)
def test_founder_that_may_have_run_keeps_its_formation(founder: Incarnation) -> None:
    assert not begins_again(forming(founder, *MEMBERS[1:], wanted=Wanted(3, OTHER)))


LEADS = sound_member(1, report=FORMING)


def test_fewer_voters_while_some_of_the_formation_can_not_start() -> None:
    assert begins_again(forming(LEADS, *MEMBERS[1:], wanted=Wanted(1, STORAGE), view=ALONE))
    assert begins_again(forming(*MEMBERS, wanted=Wanted(1, STORAGE)))
    for size in (3, 5):
        assert not begins_again(
            forming(LEADS, *MEMBERS[1:], wanted=Wanted(size, STORAGE), view=ALONE)
        )


def test_fewer_voters_do_not_end_a_formation_that_can_be_completed() -> None:
    starting = [
        sound_member(each, report=None, pod=sound_pod(each, ready=False)) for each in (2, 3)
    ]
    assert not begins_again(forming(LEADS, *starting, wanted=Wanted(1, STORAGE), view=ALONE))
    young = [
        replace(each, pod=replace(each.pod, created_at=NOW - GRACE_S + 1))
        for each in MEMBERS[1:]
        if each.pod is not None
    ]
    assert not begins_again(forming(LEADS, *young, wanted=Wanted(1, STORAGE), view=ALONE))


@pytest.mark.parametrize("wanted", [Wanted(3, OTHER), Wanted(1, STORAGE)])
def test_formed_quorum_never_begins_again(wanted: Wanted) -> None:
    assert not begins_again(forming(*MEMBERS, wanted=wanted, formed=True))
    reports = replace(MEMBERS[1], report=FORMED)
    assert not begins_again(forming(MEMBERS[0], reports, MEMBERS[2], wanted=wanted))
    done = replace(ALONE, formed=True)
    assert not begins_again(forming(LEADS, *MEMBERS[1:], wanted=wanted, view=done))


@pytest.mark.parametrize("wanted", [Wanted(3, OTHER), Wanted(1, STORAGE)])
def test_restore_and_invalid_spec_do_not_begin_again(wanted: Wanted) -> None:
    assert not begins_again(forming(*MEMBERS, wanted=replace(wanted, restores=True)))
    seen = forming(*MEMBERS, wanted=wanted)
    assert not begins_again(replace(seen, invalid="there is no StorageClass other"))
