"""Claims that no member runs on without being asked: which, why, and what a person can say.

Owns two questions. Before there is an identity: claims and objects of an earlier resource of this name, which are run again
only when `spec.earlierClaims` names their cluster id, and beside which nothing new is founded unless it says so. Later: claims
whose StatefulSet is gone, and that may hold a voter, but are not certain enough (`rebuilding.py`).
"""

from quorum_operator.planner.observed import ForeignObject, LoneClaim
from quorum_operator.planner.rebuilding import Rebuilding
from quorum_operator.planner.situation import Situation
from quorum_operator.planner.step import AdoptObject, RebuildIdentity, Step, Wait

RETRY_S = 5.0
_FIELD = "spec.earlierClaims"
_NAMED = 8
_IDENTITY = "ConfigMap"
_ASKED = "a person's decision"


def plan_earlier(at: Situation) -> Step | None:
    """What an earlier resource of this name has left, before anything is made for this one."""
    return _foreign(at) or _claims(at)


def plan_adoption(at: Situation) -> Step | None:
    """Objects of this cluster that have lost their owner become this resource's."""
    identity, known = at.recorded_identity, at.seen.known_cluster_id
    cluster_id = at.seen.wanted.adopt or (known if identity is None else identity.cluster_id)
    if cluster_id is None:
        return None
    for each in sorted(at.seen.foreign_objects, key=lambda one: one.kind != _IDENTITY):
        if each.cluster_id == cluster_id and not each.owners and each.uid:
            reason = f"{each.kind}/{each.name} of the cluster {cluster_id} has no owner"
            return AdoptObject(each.kind, each.name, each.uid, each.resource_version, reason)
    return None


def _foreign(at: Situation) -> Step | None:
    blocking = [each for each in at.seen.foreign_objects if _blocks(at, each)]
    if not blocking:
        return None
    adopted = plan_adoption(at)
    if adopted is not None:
        return adopted
    names = _list([f"{each.kind}/{each.name}" for each in blocking])
    if any(each.owners for each in blocking):
        text = (
            f"objects with the names of this quorum belong to somebody else: {names}. Those of an earlier resource go by"
            " themselves; delete or rename the others"
        )
        return Wait(text, "objects of another owner", RETRY_S)
    ids = _list(sorted({each.cluster_id for each in blocking if each.cluster_id}))
    text = (
        f"an earlier resource of this name was deleted without its objects: {names}. To go on with them set {_FIELD} to"
        f" {{policy: Adopt, clusterId: {ids or '…'}}}; to begin anew delete them"
    )
    return Wait(text, _ASKED, RETRY_S)


def _blocks(at: Situation, each: ForeignObject) -> bool:
    """An identity's name can't be given twice; StatefulSets may hold what is wanted."""
    sets = each.kind == "StatefulSet" and not at.seen.wanted.leave_claims
    return each.kind == _IDENTITY or sets


def _claims(at: Situation) -> Step | None:
    left = earlier_claims(at)
    wanted = at.seen.wanted
    if wanted.adopt is not None:
        return _adopt(at, wanted.adopt, left)
    same = [each for each in left if wanted.cluster_id in (each.claim.marks.cluster_id, None)]
    names = _list([each.claim.name for each in (same if wanted.leave_claims else left)])
    # A restore goes on with the cluster in an epoch of its own: who comes back on such a claim is refused.
    if wanted.leave_claims and wanted.cluster_id is not None and same and not wanted.restores:
        text = (
            f"a quorum with spec.clusterId {wanted.cluster_id} has been founded before, on {names}: go on with it"
            f" by {_FIELD}, or delete these claims"
        )
        return Wait(text, _ASKED, RETRY_S)
    if not left or wanted.leave_claims:
        return None
    ids = sorted({each.claim.marks.cluster_id for each in left if each.claim.marks.cluster_id})
    text = (
        f"claims of an earlier resource of this name are left: {names}. To go on with their data set {_FIELD} to"
        f" {{policy: Adopt, clusterId: {_list(ids) or '…'}}}; to begin anew beside them set it to {{policy: Leave}},"
        " or delete them"
    )
    return Wait(text, _ASKED, RETRY_S)


def _adopt(at: Situation, cluster_id: str, left: tuple[LoneClaim, ...]) -> Step:
    mine = [each for each in left if each.claim.marks.cluster_id == cluster_id and each.key]
    if not mine:
        text = f"{_FIELD} names the cluster {cluster_id}, and no claim of it is left that could be run again"
        return Wait(text, _ASKED, RETRY_S)
    index = max(each.claim.marks.formation or 1 for each in mine)
    reason = f"{_FIELD} confirms that the cluster {cluster_id} goes on, on {len(mine)} claims"
    return RebuildIdentity(index, cluster_id, None, True, reason)


def earlier_claims(at: Situation) -> tuple[LoneClaim, ...]:
    """Claims that were not made for this resource, and that nothing bars."""
    return tuple(
        each
        for each in at.seen.lone_claims
        if each not in at.own_claims and each.claim.marks.bars is None and not each.claim.deleting
    )


def doubts(at: Situation) -> tuple[tuple[LoneClaim, str], ...]:
    """Claims that may hold a voter which nothing runs, and why the operator does not run it."""
    rebuilding = Rebuilding(at)
    told = rebuilding.told_voters
    missing = None if told is None else told - at.by_key.keys()
    ids = {key.id for key in missing or ()}
    found = []
    for each in at.seen.lone_claims:
        objection = rebuilding.objection(each)
        if missing is None:
            concerned = each.claim.marks.removed is None
        else:
            concerned = each.key in missing or (each.key is None and each.node_id in ids)
        repaired = at.view is not None and each.claim.marks.bars is not None
        if concerned and objection is not None and not repaired:
            found.append((each, objection))
    return tuple(found)


def way_out(at: Situation) -> str | None:
    """What a person has to decide about claims, and how; None: nothing."""
    if at.recorded_identity is None:
        step = plan_earlier(at) if at.index == 0 and at.known_voters == 0 else None
        return step.reason if isinstance(step, Wait) else None
    found = doubts(at)
    if not found:
        return None
    named = _list([f"{each.claim.name} ({objection})" for each, objection in found])
    return (
        f"the StatefulSet is gone, and the claim may hold a voter: {named}. Where you know the replica on it, and that it"
        " may run, write that on the claim (kubectl annotate pvc CLAIM metadataquorum.dev/replica-uuid=UUID, taking away"
        " marks that are wrong); where it is given up, write metadataquorum.dev/removed on it, or delete it"
    )


def _list(names: list[str]) -> str:
    return ", ".join(names[:_NAMED]) + (" …" if len(names) > _NAMED else "")
