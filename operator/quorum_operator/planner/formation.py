"""The formation of a quorum, and when it is repeated.

The identity object is created before any pod. If the founder is lost before the quorum was formed, or the formation
can't be completed and the spec was corrected (`changed_formations.py`), a new identity with a new cluster id is
created, and nothing is deleted; not more often than `spec.repair.maxReplacementsPerHour` permits. All initial members start at once; the founder forms the quorum,
the others join.
"""

from quorum_node.quorum_arithmetic import majority
from quorum_operator.planner.changed_formations import why_begins_again
from quorum_operator.planner.claim_decisions import had_members, plan_adoption, plan_earlier
from quorum_operator.planner.identity_rebuilding import plan_missing_identity
from quorum_operator.planner.member_problems import cannot_start, why_not_running
from quorum_operator.planner.observed import Incarnation, Key
from quorum_operator.planner.situation import Situation
from quorum_operator.planner.step import (
    CreateIdentity,
    CreateMember,
    ScaleToZero,
    Step,
    Wait,
    target_of,
)

RETRY_FORMING_S = 0.3
RETRY_CAPPED_S = 60.0
MAX_ID = 40
"""Sufficient for the largest quorum with the longest spec.retire."""


def _unretired_ids(at: Situation, count: int) -> list[int]:
    retire = at.seen.wanted.retire
    return [each for each in range(1, MAX_ID) if each not in retire][:count]


def plan_identity(at: Situation) -> Step | None:
    """The step for a missing identity, or for objects to adopt. The first identity is created before anything else."""
    if at.identity is not None:
        return plan_adoption(at)
    if had_members(at):
        # Members without an identity: it was deleted. A new formation would orphan their data.
        return plan_adoption(at) or plan_missing_identity(at)
    earlier = plan_earlier(at)
    if earlier is not None:
        return earlier
    if at.seen.invalid is not None:
        return Wait(at.seen.invalid, "the spec", 5.0)
    founder = _unretired_ids(at, 1)[0]
    if at.seen.wanted.restores:
        # The restored log has all records. The other voters are added to it one at a time.
        return CreateIdentity(1, founder, 1, "a restored quorum needs an identity")
    return CreateIdentity(1, founder, at.seen.wanted.replicas, "a new quorum needs an identity")


def plan_new_formation(at: Situation) -> Step | None:
    """Repeat the formation if the founder's disk failed before the quorum was formed."""
    identity = at.identity
    assert identity is not None
    for each in at.seen.incarnations:
        # Their formation was abandoned before any write was acknowledged: stop them, keep the
        # claims.
        if each.formation < identity.index and each.replicas > 0 and _never_formed(at, each):
            return ScaleToZero(
                target_of(each), "formation given up", f"{each.name} belongs to no quorum"
            )
    changed = None if at.seen.invalid is not None else why_begins_again(at)
    if changed is not None and not at.seen.wanted.restores:
        return _next_formation(at, changed)
    if identity.formed or at.view is not None or not _founder_lost(at):
        return None
    if any(each.report is not None and each.report.formed for each in at.current):
        return None
    if _could_do_without_founder(at):
        return None
    if at.seen.wanted.restores:
        # The founder may have served briefly, so only the user may decide to start again.
        return Wait(
            f"the founder's disk failed before the restore of {at.seen.name} was complete: delete the resource and "
            "apply it again. The backup is unchanged",
            "the founder",
            5.0,
        )
    return _too_often(at) or _next_formation(
        at, "the founder's disk failed before the quorum was formed"
    )


def _next_formation(at: Situation, reason: str) -> CreateIdentity:
    identity = at.identity
    assert identity is not None
    return CreateIdentity(identity.index + 1, identity.founder_id, at.seen.wanted.replicas, reason)


