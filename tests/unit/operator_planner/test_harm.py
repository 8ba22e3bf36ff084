"""The final check of a step: no plan removes a live majority, and no voter that fetches from the leader is stopped."""

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from quorum_operator.planner.evidence import CIRCUMSTANCES
from quorum_operator.planner.harm import harm, may_harm
from quorum_operator.planner.observed import (
    FailureLatch,
    Incarnation,
    Key,
    NodeReport,
    ReplicaView,
)
from quorum_operator.planner.situation import FENCED, Situation
from quorum_operator.planner.step import (
    DeleteIncarnation,
    LatchFailure,
    RemoveVoter,
    RestartMember,
    ScaleToZero,
    Step,
    Target,
    VotersPosition,
)
from support.model_rules import majority
from support.observed_quorum import NOW, observation_of, sound_member, sound_pod, view_of

pytestmark = pytest.mark.requirement("OP-07")
SETTINGS = settings(max_examples=400, deadline=None, derandomize=True)
STATES = ("live", "live", "live", "behind", "silent", "going", "gone", "waiting")
REASONS = (None, None, "StorageFailed", *sorted(CIRCUMSTANCES))


def member(node_id: int, state: str, reason: str | None) -> Incarnation:
    pod = sound_pod(
        node_id,
        NOW,
        ready=state == "live",
        running=state != "waiting",
        deleting=state == "going",
    )
    return sound_member(
        node_id,
        NOW,
        template_hash=None,
        failed=None if reason is None else FailureLatch(reason, "", NOW, NOW),
        pod=None if state == "gone" else pod,
        claim=None,
        volume=None,
        report=None,
    )


def situation(
    members: list[Incarnation], states: dict[int, str], voters: int, leader: int, pending: bool
) -> Situation:
    """The first `voters` members are the voters; a leader still counts a voter for a moment after it stopped."""
    replicas = [
        ReplicaView(
            Key(e.node_id, e.uuid or ""),
            states[e.node_id] not in {"silent", "waiting"},
            states[e.node_id] in {"live", "going", "gone"},
        )
        for e in members
    ]
    view = view_of(
        replicas[:voters],
        leader=Key(leader, f"u{leader}"),
        observers=tuple(replicas[voters:]),
        pending_change=pending,
        initial_voters=3,
    )
    return Situation(observation_of(members, view, size=3, templates={}))


def step_on(kind: str, each: Incarnation) -> Step:
    target = Target(each.name, each.uid, "1")
    if kind == "stop":
        return ScaleToZero(target, "left", "")
    if kind == "fence":
        return ScaleToZero(target, f"{FENCED}: x", "")
    if kind == "delete":
        return DeleteIncarnation(target, "")
    if kind == "remove":
        return RemoveVoter(Key(each.node_id, each.uuid or ""), VotersPosition(9, 3), "")
    return RestartMember(f"{each.name}-0", f"pod-{each.node_id}", 1, "1", "")


cases = st.lists(
    st.tuples(st.sampled_from(STATES), st.sampled_from(REASONS)), min_size=1, max_size=6
)


@SETTINGS
@given(
    drawn=cases,
    observers=st.integers(0, 2),
    kind=st.sampled_from(["stop", "fence", "delete", "remove", "restart"]),
    on=st.integers(1, 6),
    pending=st.booleans(),
)
def test_no_step_removes_a_live_majority(
    drawn: list[tuple[str, str | None]], observers: int, kind: str, on: int, pending: bool
) -> None:
    voters = max(len(drawn) - observers, 1)
    states = {n: state for n, (state, _) in enumerate(drawn, 1)}
    # A leader with a terminating pod leads until its process ends.
    leaders = [n for n, state in states.items() if n <= voters and state in {"live", "going"}]
    assume(leaders and on <= len(drawn))
    members = [member(n, *pair) for n, pair in enumerate(drawn, 1)]
    at = situation(members, states, voters, leaders[-1], pending)
    step = step_on(kind, members[on - 1])
    if harm(at, step) is not None:
        return
    live = {n for n, state in states.items() if n <= voters and state == "live"}
    rest = voters - (on <= voters and kind == "remove")
    enough = len(live) >= majority(voters)
    single = voters == 1 and kind == "restart"
    if enough and not single and on <= voters:
        assert len(live - {on}) >= majority(rest)
    if kind in {"stop", "fence", "delete"} and on <= voters:
        assert states[on] in {"silent", "waiting"}, "the leader receives its fetches"
        assert kind != "delete"
    if pending:
        # The leader itself refuses the removal of a replica that is no voter at the judged position.
        assert kind in {"restart", "remove"} or on <= voters, "the change may be about it"
        assert kind != "remove" or on > voters


