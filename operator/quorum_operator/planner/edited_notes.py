"""Repairs annotations on StatefulSets that were edited by another client.

Owns two annotations that lead to the removal of a healthy voter if they are wrong:

* the replica UUID: a process with a different UUID has an empty volume, unless a confirmed leader has exactly that
  replica as a voter;
* the mark that a member was stopped: the operator writes it in the same update that scales the StatefulSet to zero.
"""

from quorum_operator.planner.observed import Incarnation, Key
from quorum_operator.planner.recovery import under_way
from quorum_operator.planner.refusals import first_not_held
from quorum_operator.planner.situation import FENCED, Situation
from quorum_operator.planner.step import RecordReplicaUuid, StartMember, Step, target_of


def plan_edited_notes(at: Situation) -> Step | None:
    """The next annotation to correct; one whose correction is refused comes last."""
    return first_not_held(at.seen, (_correction(at, each) for each in at.current))


def _correction(at: Situation, each: Incarnation) -> Step | None:
    uuid = true_replica(at, each)
    if uuid is not None:
        reason = f"{each.name} is annotated as replica {each.uuid}, but its voter is replica {uuid}"
        return RecordReplicaUuid(target_of(each), uuid, reason)
    if _runs_as_voter(at, each):
        reason = f"{each.name} is annotated as stopped ({each.stopped}), but is a voter"
        return StartMember(target_of(each), reason)
    return None


def true_replica(at: Situation, each: Incarnation) -> str | None:
    """The actual replica UUID of the member's process if its annotation is wrong; None if it is right or uncertain.

    Two of three sources have to agree: the process, the claim, and the voters of a confirmed leader. The UUID of a
    new, empty volume is on no claim and is no voter's, because a UUID is recorded before it is added to the voters.
    """
    uuid = _replica_uuid(at, each)
    if uuid is None or each.uuid in (None, uuid):
        return None
    if not (_is_voter(at, each, uuid) or _agree_on(each, uuid)):
        return None
    # Otherwise another replica of this id answered at this pod's former address. Members of other ids
    # do not count: they did not answer, so their annotations are wrong.
    noted = {one.uuid for one in at.seen.incarnations if one.node_id == each.node_id}
    lone = (one for one in at.seen.lone_claims if one.node_id == each.node_id)
    noted |= {one.claim.marks.uuid for one in lone}
    return None if uuid in noted else uuid


def _is_voter(at: Situation, each: Incarnation, uuid: str) -> bool:
    committed = at.view is not None and at.view.voters_committed
    return committed and Key(each.node_id, uuid) in at.voters and each.key not in at.voters


def _agree_on(each: Incarnation, uuid: str) -> bool:
    """Whether claim and process agree."""
    marked = None if each.claim is None else each.claim.marks.uuid
    return each.report is not None and marked == each.report.uuid == uuid


def _replica_uuid(at: Situation, each: Incarnation) -> str | None:
    report, identity = each.report, at.identity
    if report is None:
        return None if each.claim is None else each.claim.marks.uuid
    same = identity is not None and report.cluster_id in (None, identity.cluster_id)
    return report.uuid if same else None


def _runs_as_voter(at: Situation, each: Incarnation) -> bool:
    if each.stopped is None or "stopped" in each.notes_lost or each.failed is not None:
        return False
    if at.view is None or each.replicas == 0 or each.key not in at.voters:
        return False
    # A recovery writes its mark together with the stop, too. Here the leader hears the voter.
    fenced = each.stopped.startswith(FENCED)
    return not fenced or (each.key in at.in_contact and under_way(at) is None)
