"""Majorities of a voter set, for votes and commits.

Owns counting replica keys; `quorum_arithmetic` defines how many are enough. Must not know roles or
messages. Source: KIP-595, "High watermark"; apache/kafka#18987 found that the second majority
(latest committed voter set) was missing.
"""

from collections.abc import Callable, Collection

from quorum_node.quorum_arithmetic import majority
from quorum_node.raft.voters import VoterSet
from quorum_node.records.identity import ReplicaKey


def majority_value(voters: VoterSet, value_of: Callable[[ReplicaKey], float]) -> float:
    """The largest value that a majority of `voters` has reached. The set must not be empty."""
    values = [value_of(key) for key in voters.ordered_keys]
    values.sort()
    return values[-majority(len(values))]


def has_majority(voters: VoterSet, keys: Collection[ReplicaKey]) -> bool:
    """Whether `keys` contains a majority of `voters`; other keys are not counted."""
    return sum(key in keys for key in voters.ordered_keys) >= majority(len(voters))


def can_reach_majority(voters: VoterSet, rejected: Collection[ReplicaKey]) -> bool:
    """Whether the voters that have not rejected include a majority."""
    open_or_granted = sum(key not in rejected for key in voters.ordered_keys)
    return open_or_granted >= majority(len(voters))
