"""Claims of the planner's model: their annotations, and what happens to one whose StatefulSet is deleted.

A step is done in two halves, like the real parts do it: first its marks on the claim, then the rest. If the operator is killed in
between, the marks remain.
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
    """The claim as the operator sees it."""
    return ClaimFacts(
        f"data-{each.name}-0",
        f"claim-{each.name}",
        deleting=each.disk.claim_deleting,
        marks=each.disk.marks,
        resource_version=str(each.version),
    )


def lone_claims(model: "Model") -> tuple[LoneClaim, ...]:
    """Claims of deleted StatefulSets."""
    return tuple(
        LoneClaim(each.node_id, each.number, each.name, claim_of(each), each.storage)
        for each in model.lone.values()
    )


def born_with(model: "Model", each: Set) -> Marks:
    """The marks in the template of a claim."""
    founder = model.identity(each.formation).founder_uuid if each.founder else None
    cluster_id = model.identity(each.formation).cluster_id
    return Marks(founder, cluster_id, model.resource_uid, each.formation)


def delete_set(model: "Model", each: Set) -> None:
    """The StatefulSet is deleted: its pod is deleted as well, the claim remains."""
    del model.sets[each.name]
    if each.disk.uuid is None and each.pod is None:
        return  # no claim was made yet
    each.pod = None
    model.lone[each.name] = each


def recreate(model: "Model") -> None:
    """The resource is deleted, its claims are kept, and it is applied again: only the claims remain."""
    for each in list(model.sets.values()):
        delete_set(model, each)
    model.identities.clear()
    model.resource_uid, model.forgotten = f"{model.resource_uid}x", True


def strip_notes(each: Set) -> None:
    """All annotations of a StatefulSet are removed."""
    each.uuid = each.failed = each.stopped = each.recovery = None
    each.given_up = False
    each.template = "?"
    each.version += 1


def keep_marks(model: "Model", seen: Observation) -> None:
    """The writes of the operator besides its step."""
    for note in due_notes(Situation(seen)):
        for each in (*model.sets.values(), *model.lone.values()):
            if note.uid == f"claim-{each.name}":
                each.disk.marks = note.marks


def mark_before(model: "Model", step: steps.Step) -> None:
    """The half of a step that is done before the rest."""
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
    """Its StatefulSet is created again. Checks that the disk was never given up."""
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
