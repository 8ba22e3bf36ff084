"""A removed member whose pod or StatefulSet waits for a finalizer: the status names it, as only its owner can remove it."""

from dataclasses import replace

from quorum_operator.planner.observed import (
    FailureLatch,
    Incarnation,
    Key,
    Observation,
    ReplicaView,
)
from quorum_operator.planner.plan import plan
from quorum_operator.planner.status import build_status
from quorum_operator.planner.step import DeleteIncarnation, Nothing
from quorum_operator.status_crd import MetadataQuorumStatus
from support.observed_quorum import observation_of, sound_member, sound_pod, view_of

HOLD = ("example.com/hold",)


def seen_with(removed: Incarnation) -> Observation:
    """Three voters, and a member that is none any more."""
    view = view_of([ReplicaView(Key(n, f"u{n}"), True, True) for n in (1, 2, 3)])
    return observation_of([*(sound_member(n) for n in (1, 2, 3)), removed], view, size=3)


def stopped(**changes: object) -> Incarnation:
    found = sound_member(4, replicas=0, stopped="left", report=None)
    return replace(found, **changes)  # type: ignore[arg-type]


def degraded(seen: Observation) -> str:
    status = build_status(seen, plan(seen), MetadataQuorumStatus(), "")
    return next(each.message for each in status.conditions if each.type == "Degraded")


def test_finalizer_of_the_pod_is_named() -> None:
    seen = seen_with(stopped(pod=sound_pod(4, deleting=True, ready=False, held_by=HOLD)))
    assert "4: Stopped: left; Pod/q-4-1-0 is being deleted and waits" in degraded(seen)
    assert "example.com/hold" in degraded(seen)


def test_finalizer_of_a_failed_member_s_pod_is_named() -> None:
    """The replacement of the authority waits for it: its process may still run."""
    pod = sound_pod(4, deleting=True, ready=False, held_by=HOLD)
    failed = stopped(pod=pod, failed=FailureLatch("StorageFailed", "", 1.0, 1.0))
    assert "4: Failed: StorageFailed; Pod/q-4-1-0 is being deleted" in degraded(seen_with(failed))


def test_finalizer_of_the_set_is_named_and_it_is_not_deleted_again() -> None:
    left = stopped(pod=None)
    assert isinstance(plan(seen_with(left)), DeleteIncarnation)
    held = seen_with(replace(left, held_by=HOLD))
    assert isinstance(plan(held), Nothing)
    assert "4: Stopped: left; StatefulSet/q-4-1 is being deleted and waits" in degraded(held)
