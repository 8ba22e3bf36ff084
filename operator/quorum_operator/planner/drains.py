"""Drains: how many pods have to stay ready, so that an eviction never breaks the majority.

The API server counts ready pods and does not know voters. A failed voter may have no pod, and an observer that
catches up is ready like a voter. With a fixed number, an eviction during a repair could take one of two live voters
of three. So the number is derived from the voters, plus the number of other pods that may be ready.
"""

from quorum_node.quorum_arithmetic import majority
from quorum_operator.planner.situation import Situation
from quorum_operator.planner.step import GuardDrains, Step
from quorum_operator.planner.stray_pods import may_be_voter


def least_ready(voters: int, wanted: int, others: int = 0) -> int:
    """Number of pods that have to stay ready: a majority of the voters plus the other pods. With one or two voters
    one may be evicted, because otherwise its host could never be drained.
    """
    kept = majority(voters)
    return (min(kept, voters - 1) if wanted <= 2 else kept) + others


def plan_guard(at: Situation) -> Step | None:
    """Update the budget for the current voters."""
    found, view = at.seen.drain_floor, at.view
    if found is None or view is None or not view.formed:
        return None
    others = sum(
        1
        for each in at.seen.incarnations
        if each.key not in at.voters and each.pod is not None and each.pod.running
    )
    # The budget selects by labels, so pods without a StatefulSet count as well.
    others += sum(
        1 for each in at.seen.stray_pods if each.pod.running and not may_be_voter(at, each)
    )
    wanted = least_ready(len(at.voters), at.target, others)
    if wanted == found:
        return None
    beside = f" and {_counted(others, 'other member')}" if others else ""
    voters = _counted(len(at.voters), "voter")
    reason = f"{voters}{beside}: a drain leaves at least {_counted(wanted, 'pod')} ready"
    return GuardDrains(wanted, reason)


def _counted(number: int, noun: str) -> str:
    """A number with its noun: `1 voter`, `3 voters`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
