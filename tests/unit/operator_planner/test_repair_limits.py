"""What limits and switches of repairs don't hold back: other new members, and what the spec asks for by name."""

from dataclasses import replace
from typing import Any

import pytest

from quorum_operator.planner.observed import (
    FailureLatch,
    Incarnation,
    Key,
    Observation,
    ReplicaView,
)
from quorum_operator.planner.plan import plan
from quorum_operator.planner.step import CreateMember, Nothing, RemoveVoter, Step, Wait
from support.observed_quorum import NOW, observation_of, sound_member, view_of


def _dead(node_id: int) -> Incarnation:
    latch = FailureLatch("StorageFailed", "x", NOW, NOW)
    changes: dict[str, Any] = {
        "failed": latch,
        "stopped": latch.reason,
        "replicas": 0,
        "pod": None,
        "report": None,
    }
    return sound_member(node_id, **changes)


def _seen(members: list[Incarnation], gone: int, **wanted: object) -> Observation:
    """Three voters of whom `gone` is not heard."""
    voters = [ReplicaView(Key(n, f"u{n}"), n != gone, n != gone) for n in (1, 2, 3)]
    found = observation_of(members, view_of(voters), size=3)
    return replace(found, wanted=replace(found.wanted, **wanted))  # type: ignore[arg-type]


def _with(seen: Observation, *newcomers: int, caught_up: bool = True) -> Observation:
    """With these members as observers."""
    assert seen.view is not None
    observers = tuple(ReplicaView(Key(n, f"u{n}"), True, caught_up) for n in newcomers)
    members = (*seen.incarnations, *map(sound_member, newcomers))
    return replace(seen, incarnations=members, view=replace(seen.view, observers=observers))


def test_members_that_replace_nobody_are_created_at_the_limit_of_replacements() -> None:
    members = [sound_member(1), sound_member(2), _dead(3)]
    seen = _seen(members, 3, replicas=5, max_replacements_per_hour=0)
    step: Step = plan(seen)
    assert isinstance(step, CreateMember)
    assert (step.node_id, step.replaces) == (4, None)
    step = plan(_with(seen, 4, caught_up=False))
    assert isinstance(step, CreateMember)
    assert step.node_id == 5
    step = plan(_with(seen, 4, 5, caught_up=False))
    assert isinstance(step, Wait)
    assert step.retry_after_s < 30.0, "the new members are watched"


def test_limit_of_replacements_is_named_while_nothing_else_is_to_be_done() -> None:
    step = plan(_seen([sound_member(1), sound_member(2), _dead(3)], 3, max_replacements_per_hour=0))
    assert isinstance(step, Wait)
    assert step.blocked_by == "spec.repair.maxReplacementsPerHour"


@pytest.mark.parametrize("has_set", [True, False])
def test_lost_member_in_spec_retire_is_replaced_while_repairs_are_off(has_set: bool) -> None:
    members = [sound_member(1), sound_member(2), *([_dead(3)] if has_set else [])]
    off = _seen(members, 3, repair_enabled=False)
    step: Step = plan(off)
    assert isinstance(step, Nothing)
    assert "lost: 3; spec.repair.enabled is false" in step.reason
    assert "spec.retire" in step.reason
    retired = replace(off, wanted=replace(off.wanted, retire=frozenset({3})))
    step = plan(retired)
    assert isinstance(step, CreateMember)
    assert (step.node_id, step.replaces) == (4, None)
    step = plan(_with(retired, 4))
    assert isinstance(step, RemoveVoter)
    assert step.key == Key(3, "u3")
