"""Majorities: the arithmetic of votes and commits, apart from everything that uses it.

Owns counting. Must not know roles or messages. Source: KIP-595, "High watermark"; the second
majority (latest committed voter set) is what apache/kafka#18987 found missing.
"""

from collections.abc import Callable, Collection

from quorum_node.raft.voters import VoterSet
from quorum_node.records.identity import ReplicaKey


def majority(size: int) -> int:
    """Smallest number that is more than half."""
    return size // 2 + 1


def majority_value(voters: VoterSet, value_of: Callable[[ReplicaKey], float]) -> float:
    """The largest value that a majority of `voters` has reached. The set must not be empty."""
    values = [value_of(key) for key in voters.ordered_keys]
    values.sort()
    return values[(len(values) - 1) // 2]


def has_majority(voters: VoterSet, keys: Collection[ReplicaKey]) -> bool:
    """Whether `keys` holds a majority of `voters`; anyone else in it is not counted."""
    return sum(key in keys for key in voters.ordered_keys) >= majority(len(voters))


def can_reach_majority(voters: VoterSet, rejected: Collection[ReplicaKey]) -> bool:
    """Whether a majority is left among those who have not rejected."""
    open_or_granted = sum(key not in rejected for key in voters.ordered_keys)
    return open_or_granted >= majority(len(voters))
