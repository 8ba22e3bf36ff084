"""A new member that can't be scheduled: named with the scheduler's reason, and looked at rarely the longer it lasts."""

import pytest

from quorum_operator.planner.observed import Key, ReplicaView
from quorum_operator.planner.plan import plan
from quorum_operator.planner.step import Wait
from support.observed_quorum import NOW, observation_of, sound_member, sound_pod, view_of

FULL = "0/3 nodes are available"


def waiting_for(age_s: float) -> Wait:
    """The step while members 4 and 5 of five have been waiting for a host for so long."""
    made_at = NOW - age_s
    stuck = [
        sound_member(
            node_id,
            made_at,
            uuid=None,
            report=None,
            pod=sound_pod(
                node_id,
                made_at,
                ready=False,
                running=False,
                started=False,
                host=None,
                unschedulable=FULL,
                not_ready_since=made_at,
            ),
        )
        for node_id in (4, 5)
    ]
    voters = [ReplicaView(Key(each, f"u{each}"), True, True) for each in (1, 2, 3)]
    sound = [sound_member(each) for each in (1, 2, 3)]
    seen = observation_of([*sound, *stuck], view_of(voters), size=5)
    step = plan(seen)
    assert isinstance(step, Wait)
    return step


@pytest.mark.parametrize("age_s", [1.0, 60.0, 864_000.0])
def test_unschedulable_new_members_are_named_with_the_reason(age_s: float) -> None:
    blocked = waiting_for(age_s).blocked_by
    for name in ("q-4-1", "q-5-1"):
        assert f"{name} (can't be scheduled: {FULL})" in blocked


def test_new_member_that_stays_unschedulable_is_observed_less_often() -> None:
    pauses = [waiting_for(age_s).retry_after_s for age_s in (1.0, 30.0, 600.0, 864_000.0)]
    assert pauses == sorted(pauses)
    assert pauses[0] < 5 <= pauses[-1]
