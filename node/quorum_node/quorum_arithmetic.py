"""Number of voters that is required to decide, to add a voter, or to remove a voter.

Owns the numbers of the change rule, the tolerance rule and the rule of witnesses. Node and operator
both use it, so they reach the same verdict. Must not know voters, roles or messages: the caller
decides which voters are live and which are exempt from a rule. Imports only modules of the standard
library.
Source: KIP-595, "High watermark" (majority) and "Reassignment Algorithm"; change rule and tolerance
rule of this project.

A voter is live if it is the leader, or if it fetches and has caught up. Observers never count.
"""


def majority(size: int) -> int:
    """Smallest number of voters that is more than half of `size`."""
    return size // 2 + 1


def tolerance(size: int, live: int) -> int:
    """How many of the `live` voters of a set of `size` may fail before the majority is lost.
    Negative: there is no majority now.
    """
    return live - majority(size)


def live_to_add(size: int) -> int:
    """Live voters that are required in a set of `size` before a voter is added. The new voter
    counts as dead.

    In a set of one, the only voter is the leader, and live.
    """
    return 0 if size == 1 else majority(size + 1)


def live_to_remove(size: int) -> int:
    """Live voters that are required among the others before a voter is removed from a set of
    `size`.
    """
    return majority(size - 1)


def least_tolerance(target_size: int) -> int:
    """Lowest tolerance that a removal may leave on the way to `target_size` voters: that of the
    target, less one.
    """
    return max(0, tolerance(target_size, target_size) - 1)


def lowers_tolerance(size: int, live: int, live_others: int, target_size: int) -> bool:
    """Whether removing a voter from a set of `size` would lower the tolerance below the permitted
    minimum.

    `live_others`: live voters that remain. A removal that leaves the tolerance unchanged is
    permitted, even if the tolerance is below the minimum already.
    """
    after = tolerance(size - 1, live_others)
    return after < min(tolerance(size, live), least_tolerance(target_size))


def may_have_witnesses(size: int, witnesses: int) -> bool:
    """Whether every majority of `size` voters contains a voter that can become leader.
    Otherwise committed records could exist on witnesses alone.
    """
    return witnesses < majority(size)
