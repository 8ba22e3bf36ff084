"""Whether the new voter is added before the failed one is removed, while the leader still counts the failed one as live."""

from dataclasses import replace

import pytest

from quorum_operator.planner.observed import (
    FailureLatch,
    Incarnation,
    Key,
    Observation,
    ReplicaView,
)
from quorum_operator.planner.plan import plan
from quorum_operator.planner.step import AddVoter, RemoveVoter
from support.observed_quorum import NOW, observation_of, sound_member, sound_pod, view_of

FAILED = FailureLatch("StorageFailed", "EIO", NOW - 1, NOW - 1)


def successor(node_id: int) -> Incarnation:
    pod = sound_pod(node_id, NOW - 5)
    made = sound_member(
        node_id, NOW - 5, number=2, name=f"q-{node_id}-2", uid=f"uid-q-{node_id}-2", uuid="new",
        replaces=1, predecessor=f"q-{node_id}-1", pod=pod,
    )  # fmt: skip
    assert made.report is not None
    return replace(made, report=replace(made.report, uuid="new"))


def seen(size: int) -> Observation:
    """The last voter failed a moment ago: its pod is there, and the leader has received its last fetch just now."""
    failed = sound_member(size, failed=FAILED, report=None)
    members = [*(sound_member(n) for n in range(1, size)), failed, successor(size)]
    voters = [ReplicaView(Key(n, f"u{n}"), True, True) for n in range(1, size + 1)]
    observers = (ReplicaView(Key(size, "new"), True, True),)
    return observation_of(members, view_of(voters, observers=observers), size=size)


@pytest.mark.parametrize(("size", "step"), [(3, RemoveVoter), (5, AddVoter)])
def test_failed_voter_is_not_counted_although_the_leader_still_does(size: int, step: type) -> None:
    """With three voters two are left, too few for a majority of four without the new one."""
    assert isinstance(plan(seen(size)), step)


def marked(size: int, count: int, silent: int | None = None) -> Observation:
    """The last `count` voters are marked as failed by hand and go on to vote; their successors have caught up."""
    leaving = range(size - count + 1, size + 1)
    latch = FailureLatch("MarkedByHand", "by-hand", NOW - 60, NOW - 60)
    members = [
        *(sound_member(n) for n in range(1, size - count + 1)),
        *(sound_member(n, failed=latch) for n in leaving),
        *(successor(n) for n in leaving),
    ]
    voters = [ReplicaView(Key(n, f"u{n}"), n != silent, True) for n in range(1, size + 1)]
    observers = tuple(ReplicaView(Key(n, "new"), True, True) for n in leaving)
    return observation_of(members, view_of(voters, observers=observers), size=size)


@pytest.mark.parametrize(("size", "count"), [(3, 1), (3, 2), (3, 3), (5, 3), (5, 5), (7, 4)])
def test_voter_that_is_marked_as_failed_and_goes_on_to_vote_is_counted(
    size: int, count: int
) -> None:
    """Else members would be removed down to a single voter, or no successor would be added."""
    assert isinstance(plan(marked(size, count)), AddVoter)


def test_marked_voter_is_counted_beside_a_lost_host() -> None:
    assert isinstance(plan(marked(5, 1, silent=1)), AddVoter)
