"""The repair of a member does not wait for another member's, which is refused or can't be completed."""

from dataclasses import replace
from typing import Any

import pytest

from quorum_operator.planner.evidence import HOST_DELETED
from quorum_operator.planner.object_facts import Refusal
from quorum_operator.planner.observed import (
    FailureLatch,
    HostFacts,
    Incarnation,
    Key,
    Observation,
    ReplicaView,
)
from quorum_operator.planner.plan import plan
from quorum_operator.planner.step import (
    CreateMember,
    LatchFailure,
    RecordReplicaUuid,
    StartMember,
    Wait,
)
from support.observed_quorum import NOW, observation_of, sound_member, sound_pod, view_of

DEAD = FailureLatch("StorageFailed", "", NOW - 60, NOW - 60)
AWAY = FailureLatch(HOST_DELETED, "", NOW - 60, NOW - 60)


def refused(step: str, member: str) -> Refusal:
    return Refusal(step, f"StatefulSet/{member}", "AdmissionDenied", "", NOW + 30, NOW - 90, 9)


def seen_with(members: list[Incarnation], *silent: int, **changes: object) -> Observation:
    voters = [ReplicaView(Key(n, f"u{n}"), n not in silent, n not in silent) for n in range(1, 6)]
    return observation_of(members, view_of(voters), size=5, **changes)


def test_second_failed_disk_is_recorded_although_the_first_record_is_refused() -> None:
    exited: dict[str, Any] = {"ready": False, "running": False, "exit_code": 74}
    members = [
        sound_member(n, report=None, pod=sound_pod(n, **exited)) if n in (3, 4) else sound_member(n)
        for n in range(1, 6)
    ]
    seen = seen_with(members, 3, 4)
    step = plan(seen)
    assert isinstance(step, LatchFailure)
    assert step.target.name == "q-3-1"
    step = plan(replace(seen, refusals=(refused("LatchFailure", "q-3-1"),)))
    assert isinstance(step, LatchFailure)
    assert step.target.name == "q-4-1"


def test_second_annotation_is_restored_although_the_first_is_refused() -> None:
    lost: dict[str, Any] = {"notes_lost": frozenset({"uuid"})}
    members = [sound_member(n, **(lost if n in (3, 4) else {})) for n in range(1, 6)]
    seen = seen_with(members, refusals=(refused("RecordReplicaUuid", "q-3-1"),))
    step = plan(seen)
    assert isinstance(step, RecordReplicaUuid)
    assert step.target.name == "q-4-1"


def test_second_edited_mark_is_removed_although_the_first_removal_is_refused() -> None:
    members = [sound_member(n, **({"stopped": "x"} if n in (3, 4) else {})) for n in range(1, 6)]
    seen = seen_with(members, refusals=(refused("StartMember", "q-3-1"),))
    step = plan(seen)
    assert isinstance(step, StartMember)
    assert step.target.name == "q-4-1"


def successor(**changes: Any) -> Incarnation:
    """The stopped one of member 3, whose own host is back."""
    pod = sound_pod(3, ready=False, deleting=True, host="h9")
    made = sound_member(
        3, number=2, name="q-3-2", uid="uid-q-3-2", uuid="v3", replaces=1, replicas=0, report=None,
        stopped="not needed", pod=pod, host=HostFacts("h9", exists=True, ready=True),
    )  # fmt: skip
    return replace(made, **changes)


@pytest.mark.parametrize(
    ("stuck", "waits"),
    [
        (successor(), True),
        (successor(host=HostFacts("h9", exists=True, ready=False)), False),
        (
            successor(pod=sound_pod(3, ready=False, deleting=True, held_by=("example.com/x",))),
            False,
        ),
        (successor(pod=sound_pod(3, ready=False, deleting=True, ends_at=NOW - 60)), False),
    ],
    ids=["ends soon", "host away", "held back", "hangs"],
)
def test_end_of_a_successor_is_awaited_only_if_it_comes(stuck: Incarnation, waits: bool) -> None:
    """The disk of member 4 is dead meanwhile."""
    out: dict[str, Any] = {"replicas": 0, "report": None, "pod": None}
    members = [
        sound_member(1),
        sound_member(2),
        sound_member(3, failed=AWAY, stopped=AWAY.reason, **out),
        stuck,
        sound_member(4, failed=DEAD, stopped=DEAD.reason, **out),
        sound_member(5),
    ]
    seen = seen_with(members, 3, 4)
    step = plan(seen)
    if waits:
        assert isinstance(step, Wait)
        assert step.blocked_by == "q-3-1-0 must be gone"
        return
    assert isinstance(step, CreateMember)
    assert step.replaces == 1


def test_member_that_comes_back_gets_no_successor_although_a_step_is_refused() -> None:
    """Such as by a conflict with another client's change: the successor would be stopped again, and keep a volume."""
    out: dict[str, Any] = {"replicas": 0, "report": None, "pod": None}
    failed = sound_member(3, failed=AWAY, stopped=AWAY.reason, **out)
    members = [failed, *(sound_member(n) for n in (1, 2, 4, 5))]
    found = plan(seen_with(members, 3, refusals=(refused("Unlatch", "q-3-1"),)))
    assert isinstance(found, Wait), found
    assert found.reason.startswith("Unlatch of StatefulSet/q-3-1"), found
