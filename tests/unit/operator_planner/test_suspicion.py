"""A disk is condemned by a circumstance only when the operator has seen it last, on one clock; by a proof, always."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorum_operator.planner.evidence import CIRCUMSTANCES
from quorum_operator.planner.observed import (
    ClaimFacts,
    FailureLatch,
    Incarnation,
    Key,
    NodeReport,
    Observation,
    PodFacts,
    ReplicaView,
    VolumeFacts,
    Wanted,
)
from quorum_operator.planner.plan import plan
from quorum_operator.planner.status import build_status
from quorum_operator.planner.step import LatchFailure, ScaleToZero, Step, Wait
from quorum_operator.resource_facts import suspicions
from quorum_operator.status_crd import MetadataQuorumStatus
from support.observed_quorum import NOW, STORAGE, observation_of, sound_member, view_of

SETTINGS = settings(max_examples=150, deadline=None, derandomize=True)
DEBOUNCE_S = 30.0
SIZES = st.sampled_from([3, 5])


def member(node_id: int, **changes: object) -> Incarnation:
    """Sound in every way."""
    return sound_member(node_id, NOW - 99_999, **changes)


def observation(
    members: list[Incarnation],
    *,
    now: float = NOW,
    silent: frozenset[int] = frozenset(),
    **wanted: object,
) -> Observation:
    """The leader is 1; all voters but the `silent` fetch from it."""
    voters = tuple(
        ReplicaView(Key(e.node_id, e.uuid or ""), e.node_id not in silent, e.node_id not in silent)
        for e in members
    )
    requested = replace(Wanted(len(members), STORAGE, debounce_s=DEBOUNCE_S), **wanted)  # type: ignore[arg-type]
    return observation_of(
        members, view_of(voters), now=now, wanted=requested, known_voters=len(members)
    )


@dataclass(frozen=True)
class Finding:
    """What one reconcile finds of member 3. `ago_s`: by the clocks of others, which may be wrong by minutes."""

    after_s: float
    shows: str | None
    pod: int
    in_contact: bool
    confirmed: bool
    ago_s: float


LOOKS = st.builds(
    Finding,
    after_s=st.sampled_from([0.5, 5.0, 12.0, 31.0]),
    shows=st.sampled_from([*["mount"] * 5, "host", "unusable", None]),
    pod=st.sampled_from([1, 1, 1, 1, 1, 2]),
    in_contact=st.sampled_from([False] * 7 + [True]),
    confirmed=st.sampled_from([True] * 7 + [False]),
    ago_s=st.sampled_from([0.0, 5.0, 170.0, -170.0]),
)


def third(look: Finding, now: float) -> Incarnation:
    """Member 3 in this observation; its pod reports that it has been waiting for very long."""
    pod = PodFacts(
        f"pod-{look.pod}",
        f"uid-{look.pod}",
        NOW - 99_999,
        ready=False,
        running=False,
        started=False,
        not_ready_since=NOW - 99_999,
        waiting_reason="ContainerCreating",
        mount_failed_at=now - look.ago_s if look.shows == "mount" else None,
        unusable_volume="input/output error" if look.shows == "unusable" else None,
        restart_hash="r",
    )
    volume = VolumeFacts("pv3", hosts=("h3",), hosts_exist=look.shows != "host")
    return member(3, pod=pod, report=None, volume=volume)


@pytest.mark.requirement("OP-04")
@SETTINGS
@given(st.lists(LOOKS, min_size=2, max_size=14), SIZES)
def test_no_latch_without_a_failure_that_was_observed_to_last(
    looks: list[Finding], size: int
) -> None:
    """The operator is restarted between any two observations: only the status persists."""
    now, status = NOW, MetadataQuorumStatus()
    since: tuple[object, float] | None = None  # what shows, and since when it was seen to
    for look in looks:
        now += look.after_s
        members = [third(look, now) if n == 3 else member(n) for n in range(1, size + 1)]
        silent = frozenset() if look.in_contact else frozenset({3})
        seen = observation(members, now=now, silent=silent)
        if not look.confirmed:
            seen = replace(seen, view=None)
        sign = (look.shows, None if look.shows == "host" else look.pod)
        if look.shows is None or (look.in_contact and look.confirmed):
            since = None
        elif since is None or since[0] != sign:
            since = (sign, now) if look.confirmed else None
        step, status = reconciled(seen, status)
        assert not isinstance(step, ScaleToZero)
        if isinstance(step, LatchFailure):
            assert step.target.name == "q-3-1"
            assert look.confirmed
            assert since is not None
            assert now - since[1] >= DEBOUNCE_S
            return
        lasted = since is not None and now - since[1] >= DEBOUNCE_S + 1
        assert not (lasted and look.confirmed), "a lasting failure was ignored"


def reconciled(
    seen: Observation, status: MetadataQuorumStatus
) -> tuple[Step, MetadataQuorumStatus]:
    """One reconcile of an operator without memory except the status."""
    known = suspicions(status, seen.now)
    seen = replace(
        seen,
        incarnations=tuple(
            replace(each, suspected=known.get((each.node_id, each.number)))
            for each in seen.incarnations
        ),
    )
    step = plan(seen)
    text = build_status(seen, step, status, "").model_dump_json(by_alias=True)
    return step, MetadataQuorumStatus.model_validate_json(text)


PROOFS = {
    "StorageFailed": {
        "pod": PodFacts("p", "u", NOW, ready=False, exit_code=74, restart_hash="r"),
        "report": None,
    },
    "reported": {"report": NodeReport("u3", "c1", "follower", True, True, "failed", "EIO")},
    "VolumeFailed": {"volume": VolumeFacts("pv3", phase="Failed")},
    "VolumeLost": {"claim": ClaimFacts("c", "c", phase="Lost")},
}


@pytest.mark.requirement("OP-04")
@SETTINGS
@given(
    proof=st.sampled_from(sorted(PROOFS)),
    received=st.booleans(),
    paused=st.booleans(),
    enabled=st.booleans(),
    cap=st.integers(0, 2),
)
def test_conclusive_failure_always_latches(
    proof: str, received: bool, paused: bool, enabled: bool, cap: int
) -> None:
    members = [member(1), member(2), member(3, **PROOFS[proof])]
    seen = observation(
        members,
        silent=frozenset() if received else frozenset({3}),
        paused=paused,
        repair_enabled=enabled,
        max_replacements_per_hour=cap,
    )
    for each in (seen, replace(seen, view=None)):
        step = plan(each)
        assert isinstance(step, LatchFailure)
        assert step.latch.reason not in CIRCUMSTANCES


HOST_GONE = VolumeFacts("pv", hosts=("h",), hosts_exist=False)


def lasted(each: Incarnation) -> Incarnation:
    """With the status of an operator that has watched it for an hour."""
    seen = observation([member(1), member(2), each], silent=frozenset({3}))
    _, status = reconciled(replace(seen, now=NOW - 3600), MetadataQuorumStatus())
    return replace(each, suspected=suspicions(status, NOW).get((each.node_id, each.number)))


DOWN = lasted(member(3, pod=None, report=None, volume=HOST_GONE))


def test_circumstance_that_lasted_an_hour_latches() -> None:
    assert isinstance(
        plan(observation([member(1), member(2), DOWN], silent=frozenset({3}))), LatchFailure
    )


@pytest.mark.requirement("OP-04")
@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({"repair_enabled": False}, "repair.enabled"),
        ({"max_replacements_per_hour": 0}, "repair.maxReplacementsPerHour"),
    ],
)
def test_disallowed_replacement_prevents_a_latch_and_the_plan_gives_the_reason(
    wanted: dict[str, object], why: str
) -> None:
    step = plan(observation([member(1), member(2), DOWN], silent=frozenset({3}), **wanted))
    assert isinstance(step, Wait)
    assert "HostDeleted" in step.reason
    assert why in step.blocked_by


def test_paused_quorum_latches_no_circumstance() -> None:
    seen = observation([member(1), member(2), DOWN], silent=frozenset({3}), paused=True)
    assert not isinstance(plan(seen), LatchFailure)


@pytest.mark.requirement("OP-04")
@SETTINGS
@given(
    latched=st.integers(0, 3),
    unlatched=st.integers(0, 3),
    replaced=st.integers(0, 2),
    old=st.booleans(),
)
def test_each_failure_of_the_last_hour_counts_once_against_the_limit(
    latched: int, unlatched: int, replaced: int, old: bool
) -> None:
    """Also those that nothing has replaced yet, and those that were taken back."""
    at = NOW - (3601 if old else 600)
    gone = [
        member(
            node_id,
            failed=FailureLatch("StorageFailed", "", at, at),
            replicas=0,
            stopped="x",
            pod=None,
            report=None,
        )
        for node_id in range(10, 10 + latched)
    ]
    replacements = [
        member(node_id, number=2, name=f"q-{node_id}-2", created_at=at, replaces=1)
        for node_id in range(10, 10 + min(replaced, latched))
    ]
    second = member(2, unlatched_at=(at,) * unlatched)
    seen = observation(
        [member(1), second, DOWN], silent=frozenset({3}), max_replacements_per_hour=3
    )
    seen = replace(seen, incarnations=(*seen.incarnations, *gone, *replacements))
    expected = old or latched + unlatched < 3
    assert isinstance(plan(seen), LatchFailure) == expected


@pytest.mark.requirement("OP-07")
@SETTINGS
@given(
    size=SIZES,
    latched=st.frozensets(st.integers(1, 5)),
    silent=st.frozensets(st.integers(2, 5)),
    reason=st.sampled_from([*sorted(CIRCUMSTANCES), "StorageFailed", "VolumeLost"]),
    enabled=st.booleans(),
)
def test_voter_that_the_leader_hears_is_not_stopped(
    size: int, latched: frozenset[int], silent: frozenset[int], reason: str, enabled: bool
) -> None:
    """Whatever the sign, for any number of members at once: what is planned is the replacement."""
    mark = FailureLatch(reason, "", NOW, NOW)
    members = [
        member(n, volume=HOST_GONE, failed=mark if n in latched else None)
        for n in range(1, size + 1)
    ]
    step = plan(observation(members, silent=silent, repair_enabled=enabled))
    if isinstance(step, ScaleToZero):
        node_id = int(step.target.name.split("-")[1])
        assert node_id in latched & silent
        assert enabled or reason not in CIRCUMSTANCES