@pytest.mark.parametrize("kind", ["stop", "delete", "remove", "restart"])
def test_no_step_without_a_confirmed_describe(kind: str) -> None:
    members = [member(n, "live", "StorageFailed" if n == 2 else None) for n in (1, 2, 3)]
    at = situation(members, dict.fromkeys((1, 2, 3), "live"), 3, 1, pending=False)
    unknown = Situation(replace(at.seen, view=None))
    assert harm(unknown, step_on(kind, members[1])) is not None
    assert harm(unknown, step_on("fence", members[1])) is None, (
        "a recovery was confirmed by the administrator"
    )
    assert harm(at, step_on("fence", members[1])) is not None, "a majority is back"


@pytest.mark.parametrize("reason", sorted(CIRCUMSTANCES))
@pytest.mark.parametrize(
    ("state", "confirmed", "refused"),
    [
        *[("silent", True, True), ("live", True, True), ("waiting", True, False)],
        *[("gone", True, True), ("waiting", False, True)],
    ],
)
def test_circumstance_that_ended_is_not_latched(
    reason: str, state: str, confirmed: bool, refused: bool
) -> None:
    """`silent`: its container runs again; `gone`: the former replica still fetches from the leader."""
    states = {1: "live", 2: "live", 3: state}
    members = [member(n, each, None) for n, each in states.items()]
    at = situation(members, states, 3, 1, pending=False)
    if not confirmed:
        at = Situation(replace(at.seen, view=None))
    step = LatchFailure(Target("q-3-1", "", "1"), FailureLatch(reason, "", NOW, NOW), "")
    assert may_harm(step)
    if reason == "HostDeleted" and state == "silent":
        refused = False  # a pod on a lost host is reported as running for a while
    assert (harm(at, step) is not None) == refused


def test_conclusive_failure_needs_no_recheck() -> None:
    latch = FailureLatch("StorageFailed", "", NOW, NOW)
    assert not may_harm(LatchFailure(Target("q-3-1", "", "1"), latch, ""))


@pytest.mark.parametrize("kind", ["stop", "fence", "delete", "latch"])
@pytest.mark.parametrize("noted", ["u9", "u2"])
def test_process_that_acts_as_a_voter_is_not_stopped_whatever_its_annotation_says(
    kind: str, noted: str
) -> None:
    """Its StatefulSet names a replica that is no voter, or that of another member."""
    members = [member(each, "live", None) for each in (1, 2, 3)]
    states = dict.fromkeys((1, 2, 3), "live")
    sound = situation(members, states, 3, 1, pending=False)
    report = NodeReport("u3", None, "follower", True, True, "ok")
    waits = replace(members[2], pod=sound_pod(3, NOW, ready=False, running=False))
    edited = replace(waits, uuid=noted, report=report)
    at = Situation(replace(sound.seen, incarnations=(members[0], members[1], edited)))
    latch = FailureLatch(min(CIRCUMSTANCES), "", NOW, NOW)
    target = Target(edited.name, edited.uid, "1")
    step = LatchFailure(target, latch, "") if kind == "latch" else step_on(kind, edited)
    assert harm(at, step) is not None
