"""Revokes a failure mark from an indirect sign when the sign turns out to be wrong.

For example a deleted Node object exists again, or a volume can be mounted. The member then holds everything that its
replica acknowledged, and is a better voter than an empty disk. Never revoked are marks from direct evidence (the
replica's own report, a lost volume, a different replica on the volume) and fences.

This happens only while the replica is still a voter of the committed set, no change is pending, and its successor,
which is not a voter yet, has stopped, so that two replicas of one id never run alternately. Then the member starts
again and the successor is removed.
"""

from quorum_operator.planner import evidence
from quorum_operator.planner.observed import Incarnation
from quorum_operator.planner.situation import Situation
from quorum_operator.planner.step import ScaleToZero, Step, Unlatch, Wait, target_of

RETRY_DELETED_S = 0.5


def plan_unlatching(at: Situation) -> Step | None:
    """The next step of revoking a failure mark, or None."""
    for each in at.current:
        why = refutation(at, each)
        if why is None or each.failed is None or not is_taken_back(at, each):
            continue
        for successor in successors(at, each):
            if successor.replicas > 0:
                reason = f"{successor.name} is no longer needed: {why}"
                return ScaleToZero(target_of(successor), "not needed", reason)
            if successor.pod is not None:
                reason = f"the failure mark of {each.name} is removed: {why}"
                return Wait(reason, f"{successor.pod.name} must be gone", RETRY_DELETED_S)
        reason = (
            f"{each.name}: {each.failed.reason} ({each.failed.evidence}) no longer holds: {why}"
        )
        return Unlatch(target_of(each), each.failed.at, reason)
    return None


def is_taken_back(at: Situation, each: Incarnation) -> bool:
    """Whether its failure mark is wrong and can be revoked, so that it needs no successor."""
    if refutation(at, each) is None or not may_be_unlatched(at, each):
        return False
    return not any(_may_run_on(at, successor) for successor in successors(at, each))


def refutation(at: Situation, each: Incarnation) -> str | None:
    """Why the sign of this failure mark no longer holds; None if it may still hold."""
    latch, pod, volume = each.failed, each.pod, each.volume
    if latch is None or latch.reason not in evidence.CIRCUMSTANCES:
        return None
    of_host = latch.reason == evidence.HOST_DELETED
    if of_host and volume is not None and volume.hosts and volume.hosts_exist:
        return f"the host of volume {volume.name} exists again"
    # For a pod that is gone or terminating, the leader's report refers to the past.
    if pod is None or pod.deleting or not pod.running:
        return None
    if each.key in at.in_contact:
        return f"{each.name} fetches from the leader"
    runs = not of_host and pod.exit_code is None
    return f"the container of {pod.name} runs" if runs else None


def may_be_unlatched(at: Situation, each: Incarnation) -> bool:
    """Whether it is a voter of the committed set, its successor is not, and no change is pending."""
    view = at.view
    if view is None or view.pending_change or not view.voters_committed:
        return False
    twins = [key for key in at.voters if key.id == each.node_id]
    return twins == [each.key]


def successors(at: Situation, each: Incarnation) -> list[Incarnation]:
    """Later incarnations of this member that may still run."""
    return [
        other
        for other in at.current
        if other.node_id == each.node_id and other.number > each.number and other.failed is None
    ]


def _may_run_on(at: Situation, successor: Incarnation) -> bool:
    """Whether the end of a stopped successor can't be awaited: its host is unreachable, or another client holds its pod
    back. The replacement then continues with another successor, because a wait would hold up everything else.
    """
    pod = successor.pod
    if successor.replicas > 0 or pod is None:
        return False
    return successor.name in at.reachability.unreachable or bool(pod.held_by)
