"""What waits until a pod has ended looks for it by its name directly before the step: a pod may have lost its labels."""

from dataclasses import replace
from uuid import UUID

import pytest

from quorum_node.survivor import Survivor
from quorum_operator.planner.harm import harm
from quorum_operator.planner.observed import Incarnation, Key, ReplicaView
from quorum_operator.planner.situation import Situation
from quorum_operator.planner.step import DeleteIncarnation, RestartMember, Target
from support.observed_quorum import observation_of, sound_member, sound_pod, view_of

CASES = [("runs", True), ("ends", True), ("gone", False)]


def _member(node_id: int, state: str) -> Incarnation:
    pod = None if state == "gone" else sound_pod(node_id, deleting=state == "ends")
    return sound_member(node_id, pod=pod, report=None)


@pytest.mark.parametrize(("state", "refused"), CASES)
def test_removed_member_is_deleted_when_its_pod_is_gone(state: str, refused: bool) -> None:
    """Otherwise it would run on without a StatefulSet that ends it."""
    live = [ReplicaView(Key(n, f"u{n}"), True, True) for n in (1, 2, 3)]
    members = [_member(n, "runs") for n in (1, 2, 3)]
    left = replace(_member(4, state), replicas=0, stopped="left")
    at = Situation(observation_of([*members, left], view_of(live), size=3))
    step = DeleteIncarnation(Target(left.name, left.uid, "1"), "")
    assert (harm(at, step) is not None) == refused


@pytest.mark.parametrize(("state", "refused"), CASES)
def test_survivor_becomes_the_sole_voter_when_the_others_are_gone(
    state: str, refused: bool
) -> None:
    """Two old voters of three are a majority of the old set."""
    survivor = replace(_member(1, "runs"), recovery=Survivor(UUID(int=5), 3, 10))
    others = [_member(n, state) for n in (2, 3)]
    step = RestartMember("q-1-1-0", "pod-1", 1, "1", "")
    at = Situation(observation_of([survivor, *others], size=3))
    assert (harm(at, step) is not None) == refused
    survivor = replace(survivor, recovery_given_up=True)
    assert harm(Situation(observation_of([survivor, *others], size=3)), step) is None
