"""Claims of the planner's model: what is written on them, and what becomes of one whose StatefulSet is deleted.

A step is carried out in two halves, as the real parts do it: its marks on the claim first, then the rest. An operator that
dies in between leaves the marks.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from quorum_operator.planner import step as steps
from quorum_operator.planner.claim_marks import due_notes
from quorum_operator.planner.observed import ClaimFacts, LoneClaim, Marks, Observation
from quorum_operator.planner.situation import FENCED, Situation
from support.model_rules import Unsafe
from support.modelled_pods import Set

if TYPE_CHECKING:
    from support.quorum_model import Model

RESOURCE_UID = "resource-1"


def claim_of(each: Set) -> ClaimFacts:
    """As the operator sees it."""
    return ClaimFacts(
        f"data-{each.name}-0",
        f"claim-{each.name}",
        deleting=each.disk.claim_deleting,
        marks=each.disk.marks,
        resource_version=str(each.version),
    )


def lone_claims(model: "Model") -> tuple[LoneClaim, ...]:
    """Of StatefulSets that were deleted."""
    return tuple(
        LoneClaim(each.node_id, each.number, each.name, claim_of(each), each.storage)
        for each in model.lone.values()
    )


def born_with(model: "Model", each: Set) -> Marks:
    """What the template of a claim says."""
    founder = model.identity(each.formation).founder_uuid if each.founder else None
    cluster_id = model.identity(each.formation).cluster_id
    return Marks(founder, cluster_id, model.resource_uid, each.formation)


def delete_set(model: "Model", each: Set) -> None:
    """Somebody deletes the StatefulSet: its pod goes as well, the claim stays."""
    del model.sets[each.name]
    if each.disk.uuid is None and each.pod is None:
        return  # no claim was made yet
    each.pod = None
    model.lone[each.name] = each


def recreate(model: "Model") -> None:
    """The resource is deleted, its claims are kept, and it is applied again: all it has left is the claims."""
    for each in list(model.sets.values()):
        delete_set(model, each)
    model.identities.clear()
    model.resource_uid, model.forgotten = f"{model.resource_uid}x", True


def strip_notes(each: Set) -> None:
    """Somebody takes all annotations off a StatefulSet."""
    each.uuid = each.failed = each.stopped = each.recovery = None
    each.given_up = False
    each.template = "?"
    each.version += 1


def keep_marks(model: "Model", seen: Observation) -> None:
    """What the operator writes beside its step."""
    for note in due_notes(Situation(seen)):
        for each in (*model.sets.values(), *model.lone.values()):
            if note.uid == f"claim-{each.name}":
                each.disk.marks = note.marks


def mark_before(model: "Model", step: steps.Step) -> None:
    """The half of a step that goes before the rest."""
    each = model.sets.get(step.target.name) if hasattr(step, "target") else None
    if each is None or not isinstance(step, steps.Step):
        return
    marks = each.disk.marks
    match step:
        case steps.RecordReplicaUuid(_, uuid):
            marks = replace(marks, uuid=uuid)
        case steps.LatchFailure(_, latch):
            marks = replace(marks, failed=latch)
        case steps.Unlatch():
            marks = replace(marks, failed=None)
        case steps.StartMember():
            marks = replace(marks, fenced=None, removed=None)
        case steps.ScaleToZero(_, why) if each.failed is not None or marks.failed is not None:
            marks = replace(marks, uuid=each.uuid or marks.uuid, failed=each.failed or marks.failed)
        case steps.ScaleToZero(_, why) if why.startswith(FENCED):
            marks = replace(marks, uuid=each.uuid or marks.uuid, fenced=why)
        case steps.ScaleToZero(_, why):
            marks = replace(marks, uuid=each.uuid or marks.uuid, removed=why)
    each.disk.marks = marks


def rebuild(model: "Model", step: steps.RebuildMember) -> None:
    """Its StatefulSet is made again. Checks that the disk was never given up."""
    if step.claim.member in model.sets:
        return
    each = model.lone.pop(step.claim.member)
    if each.disk.marks.failed or each.disk.marks.removed or each.failed is not None:
        raise Unsafe(f"{each.name} is run again, though it was marked {each.disk.marks}")
    if step.formation != each.formation or (step.founder and not each.founder):
        raise Unsafe(f"{each.name} is run again as something else: {step}")
    each.disk.marks = replace(each.disk.marks, fenced=None, resource_uid=model.resource_uid)
    again = Set(
        node_id=each.node_id,
        number=each.number,
        formation=each.formation,
        founder=step.founder,
        created_at=model.now,
        replaces=None,
        storage=step.claim.storage,
        version=each.version + 1,
        uuid=step.claim.claim.marks.uuid,
        disk=each.disk,
        caught_up_at=each.caught_up_at,
        recovery=each.recovery,
        given_up=each.given_up,
        recover=each.recover,
        rebuilt=True,
    )
    again.template = model._template(again)
    model.sets[again.name] = again
