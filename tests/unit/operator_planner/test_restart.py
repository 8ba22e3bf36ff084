"""Which pods are restarted, and that none is while the template it would be made from is not the wanted one."""

from dataclasses import replace

import pytest

from quorum_node.exit_codes import ExitCode
from quorum_operator.planner.harm import harm
from quorum_operator.planner.object_facts import Refusal, Templates
from quorum_operator.planner.observed import (
    HostFacts,
    Incarnation,
    Key,
    Observation,
    ReplicaView,
    Wanted,
)
from quorum_operator.planner.plan import plan
from quorum_operator.planner.situation import Situation
from quorum_operator.planner.step import Nothing, RestartMember, UpdateMember, Wait
from quorum_operator.planner.update_record import Revision, UpdateWanted
from support.observed_quorum import (
    MADE_AT,
    NOW,
    STORAGE,
    observation_of,
    sound_member,
    sound_pod,
    view_of,
)

CRASHED = {"ready": False, "running": False, "waiting_reason": "CrashLoopBackOff", "exit_code": 78}


def member(node_id: int, **pod: object) -> Incarnation:
    return sound_member(node_id, pod=sound_pod(node_id, **pod))


def observation(third: Incarnation, *, refused: bool = False, **seen: object) -> Observation:
    """Three voters; the update of the third's template is refused for now, or not."""
    members = (member(1), member(2), third)
    well = third.pod is not None and third.pod.ready
    voters = tuple(ReplicaView(Key(n, f"u{n}"), n < 3 or well, n < 3 or well) for n in (1, 2, 3))
    refusal = Refusal(
        "UpdateMember", "StatefulSet/q-3-1", "Conflict", "", NOW + 9, NOW, reported=False
    )
    found = observation_of(
        members,
        view_of(voters),
        wanted=Wanted(3, STORAGE, debounce_s=30.0),
        known_voters=3,
        refusals=(refusal,) if refused else (),
    )
    return replace(found, **seen)  # type: ignore[arg-type]


@pytest.mark.requirement("OP-01")
@pytest.mark.parametrize("pod", [{}, CRASHED], ids=["runs", "crashes"])
def test_no_pod_is_created_from_a_foreign_template(pod: dict[str, object]) -> None:
    changed = replace(
        member(3, outdated=True, runs_other=True, **pod), drift="spec.template.spec.containers"
    )
    assert isinstance(plan(observation(changed)), UpdateMember)
    assert not isinstance(plan(observation(changed, refused=True)), RestartMember)
    mended = plan(observation(replace(changed, drift=None)))
    assert isinstance(mended, RestartMember), "now it is made from the wanted one"


@pytest.mark.parametrize("fetches", [True, False])
def test_pod_of_a_replica_that_fetches_is_not_taken_for_one_that_can_t_start(fetches: bool) -> None:
    """The kubelet reports a start later than the leader, which receives its fetches."""
    starting = {"ready": False, "running": False, "waiting_reason": "ContainerCreating"}
    seen = observation(member(3, outdated=True, **starting))
    voters = tuple(
        ReplicaView(Key(n, f"u{n}"), n < 3 or fetches, n < 3 or fetches) for n in (1, 2, 3)
    )
    assert isinstance(plan(replace(seen, view=view_of(voters))), RestartMember) != fetches


def test_template_of_a_member_that_was_marked_as_stopped_by_hand_is_corrected() -> None:
    """Without a leader the mark stays, and with the old template the member could never become one."""
    marked = replace(member(3, **CRASHED), stopped="by-hand", template_hash="old")
    step = plan(observation(marked, view=None))
    assert isinstance(step, UpdateMember)
    assert step.target.name == "q-3-1"
    stopped = replace(marked, replicas=0)
    assert not isinstance(plan(observation(stopped, view=None)), UpdateMember)


def test_last_majority_is_kept_whatever_a_pod_reports() -> None:
    """The check before the step: the third replica fetches, and the second does not."""
    starting = {"ready": False, "running": False, "waiting_reason": "ContainerCreating"}
    seen = observation(member(3, **starting))
    voters = [ReplicaView(Key(n, f"u{n}"), n != 2, n != 2) for n in (1, 2, 3)]
    step = RestartMember("q-3-1-0", "pod-3", 1, "1", "")
    assert harm(Situation(replace(seen, view=view_of(voters))), step) is not None
    voters[2] = ReplicaView(Key(3, "u3"), False, False)
    assert harm(Situation(replace(seen, view=view_of(voters))), step) is None


def test_pod_that_may_not_use_its_volume_is_recreated_unless_it_is_new() -> None:
    """The kubelet sets owner and mode only for a new pod; they may have been changed by hand since."""
    refused = {**CRASHED, "exit_code": ExitCode.NO_PERMISSION}
    for age_s, recreated in ((3600.0, True), (60.0, True), (59.0, False), (1.0, False)):
        step = plan(observation(member(3, **refused, exit_at=MADE_AT + age_s)))
        assert isinstance(step, RestartMember) == recreated, age_s
        if isinstance(step, RestartMember):
            assert "may not use its volume" in step.reason
    for other in ({"exit_code": 78}, {"ready": True, "running": True, "waiting_reason": None}):
        well = plan(observation(member(3, **{**refused, **other}, exit_at=MADE_AT + 3600)))
        assert not isinstance(well, RestartMember)


