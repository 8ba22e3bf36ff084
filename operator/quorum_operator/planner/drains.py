"""Drains: how many pods have to stay ready, so that an eviction never costs the majority.

The API server counts pods that are ready, and knows nothing of voters. A dead voter has no pod that is missed, and an observer that
catches up is ready like a voter: with a fixed number an eviction during a repair would take one of two live voters of three. So
the number follows the voters, and each other pod that may be ready is counted on top of it.
"""

from quorum_node.quorum_arithmetic import majority
from quorum_operator.planner.situation import Situation
from quorum_operator.planner.step import GuardDrains, Step


def least_ready(voters: int, wanted: int, others: int = 0) -> int:
    """Pods that have to stay ready: a majority of the voters, and as many as the others could be taken for. Where one or two
    voters are wanted, one may go all the same: else its host could never be drained."""
    kept = majority(voters)
    return (min(kept, voters - 1) if wanted <= 2 else kept) + others


def plan_guard(at: Situation) -> Step | None:
    """Bring the budget to the voters that there are."""
    found, view = at.seen.drain_floor, at.view
    if found is None or view is None or not view.formed:
        return None
    others = sum(
        1
        for each in at.seen.incarnations
        if each.key not in at.voters and each.pod is not None and each.pod.running
    )
    wanted = least_ready(len(at.voters), at.target, others)
    if wanted == found:
        return None
    beside = f", and {others} beside them" if others else ""
    reason = f"{len(at.voters)} voters{beside}: {wanted} pods stay ready when hosts are drained"
    return GuardDrains(wanted, reason)
