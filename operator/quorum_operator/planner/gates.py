"""Safety gates: whether a voter change or a restart is allowed now.

Owns which voters count as live, and the blocking reasons. The required numbers (change rule, majority of the new set,
minimum failure tolerance) come from `quorum_node.quorum_arithmetic`, which the node uses too. A gate returns None if
it is open, else the reason. Live is the leader, or a voter that fetches and has caught up; observers never count.
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
    """Voters that can acknowledge the next commit."""
    return frozenset(
        voter.key
        for voter in view.voters
        if voter.key == view.leader or (voter.fetching and voter.caught_up)
    )


def voter_keys(view: QuorumView) -> frozenset[Key]:
    """The voter set."""
    return frozenset(voter.key for voter in view.voters)


def change_gate(view: QuorumView) -> str | None:
    """Why no membership change may start now; None if one may."""
    if view.pending_change:
        return "a voter change is in progress"
    if not view.voters_committed:
        return "the last voters record is not committed yet"
    if not view.own_epoch_committed:
        return "the leader has not committed a record of its own epoch yet"
    return None


def add_gate(
    view: QuorumView,
    order: ReplacementOrder,
    replacing: bool,
    failed: frozenset[Key] = frozenset(),
) -> str | None:
    """Why no voter may be added; None if one may. The new voter counts as not live, except during the formation or
    with a single voter.

    `replacing`: it replaces a voter to be removed. With `AddFirst`, chosen by the user, it then counts as live.
    `failed`: voters to be removed whose process has ended. The leader counts them as live until their fetch timeout ends.
    """
    blocked = change_gate(view)
    if blocked is not None:
        return blocked
    size = len(view.voters)
    if not view.formed:
        return None
    live = len(live_voters(view) - failed)
    if replacing and order is ReplacementOrder.ADD_FIRST:
        live += 1
    needed = live_to_add(size)
    if live < needed:
        return f"{live} of {size} voters are live, adding one needs {needed}"
    return None


def remove_gate(view: QuorumView, key: Key, target: int) -> str | None:
    """Why `key` may not be removed; None if it may. The remaining voters must have a live majority and the minimum
    failure tolerance.
    """
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
    """Why the voter `key` may not be restarted; None if it may."""
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
        return f"fewer than {majority(size)} other voters are live"
    return None
