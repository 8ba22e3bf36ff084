"""How many voters are enough: for a decision, for adding one, for removing one.

Owns the numbers of the change rule, the tolerance rule and the rule of witnesses. Node and operator judge by it, so both
give the same verdict on the same numbers. Must not know voters, replicas, roles or messages: who is live, and who is exempt
from a rule, is the caller's to say. A module of the standard library is all that it may import.

Source: KIP-595, "High watermark" (majority) and "Reassignment Algorithm"; the project's change rule and tolerance rule.
Live is a voter that fetches and has caught up, or the leader. Observers never count.
"""


def majority(size: int) -> int:
    """Smallest number of voters that is more than half of `size`."""
    return size // 2 + 1


def tolerance(size: int, live: int) -> int:
    """How many of the `live` voters of a set of `size` may still fail. Negative: there is no majority now."""
    return live - majority(size)


def live_to_add(size: int) -> int:
    """How many voters of a set of `size` have to be live before one is added, which counts as dead.

    A single voter has nobody to lose; the only voter of a set is its leader, and live.
    """
    return 0 if size == 1 else majority(size + 1)


def live_to_remove(size: int) -> int:
    """How many of the others have to be live before one voter of a set of `size` is removed."""
    return majority(size - 1)


def least_tolerance(target_size: int) -> int:
    """On the way to a set of `target_size` no removal may lower the tolerance below this: one less than the target's."""
    return max(0, tolerance(target_size, target_size) - 1)


def lowers_tolerance(size: int, live: int, live_others: int, target_size: int) -> bool:
    """Whether a removal from `size` voters, which leaves `live_others` of them live, is one that the floor forbids.

    One that leaves the tolerance as it is, is never forbidden: it may be below the floor already.
    """
    after = tolerance(size - 1, live_others)
    return after < min(tolerance(size, live), least_tolerance(target_size))


def may_have_witnesses(size: int, witnesses: int) -> bool:
    """Whether every majority of `size` voters holds one that may lead. Else records could outlive all leaders."""
    return witnesses < majority(size)