@pytest.mark.requirement("OP-01")
def test_pod_that_crashed_with_a_replaced_configuration_is_recreated() -> None:
    """Its mounted files may be outdated: the kubelet does not read an immutable ConfigMap twice."""
    crashed = member(3, **CRASHED)
    for created_at in (MADE_AT + 5, MADE_AT):
        step = plan(observation(crashed, mounts_created_at=created_at))
        assert isinstance(step, RestartMember), "the order within one second is unknown"
        assert step.pod_uid == "pod-3"
    for created_at in (None, MADE_AT - 5, MADE_AT - 1):
        same = plan(observation(crashed, mounts_created_at=created_at))
        assert not isinstance(same, RestartMember)
    well = plan(observation(member(3), mounts_created_at=MADE_AT + 5))
    assert isinstance(well, Nothing), "one that runs has read what it needs"
    waits = member(3, ready=False, running=False, waiting_reason="ContainerCreating")
    assert not isinstance(plan(observation(waits, mounts_created_at=MADE_AT + 5)), RestartMember), (
        "it has not read any configuration yet"
    )


@pytest.mark.parametrize("other", [True, False], ids=["another is down", "alone"])
def test_member_that_serves_nothing_gets_the_corrected_configuration_first(other: bool) -> None:
    """Its process runs, so it is no pod that can't start; and all others wait until it is ready."""
    down = {"ready": False, "not_ready_since": NOW - 300}
    members = [member(n, **(down if n == 4 else {})) for n in range(1, 6)]
    if other:
        waits = sound_pod(5, ready=False, running=False, unschedulable="no host", restart_hash="r2")
        members[4] = replace(members[4], pod=waits, report=None)
    silent = (4, 5) if other else (4,)
    voters = [ReplicaView(Key(n, f"u{n}"), n not in silent, n not in silent) for n in range(1, 6)]
    templates = {each.name: Templates("t", "r2") for each in members}
    seen = observation_of(members, view_of(voters), templates=templates)
    step = plan(seen)
    assert isinstance(step, RestartMember), step
    assert step.pod == "q-4-1-0"
    assert harm(Situation(seen), step) is None
    fetching = [replace(each, fetching=True) if each.key.id == 4 else each for each in voters]
    step = plan(replace(seen, view=view_of(fetching)))
    assert isinstance(step, Wait if other else RestartMember), "the leader hears it"


@pytest.mark.parametrize("fetches", [True, False])
def test_new_member_that_serves_nothing_gets_the_corrected_configuration(fetches: bool) -> None:
    """Everything else waits until it has caught up, which it may never do with the earlier one."""
    new = member(4, ready=False, not_ready_since=NOW - 300)
    members = [member(1), member(2), member(3), new]
    voters = [ReplicaView(Key(n, f"u{n}"), True, True) for n in (1, 2, 3)]
    observers = (ReplicaView(Key(4, "u4"), fetches, False),)
    templates = {each.name: Templates("t", "r2") for each in members}
    view = view_of(voters, observers=observers)
    seen = observation_of(members, view, size=4, templates=templates)
    step = plan(seen)
    if fetches:
        assert isinstance(step, Wait), "it catches up"
        return
    assert isinstance(step, RestartMember), step
    assert step.pod == "q-4-1-0"
    assert harm(Situation(seen), step) is None


def _live(seen: Observation) -> Observation:
    """All voters are live, whatever the kubelets say."""
    voters = tuple(ReplicaView(Key(n, f"u{n}"), fetching=True, caught_up=True) for n in (1, 2, 3))
    return replace(seen, view=view_of(voters))


@pytest.mark.parametrize(
    ("pod", "restarts"),
    [
        ({}, True),
        ({"outdated": False}, False),
        ({"not_ready_since": NOW - 59}, False),
        ({"created_at": NOW - 59}, False),
        ({"ready": True}, False),
    ],
)
@pytest.mark.parametrize("live", [True, False])
def test_member_made_from_an_edited_template_is_restarted_if_it_stays_unready(
    pod: dict[str, object], restarts: bool, live: bool
) -> None:
    """Somebody edited a readiness probe or the name resolution, and deleted the pod before the template was corrected."""
    edited = {"ready": False, "outdated": True, "not_ready_since": NOW - 60}
    seen = observation(member(3, **{**edited, **pod}))
    step = plan(_live(seen) if live else seen)
    assert isinstance(step, RestartMember) is restarts
    if isinstance(step, RestartMember):
        assert step.pod == "q-3-1-0"
        assert "was made from another template" in step.reason
        assert harm(Situation(_live(seen) if live else seen), step) is None


def test_member_on_a_host_that_is_away_is_not_restarted_for_an_edited_template() -> None:
    away = HostFacts("h3", exists=True, ready=False)
    edited = member(3, ready=False, outdated=True, not_ready_since=NOW - 600)
    assert isinstance(plan(observation(edited)), RestartMember)
    seen = observation(replace(edited, host=away, report=None))
    assert not isinstance(plan(seen), RestartMember)


def test_unready_members_that_are_live_voters_restart_one_after_the_other() -> None:
    edited = {"ready": False, "outdated": True, "not_ready_since": NOW - 60}
    seen = _live(observation(member(3, **edited)))
    two = replace(seen, incarnations=(member(1), member(2, **edited), member(3, **edited)))
    step = plan(two)
    assert isinstance(step, RestartMember)
    assert step.pod == "q-2-1-0"
    starting = member(2, ready=False, created_at=NOW - 5)
    later = replace(seen, incarnations=(member(1), starting, member(3, **edited)))
    assert isinstance(plan(later), Wait)


def test_maintenance_window_does_not_hold_back_a_member_that_stays_unready() -> None:
    edited = {"ready": False, "outdated": True, "not_ready_since": NOW - 60}
    held = UpdateWanted(Revision("x", "{}"), 0, 0.0, 60.0, hold="spec.update.paused is set")
    seen = _live(observation(member(3, **edited), update=held))
    assert isinstance(plan(seen), RestartMember)
