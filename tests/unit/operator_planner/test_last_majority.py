"""Cases in which a live majority was one step from being lost, or in which nothing progressed."""

from dataclasses import replace

import pytest

from quorum_operator.planner.evidence import latch, proof
from quorum_operator.planner.harm import harm
from quorum_operator.planner.observed import (
    Incarnation,
    Key,
    Observation,
    ReplicaView,
    VolumeFacts,
    Wanted,
)
from quorum_operator.planner.plan import plan
from quorum_operator.planner.situation import Situation
from quorum_operator.planner.step import (
    CreateMember,
    DeleteIncarnation,
    RemoveVoter,
    RestartMember,
    ScaleToZero,
    Step,
    Target,
    TransferLeadership,
    VotersPosition,
    Wait,
)
from support.observed_quorum import NOW, STORAGE, observation_of, sound_member, sound_pod, view_of

pytestmark = pytest.mark.requirement("OP-07")


def member(node_id: int, *, restart_hash: str = "r", **pod: object) -> Incarnation:
    seen = sound_pod(node_id, NOW - 900, restart_hash=restart_hash, **pod)
    return sound_member(node_id, pod=seen)


def seen(*members: Incarnation, live: int | None = None, wanted: int | None = None) -> Observation:
    """The first member leads; `live`: how many voters, from the first, fetch from the leader."""
    size = len(members)
    received = size if live is None else live
    voters = tuple(
        ReplicaView(Key(n, f"u{n}"), n <= received, n <= received) for n in range(1, size + 1)
    )
    return observation_of(members, view_of(voters), wanted=Wanted(wanted or size, STORAGE))


def restart(node_id: int) -> RestartMember:
    return RestartMember(f"q-{node_id}-1-0", f"pod-{node_id}", 1, "", "")


@pytest.mark.parametrize("how", ["terminating", "gone"])
def test_no_follower_restarts_while_the_leader_pod_terminates(how: str) -> None:
    """A leader counts itself as live as long as its process answers."""
    leader = member(1, deleting=True) if how == "terminating" else replace(member(1), pod=None)
    at = Situation(seen(leader, member(2), member(3)))
    assert harm(at, restart(2)) is not None
    assert harm(Situation(seen(member(1), member(2), member(3))), restart(2)) is None


def test_no_live_voter_is_removed_while_the_leader_pod_terminates() -> None:
    """On the way to a single voter: of the two that remain the leader would be one."""
    members = (member(1, deleting=True), member(2), member(3))
    found = seen(*members, wanted=1)

    def remove(node_id: int) -> RemoveVoter:
        return RemoveVoter(Key(node_id, f"u{node_id}"), VotersPosition(9, 3), "")

    assert harm(Situation(found), remove(3)) is not None
    assert harm(Situation(seen(member(1), *members[1:], wanted=1)), remove(3)) is None
    dead = Situation(seen(members[0], member(2), member(3, ready=False), live=2))
    assert harm(dead, remove(3)) is None, "a dead voter was counted"


def stops_a_member(step: Step, name: str) -> bool:
    return isinstance(step, ScaleToZero | DeleteIncarnation) and step.target.name == name


@pytest.mark.parametrize("uuid", [None, "another"])
def test_member_that_may_be_a_heard_voter_is_not_stopped(uuid: str | None) -> None:
    """Its notes are gone or wrong, on its claim as well, and the operator does not reach its process. Another voter is down."""
    third = replace(member(3), uuid=uuid, report=None)
    found = seen(member(1), member(2, ready=False), third)
    assert found.view is not None
    voters = [replace(each, fetching=each.key.id != 2) for each in found.view.voters]
    voters = [replace(each, caught_up=each.fetching) for each in voters]
    found = replace(found, view=replace(found.view, voters=tuple(voters)))
    stop = ScaleToZero(Target("q-3-1", "uid-q-3-1", "1"), "left", "")
    assert harm(Situation(found), stop) is not None
    for _ in range(12):
        step = plan(found)
        assert not stops_a_member(step, "q-3-1"), step
        if not isinstance(step, CreateMember):
            break
        new_member = replace(
            member(step.node_id), number=step.number, name=f"q-{step.node_id}-{step.number}"
        )
        new_member = replace(new_member, uuid=None, report=None, replaces=step.replaces)
        found = replace(found, incarnations=(*found.incarnations, new_member))


def test_member_that_is_certainly_no_voter_is_stopped() -> None:
    observer = replace(member(4), uuid=None, report=None)
    found = seen(member(1), member(2), member(3))
    found = replace(found, incarnations=(*found.incarnations, observer))
    assert stops_a_member(plan(found), "q-4-1")


def failed(each: Incarnation) -> Incarnation:
    broken = replace(each, report=None, pod=None, replicas=0, stopped="StorageFailed")
    sign = proof(replace(each, volume=VolumeFacts("pv", phase="Failed")))
    assert sign is not None
    return replace(broken, failed=latch(sign, NOW))


def test_invalid_update_or_tls_spec_does_not_delay_a_repair() -> None:
    """Such as a maintenance window that can't be parsed: `spec.update` never delays a repair."""
    found = seen(member(1), member(2), failed(member(3)), live=2)
    wrong = replace(found, invalid="spec.update.windows: no such time zone")
    assert isinstance(plan(wrong), CreateMember)
    assert plan(wrong) == plan(found)
    grown = replace(wrong, wanted=replace(wrong.wanted, replicas=5))
    step = plan(grown)
    assert isinstance(step, CreateMember)
    assert (step.node_id, step.replaces) == (3, 1), "and a planned move waits"


def test_member_that_cannot_be_created_waits_for_a_valid_spec() -> None:
    found = seen(member(1), member(2), failed(member(3)), live=2)
    text = "there is no StorageClass 'x'"
    step = plan(replace(found, invalid=text, unmakeable=text))
    assert isinstance(step, Wait)
    assert step.reason == text


def test_two_specified_voters_restart_one_after_the_other() -> None:
    """As with a single voter: otherwise no restart would ever be possible."""
    found = seen(member(1, restart_hash="old"), member(2, restart_hash="old"))
    assert plan(found) == replace(restart(2), reason="q-2-1 runs an old image or configuration")
    assert harm(Situation(found), restart(2)) is None
    half = seen(member(1, restart_hash="old"), member(2))
    assert isinstance(plan(half), TransferLeadership)
    down = seen(member(1, restart_hash="old"), member(2, ready=False), live=1)
    assert isinstance(plan(down), Wait)


def test_two_voters_scaling_to_three_do_not_restart() -> None:
    found = seen(member(1, restart_hash="old"), member(2, restart_hash="old"), wanted=3)
    assert harm(Situation(found), restart(2)) is not None
