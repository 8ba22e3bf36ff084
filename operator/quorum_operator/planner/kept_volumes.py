"""Volumes of failed members: how long they are kept, and when they are deleted.

Owns the rule and the list in the status. A volume is deleted only if the quorum is healthy without it, a majority
confirms that, and the user has set a time. Volumes fenced by a recovery may hold committed records that the quorum
does not have, so they are always kept.

The operator has no right to delete claims. Kubernetes deletes a claim together with the StatefulSet that owns it. The
StatefulSet controller sets this owner only while there is a pod, so the operator sets it.
"""

from quorum_operator.desired.names import RETENTION_FIELD
from quorum_operator.planner.observed import Incarnation
from quorum_operator.planner.situation import FENCED, Situation
from quorum_operator.planner.step import DeleteIncarnation, DiscardVolume, Step, target_of
from quorum_operator.planner.times import text_of
from quorum_operator.status_crd import KeptVolumeStatus


def loses_volume(each: Incarnation) -> bool:
    """Whether a stopped member's StatefulSet has another rule for its claim than the spec: from an earlier
    spec.deletionPolicy, or by another client.
    """
    return each.replicas == 0 and each.drift is not None and each.drift.startswith(RETENTION_FIELD)


def plan_discard(at: Situation) -> Step | None:
    """The next volume to delete; of several the one that failed first."""
    if not _is_complete(at):
        return None
    for each in sorted(at.current, key=_failed_at):
        due = _due_at(at, each)
        if due is None or at.now < due or each.replicas > 0 or each.pod is not None:
            continue
        if each.key in at.voters or each.key in at.in_contact:
            continue
        why = f"{each.name} failed at {text_of(_failed_at(each))}, longer ago than spec.storage.keepFailedFor"
        if each.claim is not None and each.uid not in each.claim.owners:
            return DiscardVolume(target_of(each), f"{why}: its claim will be deleted")
        return DeleteIncarnation(
            target_of(each), f"{why}: the StatefulSet and its claim are deleted"
        )
    return None


def kept_volumes(at: Situation) -> list[KeptVolumeStatus]:
    """All kept volumes of this resource, including earlier formations, the oldest first."""
    found = [_status_of(at, each) for each in at.seen.incarnations if each.failed and each.claim]
    for lone in at.own_claims:
        failed = lone.claim.marks.failed
        if failed is not None:
            status = KeptVolumeStatus(
                pvc=lone.claim.name,
                id=lone.node_id,
                incarnation=lone.number,
                reason=failed.reason,
                failed_at=text_of(failed.at),
            )
            found.append(status)
    return sorted(found, key=lambda each: (each.failed_at, each.id, each.incarnation))


def _status_of(at: Situation, each: Incarnation) -> KeptVolumeStatus:
    assert each.failed is not None
    assert each.claim is not None
    due = _due_at(at, each) if each in at.current else None
    return KeptVolumeStatus(
        pvc=each.claim.name,
        id=each.node_id,
        incarnation=each.number,
        reason=each.failed.reason,
        failed_at=text_of(each.failed.at),
        deleted_after=text_of(due) if due is not None else None,
    )


def _failed_at(each: Incarnation) -> float:
    return each.failed.at if each.failed is not None else 0.0


def _due_at(at: Situation, each: Incarnation) -> float | None:
    keep_s = at.seen.wanted.keep_failed_s
    if keep_s is None or each.failed is None or each.failed.reason == FENCED:
        return None
    if not each.failed.at:
        return None  # the annotation was edited, so the time of the failure is unknown
    return each.failed.at + keep_s


def _is_complete(at: Situation) -> bool:
    """Whether all wanted voters are live, and no change is in progress."""
    view = at.view
    if view is None or not view.formed or view.pending_change or not view.voters_committed:
        return False
    complete = at.live == at.voters and len(at.voters) == at.target
    return complete and not at.leaving and not at.slots
