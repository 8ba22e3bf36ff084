"""Claims that need a decision by the user: which, why, and the possible decisions.

Two cases. Before there is an identity: claims and objects of an earlier resource of this name. They are adopted only
if `spec.earlierClaims` names their cluster id, and no new quorum is formed beside them without a decision. Later:
claims without a StatefulSet that may hold a voter but don't meet the conditions for automatic recreation
(`rebuilding.py`).
"""

from quorum_operator.planner.object_facts import ForeignObject
from quorum_operator.planner.observed import LoneClaim
from quorum_operator.planner.rebuilding import Rebuilding
from quorum_operator.planner.situation import Situation
from quorum_operator.planner.step import AdoptObject, RebuildIdentity, Step, Wait

RETRY_S = 5.0
_FIELD = "spec.earlierClaims"
_NAMED = 8
_IDENTITY = "ConfigMap"
_DECISION = "your decision"


def plan_earlier(at: Situation) -> Step | None:
    """The step for objects of an earlier resource of this name, before anything is created for this one."""
    return _foreign(at) or _claims(at)


def had_members(at: Situation) -> bool:
    """Whether this resource has, or had, members of its own.

    The status alone is no proof beside objects of an earlier resource: anybody may have written it.
    """
    return at.index > 0 or (at.known_voters > 0 and not _has_earlier(at))


def _has_earlier(at: Situation) -> bool:
    claims = not at.seen.wanted.leave_claims and earlier_claims(at)
    return bool(claims) or any(_blocks(at, each) for each in at.seen.foreign_objects)


def plan_adoption(at: Situation) -> Step | None:
    """Adopt objects of this cluster without an owner, or with owners of another kind. Those of another MetadataQuorum are
    never adopted.
    """
    for each in adoptable(at):
        owned = f"is owned by {each.owners}" if each.owners else "has no owner"
        reason = f"{each.kind}/{each.name} of the cluster {each.cluster_id} {owned}"
        return AdoptObject(each.kind, each.name, each.uid, each.resource_version, reason)
    return None


def adoptable(at: Situation) -> tuple[ForeignObject, ...]:
    """Objects to adopt in this order, without any further decision."""
    cluster_id = _known_cluster_id(at)
    if cluster_id is None:
        return ()
    found = [each for each in at.seen.foreign_objects if each.cluster_id == cluster_id]
    return tuple(sorted(filter(_is_free, found), key=lambda one: one.kind != _IDENTITY))


def undecided(at: Situation) -> tuple[ForeignObject, ...]:
    """Objects that `spec.earlierClaims` may still adopt: there is no identity, and so no cluster, yet."""
    if at.recorded_identity is not None:
        return ()
    ready = adoptable(at)
    free = [each for each in at.seen.foreign_objects if each not in ready and _is_free(each)]
    return tuple(each for each in free if each.cluster_id is not None and _blocks(at, each))


def _is_free(each: ForeignObject) -> bool:
    """Whether it has no owner that could object to its adoption."""
    return bool(each.uid) and (not each.owners or each.given_away)


def _known_cluster_id(at: Situation) -> str | None:
    """The cluster id by the identity, else by a majority, else by the StatefulSets that were created for this very
    resource, if they agree, else by the spec, else by the last status, which anybody may have edited.
    """
    if at.recorded_identity is not None:
        return at.recorded_identity.cluster_id
    confirmed = at.view.cluster_id if at.view is not None else None
    own = confirmed or _created_with(at)
    return own or at.seen.wanted.adopt or at.seen.known_cluster_id


def _created_with(at: Situation) -> str | None:
    """The cluster id of the foreign StatefulSets that were created for this resource; None if they name several."""
    uid = at.seen.resource_uid
    found = {each.cluster_id for each in at.seen.foreign_objects if uid and each.created_for == uid}
    return found.pop() if len(found) == 1 else None


def _foreign(at: Situation) -> Step | None:
    blocking = [each for each in at.seen.foreign_objects if _blocks(at, each)]
    if not blocking:
        return None
    adopted = plan_adoption(at)
    if adopted is not None:
        return adopted
    names = _list([f"{each.kind}/{each.name}" for each in blocking])
    free = undecided(at)
    others = [f"{each.kind}/{each.name}" for each in blocking if each.owners and each not in free]
    if others:
        text = (
            f"objects with the names of this quorum have another owner: {_list(others)}. Those of an earlier resource "
            "are garbage-collected; delete or rename the others"
        )
        return Wait(text, "objects of another owner", RETRY_S)
    ids = _list(sorted({each.cluster_id for each in blocking if each.cluster_id}))
    text = (
        f"an earlier resource of this name was deleted without its objects: {names}. To adopt them set {_FIELD} to"
        f" {{policy: Adopt, clusterId: {ids or '…'}}}; to start from nothing delete them"
    )
    return Wait(text, _DECISION, RETRY_S)


