"""Without a leader an outdated member that runs and serves nobody is restarted for the corrected spec; no other one is."""

from dataclasses import replace

import pytest

from quorum_node.exit_codes import ExitCode
from quorum_operator.planner.harm import harm
from quorum_operator.planner.object_facts import NotMade, Refusal
from quorum_operator.planner.observed import (
    FailureLatch,
    HeldLog,
    HostFacts,
    Incarnation,
    Key,
    NodeReport,
    Observation,
    ReplicaView,
)
from quorum_operator.planner.plan import plan
from quorum_operator.planner.quorum_loss import QuorumLoss
from quorum_operator.planner.situation import Situation
from quorum_operator.planner.step import RestartMember, Step, Wait
from support.observed_quorum import NOW, observation_of, sound_member, sound_pod, view_of

VOTERS = frozenset(Key(n, f"u{n}") for n in (1, 2, 3))
LOG = HeldLog(3, 10, 9, 4, VOTERS)
DEAD = FailureLatch("StorageFailed", "exit code 74", NOW - 500, NOW - 500)


def member(
    node_id: int, role: str | None = "unattached", *, stale: bool = False, **pod: object
) -> Incarnation:
    """A member that runs without a leader. `role` None: it does not answer; `stale`: its pod has an old template."""
    report = NodeReport(f"u{node_id}", "c1", role, True, False, "ok", log=LOG) if role else None
    made = sound_pod(node_id, ready=False, restart_hash="old" if stale else "r")
    changed = replace(made, **pod)  # type: ignore[arg-type]
    return sound_member(node_id, pod=changed, report=report)


def leaderless(*members: Incarnation, **seen: object) -> Observation:
    """No majority has confirmed a leader for a minute."""
    found = observation_of(members, size=3, unconfirmed_since=NOW - 60, known_voters=3)
    return replace(found, **seen)  # type: ignore[arg-type]


def restarted(seen: Observation) -> str | None:
    """The pod that the plan restarts, also according to the last check; None if it waits."""
    step: Step = plan(seen)
    if isinstance(step, RestartMember):
        assert harm(Situation(seen), step) is None
        return step.pod
    assert isinstance(step, Wait), step
    return None


DEAD_FIRST = replace(member(1, None), failed=DEAD, replicas=0, stopped="StorageFailed", pod=None)
STUCK = member(3, None, stale=True)


@pytest.mark.parametrize("role", [None, "unattached", "candidate", "prospective", "resigned"])
def test_outdated_member_is_restarted_for_the_correction_that_brings_the_majority_back(
    role: str | None,
) -> None:
    """Its process runs, so the kubelet does not restart it; a disk failed before its correction came."""
    seen = leaderless(DEAD_FIRST, member(2), member(3, role, stale=True))
    assert restarted(seen) == "q-3-1-0"


def test_member_that_does_not_answer_is_restarted_first_and_then_one_at_a_time() -> None:
    second, third = member(2, stale=True), STUCK
    assert restarted(leaderless(member(1, stale=True), second, third)) == "q-3-1-0"
    for made_at, following in ((NOW - 29, None), (NOW - 31, "q-1-1-0")):
        again = member(3, created_at=made_at)
        assert restarted(leaderless(member(1, stale=True), second, again)) == following
    going = member(3, deleting=True)
    assert restarted(leaderless(member(1, stale=True), second, going)) is None
    gone = replace(member(3), pod=None)
    assert restarted(leaderless(member(1, stale=True), second, gone)) is None
    refused = replace(gone, not_made=NotMade("Forbidden", "quota"))
    assert restarted(leaderless(member(1, stale=True), second, refused)) == "q-1-1-0"
    for kept in ({"held_by": ("x/y",)}, {"ends_at": NOW - 60}):
        for role in ("unattached", None):
            pinned = member(3, role, deleting=True, **kept)
            assert restarted(leaderless(member(1, stale=True), second, pinned)) == "q-1-1-0"


def test_member_with_the_present_template_is_not_restarted() -> None:
    """It would come back as it was, and an election would wait for it. A process that hangs is the kubelet's."""
    assert restarted(leaderless(DEAD_FIRST, member(2), member(3, None))) is None


@pytest.mark.parametrize(
    ("third", "others"),
    [
        (member(3, "follower", stale=True), member(2)),
        (member(3, "leader", stale=True), member(2)),
        (member(3, stale=True, ready=True), member(2)),
        (STUCK, member(2, "leader")),
        (STUCK, member(2, "follower")),
        (STUCK, member(2, None, ready=True)),
        (replace(STUCK, host=HostFacts("h3", exists=True, ready=False)), member(2)),
    ],
)
def test_no_member_that_may_serve_is_restarted(third: Incarnation, others: Incarnation) -> None:
    """The operator may be the only one that does not reach the leader."""
    seen = leaderless(member(1), others, third)
    assert restarted(seen) is None
    step = RestartMember("q-3-1-0", "pod-3", 1, "", "")
    assert harm(Situation(seen), step) is not None


