"""Chooses the leader of a partition: one rule for failed brokers, ISR changes, reassignments and
elections.

PURE. Owns only the choice. Its effects on ISR, epochs and records are in `partition_change.py`.
Must not know where the partition's state is kept.
Source: the replication design V3, "B. Leader change"; KIP-460 (kinds of election), KIP-966
(eligible leader replicas).

Order of preference: the present leader if it can stay; else the first assigned replica that is
active and in the ISR; with eligible leader replicas and an empty ISR, one of those or the last
known leader; and only if data loss is permitted (`unclean.leader.election.enable`, or an operator's
order) any assigned replica that is active.
"""

from collections.abc import Callable, Collection, Sequence
from enum import Enum
from typing import NamedTuple

from quorum_node.records.metadata import NO_LEADER


class Election(Enum):
    """Kind of election."""

    PREFERRED = "preferred"
    """The first assigned replica if it can lead; else as ONLINE."""
    ONLINE = "online"
    """Keep the partition online, but never with the loss of acknowledged messages."""
    UNCLEAN = "unclean"
    """Keep the partition online, even with the loss of acknowledged messages."""


class Candidates(NamedTuple):
    """The replicas that can be elected, in the state after the change."""

    leader: int
    replicas: Sequence[int]
    isr: Collection[int]
    eligible: Collection[int] = ()
    """Eligible leader replicas, used when the ISR is empty."""
    last_leader: int = NO_LEADER
    """Last leader before ISR and eligible replicas became empty; NO_LEADER if unknown."""


class Elected(NamedTuple):
    """The result."""

    leader: int
    unclean: bool


def kept_or_first(
    leader: int,
    replicas: Sequence[int],
    electable: Collection[int],
    is_acceptable: Callable[[int], bool],
) -> int:
    """The present leader if it can stay, else the first assigned replica that can lead; NO_LEADER
    if there is none.
    """
    if leader in electable and is_acceptable(leader):
        return leader
    for replica in replicas:
        if replica in electable and is_acceptable(replica):
            return replica
    return NO_LEADER


def elect(
    candidates: Candidates, is_acceptable: Callable[[int], bool], election: Election
) -> Elected:
    """The replica to be leader; NO_LEADER if none can be.

    `is_acceptable`: whether a replica is active and its directory is online. ISR membership is
    checked here.
    """
    electable = candidates.isr or candidates.eligible
    if election is Election.PREFERRED and candidates.replicas:
        preferred = candidates.replicas[0]
        if preferred in electable and is_acceptable(preferred):
            return Elected(preferred, unclean=False)
    found = kept_or_first(candidates.leader, candidates.replicas, electable, is_acceptable)
    if found != NO_LEADER:
        return Elected(found, unclean=False)
    last = candidates.last_leader
    if last != NO_LEADER and not electable and is_acceptable(last):
        return Elected(last, unclean=True)
    if election is Election.UNCLEAN:
        for replica in candidates.replicas:
            if is_acceptable(replica):
                return Elected(replica, unclean=True)
    return Elected(NO_LEADER, unclean=False)
