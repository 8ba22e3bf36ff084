"""Refused steps, and how the plan continues without them.

Owns the subject of a refused step, which steps are held back until their next attempt, and whether the following
rules may continue. `attempts.py` has the memory; here refusals are facts of the observation.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from quorum_operator.planner import step as steps
from quorum_operator.planner.object_facts import Refusal
from quorum_operator.planner.observed import Observation
from quorum_operator.planner.step import Step

if TYPE_CHECKING:
    from quorum_operator.planner.situation import Situation

CONTESTED = "Contested"
"""Reason: the operator corrects an object, and another client reverts it every time."""

_ON_A_SET = (
    steps.UpdateMember,
    steps.ExpandVolume,
    steps.RecordReplicaUuid,
    steps.LatchFailure,
    steps.Unlatch,
    steps.BeginRecovery,
    steps.GiveUpRecovery,
    steps.ScaleToZero,
    steps.StartMember,
    steps.DeleteIncarnation,
    steps.DiscardVolume,
)
_CLOSING = (steps.LatchFailure, steps.ScaleToZero)
"""Steps that prevent a replica from running again: if one is refused, nothing else is done to the replica."""
_IN_ORDER = (
    steps.CreateIdentity,
    steps.RebuildIdentity,
    steps.AddVoter,
    steps.RemoveVoter,
    steps.TransferLeadership,
    steps.BeginRecovery,
    steps.GiveUpRecovery,
)
"""Steps on which the following ones depend."""


def subject_of(seen: Observation, step: Step) -> str:
    """The object that a step changes, as `Kind/name`; a voter by its key. Of several objects the first."""
    match step:
        case (
            steps.CreateIdentity(index)
            | steps.RebuildIdentity(index)
            | steps.RecordFormed(index)
            | steps.RecordTlsStage(index)
            | steps.RecordUpdate(index)
        ):
            return f"ConfigMap/{seen.name}-identity" + (f"-{index}" if index > 1 else "")
        case steps.ApplyObjects(objects):
            return objects[0]
        case steps.RestoreLabels(drift):
            return f"{drift[0].kind}/{drift[0].name}"
        case steps.CreateMember():
            return f"StatefulSet/{seen.name}-{step.node_id}-{step.number}"
        case steps.AdoptObject(kind, name):
            return f"{kind}/{name}"
        case steps.RebuildMember(claim):
            return f"StatefulSet/{claim.member}"
        case steps.GuardDrains():
            return f"PodDisruptionBudget/{seen.name}"
        case steps.RestartMember(pod) | steps.DeleteStrayPod(pod):
            return f"Pod/{pod}"
        case steps.AddVoter(key) | steps.RemoveVoter(key) | steps.TransferLeadership(key):
            return f"voter {key.id} ({key.uuid})"
    return f"StatefulSet/{step.target.name}" if isinstance(step, _ON_A_SET) else ""


def subjects_of(seen: Observation, step: Step) -> tuple[str, ...]:
    """All objects that a step changes."""
    if isinstance(step, steps.ApplyObjects):
        return step.objects
    if isinstance(step, steps.RestoreLabels):
        return tuple(f"{each.kind}/{each.name}" for each in step.objects)
    return (subject_of(seen, step),)


def value_of(step: Step) -> str:
    """The value that a step writes, for steps that write changing values to the same object; else empty."""
    match step:
        case steps.GuardDrains(least_ready):
            return str(least_ready)
        case steps.RecordTlsStage():
            return str(step.stage)
        case steps.RecordUpdate():
            return str(step.record)
    return ""


def held(seen: Observation, step: Step) -> Refusal | None:
    """The refusal that holds this step back."""
    subject, kind = subject_of(seen, step), type(step).__name__
    for each in seen.refusals:
        if each.retry_at <= seen.now:
            continue
        if (each.step, each.subject) == (kind, subject):
            return each
        closing = each.step in {one.__name__ for one in _CLOSING}
        if closing and subject in {each.subject, f"Pod/{each.subject.partition('/')[2]}-0"}:
            return each
    return None


def first_not_held(seen: Observation, found: Iterable[Step | None]) -> Step | None:
    """The first step that is not held back; a held one only if there is no other."""
    back: Step | None = None
    for step in found:
        if step is not None and held(seen, step) is None:
            return step
        back = back or step
    return back


def may_continue(at: "Situation", step: Step) -> bool:
    """Whether the rules after a held step may run, because they do not depend on it."""
    if isinstance(step, steps.RecordFormed):
        # The last initial voter may join only after this is written (design, Safety).
        return at.view is not None and at.view.formed
    return not isinstance(step, _IN_ORDER)


def waiting_for(seen: Observation, refusal: Refusal) -> steps.Wait:
    """The step if nothing else can be done."""
    return steps.Wait(
        f"{refusal.step} of {refusal.subject} is retried later",
        f"refused ({refusal.reason}): {refusal.message}",
        max(refusal.retry_at - seen.now, 0.0),
    )


def next_attempt(seen: Observation) -> Refusal | None:
    """The refused step with the earliest retry."""
    coming = [each for each in seen.refusals if each.retry_at > seen.now]
    return min(coming, key=lambda each: each.retry_at, default=None)


def reported_refusals(seen: Observation) -> tuple[Refusal, ...]:
    """Refusals to report, without those expected to pass within moments."""
    return tuple(each for each in seen.refusals if each.reported)