def test_nothing_is_restarted_during_an_election_or_when_a_leader_is_back() -> None:
    seen = leaderless(DEAD_FIRST, member(2), STUCK)
    step = plan(seen)
    assert isinstance(step, RestartMember)
    for since in (None, NOW - 10):
        short = replace(seen, unconfirmed_since=since)
        assert restarted(short) is None
        assert harm(Situation(short), step) == "no majority confirms a leader"
    live = tuple(ReplicaView(key, fetching=True, caught_up=True) for key in sorted(VOTERS))
    assert harm(Situation(replace(seen, view=view_of(live))), step) is not None
    assert harm(Situation(replace(seen, view=view_of(live[1:]))), step) is not None


def test_survivor_of_a_lost_majority_is_not_restarted() -> None:
    """It brings no leader back, and its log is what a recovery is offered from."""
    silent = replace(member(2, None), pod=None)
    survivor = member(3, stale=True)
    assert restarted(leaderless(DEAD_FIRST, silent, survivor)) is None
    away = replace(member(2, None), host=HostFacts("h2", exists=True, ready=False))
    assert restarted(leaderless(DEAD_FIRST, away, survivor)) is None
    newcomer = replace(member(4), node_id=4, name="q-4-1", uuid="u4")
    assert restarted(leaderless(DEAD_FIRST, silent, survivor, newcomer)) is None, "it has no vote"
    unknown = replace(survivor, report=None)
    assert restarted(leaderless(DEAD_FIRST, silent, unknown)) is None


def test_template_that_does_not_work_reaches_no_other_member() -> None:
    broken = member(2, None, running=False, waiting_reason="CrashLoopBackOff", exit_code=78)
    assert restarted(leaderless(member(1, stale=True), broken, STUCK)) is None
    full = member(2, None, running=False, exit_code=ExitCode.DISK_FULL)
    assert restarted(leaderless(member(1, stale=True), full, STUCK)) == "q-3-1-0", "not its fault"
    assert restarted(leaderless(member(1), broken, STUCK)) == "q-3-1-0", "it works elsewhere"
    step = plan(leaderless(member(1, stale=True), broken, STUCK))
    assert isinstance(step, Wait)
    assert "correct the spec; otherwise delete the pod of q-3-1 by hand" in step.blocked_by


@pytest.mark.parametrize(
    "edited",
    [{"runs_other": True}, {"outdated": True, "not_ready_since": NOW - 60}],
    ids=["another command", "another probe"],
)
@pytest.mark.parametrize("role", [None, "unattached"])
def test_pods_that_were_made_from_edited_templates_restart_one_by_one(
    role: str | None, edited: dict[str, object]
) -> None:
    """Their annotation names the program of the spec, which is not what they run."""
    seen = leaderless(*(member(n, role, **edited) for n in (1, 2, 3)))
    assert restarted(seen) == "q-1-1-0"
    assert restarted(replace(seen, incarnations=(member(1), *seen.incarnations[1:]))) == "q-2-1-0"
    broken = (member(1, None), *seen.incarnations[1:])
    assert restarted(replace(seen, incarnations=broken)) is None, "it does not work there"


@pytest.mark.parametrize("fault", [{"mount_failed_at": NOW - 5}, {"unusable_volume": "EIO"}])
def test_member_with_a_bad_disk_does_not_speak_against_the_template(
    fault: dict[str, object],
) -> None:
    """Without a leader its disk is not condemned either, so the others would wait for a person."""
    dead = member(2, None, running=False, waiting_reason="ContainerCreating", **fault)
    assert restarted(leaderless(member(1, stale=True), dead, STUCK)) == "q-3-1-0"
    runs = replace(dead, pod=replace(sound_pod(2, ready=False), mount_failed_at=NOW - 5))
    assert restarted(leaderless(member(1, stale=True), runs, STUCK)) is None, "it was mounted since"


def test_no_shorter_log_is_offered_for_a_recovery_while_a_member_restarts() -> None:
    """A user who accepts it would lose records that the restarting member has."""
    for pod, is_offered in (
        ({"deleting": True, "ends_at": NOW - 59}, False),
        ({"deleting": True, "ends_at": NOW - 60}, True),
        ({"created_at": NOW - 59}, False),
        ({"created_at": NOW - 59, "exit_code": 78}, True),
        ({"created_at": NOW - 61}, True),
    ):
        loss = QuorumLoss(Situation(leaderless(DEAD_FIRST, member(2), member(3, None, **pod))))
        assert (loss.offer is not None) is is_offered, (pod, loss.no_offer)
        assert is_offered or "q-3-1 is terminating, or was created just now" in (
            loss.no_offer or ""
        )
    away = replace(member(3, None, deleting=True), host=HostFacts("h3", exists=True, ready=False))
    assert QuorumLoss(Situation(leaderless(DEAD_FIRST, member(2), away))).offer is not None


def test_what_a_restart_waits_for_is_told() -> None:
    step = plan(leaderless(member(1), member(2, "leader"), STUCK))
    assert isinstance(step, Wait)
    assert "q-3-1 is to restart" in step.reason
    assert "q-2-1 has a leader" in step.blocked_by


def test_refused_restart_is_tried_again_later() -> None:
    refusal = Refusal("RestartMember", "Pod/q-3-1-0", "X", "no", NOW + 9, NOW, reported=True)
    seen = leaderless(DEAD_FIRST, member(2), STUCK, refusals=(refusal,))
    step = plan(seen)
    assert isinstance(step, Wait)
    assert step.retry_after_s <= 9
