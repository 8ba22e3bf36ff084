"""Pods of members whose StatefulSet was deleted with --cascade=orphan.

Owns which of them are ended. The set of a voter is created again for its claim (`rebuilding.py`), and its controller
adopts the pod. Nobody else would end a pod of another replica: it would go on running, and hold its volume. A recovery
ends the pods of all old voters first: a majority of them would be a second quorum of the same cluster.
"""

from quorum_operator.planner.observed import Key, StrayPod
from quorum_operator.planner.recovery import is_accepted, under_way
from quorum_operator.planner.refusals import first_not_held
from quorum_operator.planner.situation import Situation
from quorum_operator.planner.step import DeleteStrayPod, Step

UNCONFIRMED = "no majority confirms a leader"


def plan_stray_pods(at: Situation) -> Step | None:
    """The next pod to end with a confirmed leader."""
    if at.view is None:
        return None
    return first_not_held(at.seen, (_end(each) for each in due(at)))


def due(at: Situation) -> list[StrayPod]:
    """The pods that are to be ended now."""
    found = [each for each in at.seen.stray_pods if not each.pod.deleting]
    return [each for each in found if objection(at, each) is None]


def _end(each: StrayPod) -> DeleteStrayPod:
    reason = f"{each.pod.name} has no StatefulSet, and its replica is no voter"
    return DeleteStrayPod(each.pod.name, each.pod.uid, reason)


def objection(at: Situation, each: StrayPod) -> str | None:
    """Why this pod must not be ended now; None if it may be."""
    view, survivor = at.view, under_way(at)
    if view is None:
        if survivor is None or not is_accepted(at, survivor):
            return UNCONFIRMED
        is_survivor = (each.node_id, each.number) == (survivor.node_id, survivor.number)
        return f"{each.pod.name} is the survivor's" if is_survivor else None
    if view.pending_change or not view.voters_committed:
        return f"an uncommitted voter change may concern {each.pod.name}"
    if each.node_id in {target.id for target in view.target_voters or ()}:
        return f"{each.pod.name} may be the target voter {each.node_id}"
    if may_be_voter(at, each):
        return f"{each.pod.name} may be the voter {each.node_id}"
    return None


def may_be_voter(at: Situation, each: StrayPod) -> bool:
    """Whether its replica is a voter, or may be one: its UUID is unknown, and no other member is the voter of its id."""
    key = key_of(at, each)
    if key is not None:
        return key in at.voters
    voters = {one for one in at.voters if one.id == each.node_id}
    return not voters <= {one.key for one in at.current}


def key_of(at: Situation, each: StrayPod) -> Key | None:
    """Its replica key, as written on its claim."""
    member = (each.node_id, each.number)
    claims = (one for one in at.seen.lone_claims if (one.node_id, one.number) == member)
    return next((one.key for one in claims), None)