def _blocks(at: Situation, each: ForeignObject) -> bool:
    """Whether an object blocks the formation: an identity by its name, a StatefulSet by the data it may hold."""
    sets = each.kind == "StatefulSet" and not at.seen.wanted.leave_claims
    return each.kind == _IDENTITY or sets


def _claims(at: Situation) -> Step | None:
    left = earlier_claims(at)
    wanted = at.seen.wanted
    if wanted.adopt is not None:
        return _adopt(at, wanted.adopt, left)
    same = [each for each in left if wanted.cluster_id in (each.claim.marks.cluster_id, None)]
    names = _list([each.claim.name for each in (same if wanted.leave_claims else left)])
    # A restored cluster has its own epochs, so a replica on such a claim would be rejected.
    if wanted.leave_claims and wanted.cluster_id is not None and same and not wanted.restores:
        text = (
            f"a quorum with spec.clusterId {wanted.cluster_id} exists already, on {names}: adopt it with {_FIELD}, or "
            "delete these claims"
        )
        return Wait(text, _DECISION, RETRY_S)
    if not left or wanted.leave_claims:
        return None
    ids = sorted({each.claim.marks.cluster_id for each in left if each.claim.marks.cluster_id})
    text = (
        f"claims of an earlier resource of this name exist: {names}. To keep using their data set {_FIELD} to"
        f" {{policy: Adopt, clusterId: {_list(ids) or '…'}}}; to form a new quorum and keep the claims set it to"
        f" {{policy: Leave}}; otherwise delete them"
    )
    return Wait(text, _DECISION, RETRY_S)


def _adopt(at: Situation, cluster_id: str, left: tuple[LoneClaim, ...]) -> Step:
    mine = [each for each in left if each.claim.marks.cluster_id == cluster_id and each.key]
    if not mine:
        found = {each.claim.marks.cluster_id for each in left if each.key} - {cluster_id}
        ids = sorted(each for each in found if each is not None)
        there = (
            f". There are claims of another cluster: to adopt these set {_FIELD} to {{policy: Adopt, clusterId: {_list(ids)}}}"
            if ids
            else ""
        )
        text = (
            f"{_FIELD} names the cluster {cluster_id}, but no claim of that cluster can be adopted: correct clusterId, "
            f"bring such a claim back, or remove the field{there}"
        )
        return Wait(text, _DECISION, RETRY_S)
    index = max(each.claim.marks.formation or 1 for each in mine)
    reason = f"{_FIELD} confirms that the cluster {cluster_id} is adopted, with {len(mine)} claims"
    return RebuildIdentity(
        index=index,
        cluster_id=cluster_id,
        founding=None,
        formed=True,
        reason=reason,
        network_policy=any(each.claim.network_policy for each in mine),
        defaults=frozenset().union(*(each.claim.defaults for each in mine)),
        tls=any(each.claim.marks.tls for each in mine),
    )


def earlier_claims(at: Situation) -> tuple[LoneClaim, ...]:
    """Claims of an earlier resource without a mark that excludes them."""
    return tuple(
        each
        for each in at.seen.lone_claims
        if each not in at.own_claims and each.claim.marks.bars is None and not each.claim.deleting
    )


def claims_to_decide(at: Situation) -> tuple[tuple[LoneClaim, str], ...]:
    """Claims that may hold a voter, and why they are not used automatically."""
    rebuilding = Rebuilding(at)
    voters = rebuilding.reported_voters
    missing = None if voters is None else voters - at.by_key.keys()
    ids = {key.id for key in missing or ()}
    found = []
    for each in at.seen.lone_claims:
        objection = rebuilding.objection(each)
        if missing is None:
            objection = objection or rebuilding.rivalry(each)
            concerned = each.claim.marks.removed is None
        elif objection is None and each.node_id in ids and each.key not in (voters or ()):
            objection, concerned = "its replica UUID is no voter's", at.view is None
        else:
            concerned = each.key in missing or (each.key is None and each.node_id in ids)
        repaired = at.view is not None and each.claim.marks.bars is not None
        if concerned and objection is not None and not repaired:
            found.append((each, objection))
    return tuple(found)


def required_decision(at: Situation) -> str | None:
    """The decision that the user has to make about claims; None if there is none."""
    if at.recorded_identity is None:
        step = None if had_members(at) else plan_earlier(at)
        return step.reason if isinstance(step, Wait) else None
    found = claims_to_decide(at)
    if not found:
        return None
    named = _list([f"{each.claim.name} ({objection})" for each, objection in found])
    return (
        f"the StatefulSet was deleted, and the claim may hold a voter: {named}. If the replica may run, annotate the "
        "claim with its UUID (kubectl annotate pvc CLAIM metadataquorum.dev/replica-uuid=UUID) and remove marks that "
        "are wrong. To give the replica up, annotate the claim with metadataquorum.dev/removed, or delete it"
    )


def _list(names: list[str]) -> str:
    return ", ".join(names[:_NAMED]) + (" …" if len(names) > _NAMED else "")
