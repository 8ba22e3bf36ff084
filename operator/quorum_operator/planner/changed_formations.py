"""Formations that can't be completed with the spec that they began with: they begin again with the corrected one.

Owns the conditions. A quorum rejects writes until all initial voters have joined, and only the operator adds them, so
a new cluster id loses nothing before that. The storage of a member and the number of initial voters are part of a
formation; images, resources and placement are corrected in place (`restart.py`).
"""

from quorum_operator.planner.member_problems import cannot_start
from quorum_operator.planner.observed import Incarnation, Key
from quorum_operator.planner.situation import Situation

GRACE_S = 10.0
"""Age of a pod before it counts as one that can't start: longer than a scheduler and a provisioner usually take."""


def why_begins_again(at: Situation) -> str | None:
    """Why the formation in progress is given up for one with the present spec; None if it goes on."""
    identity = at.identity
    if identity is None or identity.formed:
        return None
    return _other_storage(at) or _fewer_voters(at)


def _other_storage(at: Situation) -> str | None:
    """The founder's claim was never bound, and spec.storage is another one now. A claim that is bound is corrected by a
    move after the formation.
    """
    identity = at.identity
    assert identity is not None
    founder = at.by_key.get(Key(identity.founder_id, identity.founder_uuid))
    if founder is None or at.view is not None or founder.storage == at.seen.wanted.storage:
        return None
    return (
        f"the claim of {founder.name} was never bound, and spec.storage has changed"
        if _never_ran(founder)
        else None
    )


def _never_ran(each: Incarnation) -> bool:
    claim, pod = each.claim, each.pod
    is_unbound = claim is not None and claim.phase == "Pending" and claim.volume is None
    return is_unbound and each.report is None and (pod is None or not pod.started)


def _fewer_voters(at: Situation) -> str | None:
    """The spec asks for fewer voters than the formation, and some of those can't start."""
    identity, wanted = at.identity, at.seen.wanted.replicas
    assert identity is not None
    if wanted >= identity.initial_voters:
        return None
    stuck = [each.name for each in at.current if each.key not in at.voters and _is_stuck(at, each)]
    if not stuck:
        return None
    return (
        f"it began with {identity.initial_voters} voters, of which {', '.join(stuck)} can't start, and the spec asks for "
        f"{wanted} now"
    )


def _is_stuck(at: Situation, each: Incarnation) -> bool:
    pod = each.pod
    if pod is None:
        return each.not_made is not None
    is_waiting = pod.unschedulable is not None or cannot_start(pod) is not None
    return is_waiting and not pod.running and at.now - pod.created_at >= GRACE_S