def _too_often(at: Situation) -> Wait | None:
    """The step if the disks of too many members have failed on the storage that the spec asks for. Each formation takes
    new volumes, so a storage class without a usable one would be asked for ever more of them.
    """
    founder, limit = founder_incarnation(at), at.seen.wanted.max_replacements_per_hour
    assert founder is not None
    assert founder.failed is not None
    failures = at.recent_failures()
    if failures <= limit or founder.storage != at.seen.wanted.storage:
        return None
    return Wait(
        f"the quorum {at.seen.name} has not formed: the disks of {failures} members failed within the last hour, the last "
        f"one with {founder.failed.reason} ({founder.failed.evidence}). Correct spec.storage, or the storage class, and "
        "then raise the limit or wait until it permits the next attempt",
        "spec.repair.maxReplacementsPerHour",
        RETRY_CAPPED_S,
    )


def _never_formed(at: Situation, member: Incarnation) -> bool:
    """Whether its founder could still have formed the quorum: the permission is withdrawn once it has formed."""
    mates = [each for each in at.seen.incarnations if each.formation == member.formation]
    recorded = [each for each in at.seen.identities if each.index == member.formation]
    may_found = any(each.founding is not None for each in mates)
    return may_found and not any(each.formed for each in recorded)


def _has_begun(at: Situation) -> bool:
    """Whether this formation has begun: the founder is created before all other members."""
    claims = [each for each in at.own_claims if each.claim.marks.formation == at.index]
    return bool(at.current or claims) or at.known_voters > 0


def _founder_lost(at: Situation) -> bool:
    founder = founder_incarnation(at)
    return founder is not None and founder.failed is not None


def founder_incarnation(at: Situation) -> Incarnation | None:
    """The StatefulSet with the founder's UUID."""
    identity = at.identity
    if identity is None:
        return None
    return at.by_key.get(Key(identity.founder_id, identity.founder_uuid))


def _has_founder(at: Situation) -> bool:
    """Whether a member is the founder. Another member may have its id: the successor of a founder that led alone."""
    founder = founder_incarnation(at)
    return founder is not None or any(each.founding is not None for each in at.current)


def _could_do_without_founder(at: Situation) -> bool:
    """Whether the known voters have a majority without the founder."""
    identity, voters = at.identity, at.seen.hinted_voters
    if identity is None or voters is None:
        return False
    others = voters - {Key(identity.founder_id, identity.founder_uuid)}
    alive = [key for key in others if key in at.by_key and at.by_key[key].failed is None]
    return len(alive) >= majority(len(voters))


def plan_formation(at: Situation) -> Step | None:
    """Create all initial members at once; the founder first, because the others wait for it."""
    identity = at.identity
    assert identity is not None
    if identity.formed or at.view is not None:
        return None
    if at.seen.invalid is not None:
        return Wait(at.seen.invalid, "the spec", 5.0)
    others = [each for each in _unretired_ids(at, MAX_ID) if each != identity.founder_id]
    present = {each.node_id for each in at.current}
    if not _has_founder(at) and _has_begun(at):
        # It is unknown whether it has formatted a directory, so no other founder may use this
        # cluster id.
        return Wait(
            f"the founder's StatefulSet and claim were deleted before the quorum {at.seen.name} was formed: delete "
            "the resource and apply it again. No client data was written yet",
            "the founder",
            5.0,
        )
    for node_id in [identity.founder_id, *others[: identity.initial_voters - 1]]:
        if node_id not in present:
            return CreateMember(
                node_id=node_id,
                number=at.next_number(node_id),
                formation=identity.index,
                founder=node_id == identity.founder_id,
                replaces=None,
                reason=f"initial member {node_id}",
            )
    return Wait("the founder is starting", _why_no_leader(at), RETRY_FORMING_S)


def _why_no_leader(at: Situation) -> str:
    """The termination message of the founder's process, such as why a backup can't be restored."""
    identity = at.identity
    assert identity is not None
    founder = next((each for each in at.current if each.node_id == identity.founder_id), None)
    pod = founder.pod if founder is not None else None
    if founder is None or pod is None or pod.running or pod.ready:
        return "no leader yet"
    why = cannot_start(pod) or why_not_running(pod)
    return "no leader yet" if why is None else f"{founder.name}: {why}"
