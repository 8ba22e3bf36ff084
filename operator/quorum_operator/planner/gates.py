"""Safety gates: may this voter change, or this restart, happen now?

Owns who counts as live, and what stands in the way. How many are enough (change rule, majority of
the new set, floor of the failure tolerance) is `quorum_node.quorum_arithmetic`'s, by which the node
judges as well. Every gate returns None when it is open, else what blocks it, in words. Live means: a
voter that is fetching and caught up, or the leader; observers never count.
"""

from quorum_node.quorum_arithmetic import (
    least_tolerance,
    live_to_add,
    live_to_remove,
    lowers_tolerance,
    majority,
    tolerance,
)
from quorum_operator.crd import ReplacementOrder
from quorum_operator.planner.observed import Key, QuorumView


def live_voters(view: QuorumView) -> frozenset[Key]:
    """Voters that would answer the next commit."""
    return frozenset(
        voter.key
        for voter in view.voters
        if voter.key == view.leader or (voter.fetching and voter.caught_up)
    )


def voter_keys(view: QuorumView) -> frozenset[Key]:
    """The voter set."""
    return frozenset(voter.key for voter in view.voters)


def change_gate(view: QuorumView) -> str | None:
    """Before any membership change."""
    if view.pending_change:
        return "a voter change is not committed yet"
    if not view.voters_committed:
        return "the last voters record is not committed yet"
    if not view.own_epoch_committed:
        return "the leader has not committed a record of its own epoch yet"
    return None


def add_gate(view: QuorumView, order: ReplacementOrder, replacing: bool) -> str | None:
    """May one more voter be added? The newcomer counts as dead.

    Exempt are a single voter and the formation. `replacing` says that the newcomer stands in for a
    voter that leaves: with `AddFirst` the caught-up newcomer then counts as live (the draft's
    order, chosen by the user).
    """
    blocked = change_gate(view)
    if blocked is not None:
        return blocked
    size = len(view.voters)
    if not view.formed:
        return None
    live = len(live_voters(view))
    if replacing and order is ReplacementOrder.ADD_FIRST:
        live += 1
    needed = live_to_add(size)
    if live < needed:
        return f"{live} of {size} voters are live, adding one needs {needed}"
    return None


def remove_gate(view: QuorumView, key: Key, target: int) -> str | None:
    """May `key` leave? The voters that remain must be a live majority of themselves."""
    blocked = change_gate(view)
    if blocked is not None:
        return blocked
    size, live = len(view.voters), live_voters(view)
    remaining, needed = len(live - {key}), live_to_remove(size)
    if size < 2:
        return "the last voter can't be removed"
    if remaining < needed:
        return (
            f"only {remaining} of the {size - 1} voters that would remain are live,"
            f" {needed} are needed"
        )
    if lowers_tolerance(size, len(live), remaining, target):
        after, floor = tolerance(size - 1, remaining), least_tolerance(target)
        return f"the failure tolerance would fall to {after}, below {floor}"
    return None


def restart_gate(view: QuorumView, key: Key, wanted: int) -> str | None:
    """May the voter `key` be down for a moment? Of `wanted` voters, one or two, nobody could be spared ever: writes stop for that moment."""
    blocked = change_gate(view)
    if blocked is not None:
        return blocked
    size, live = len(view.voters), live_voters(view)
    if size == 1:
        return None
    if live != voter_keys(view):
        return "not all voters are live"
    if size == wanted == 2:
        return None
    if len(live - {key}) < majority(size):
        return f"the other voters are fewer than {majority(size)}"
    return None
