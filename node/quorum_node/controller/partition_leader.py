"""Which replica leads a partition: the one rule, for a failed broker, an ISR change, a reassignment, an election.

PURE. Owns the choice and nothing else: what it means for ISR, epochs and records is in
`partition_change.py`. Must not know where the partition's state is kept.
Source: the replication design V3, "B. Leader change"; KIP-460 (kinds of election), KIP-966 (replicas that may
lead although they left the ISR).

In order: the leader stays if it may; else the first assigned replica that is in the ISR and alive; with
eligible leader replicas, one of those or the last leader when the ISR is empty; and only if data may be lost
for it (`unclean.leader.election.enable`, or an operator's order) any assigned replica that is alive.
"""

from collections.abc import Callable, Collection, Sequence
from enum import Enum
from typing import NamedTuple

from quorum_node.records.metadata import NO_LEADER


class Election(Enum):
    """What the election is for."""

    PREFERRED = "preferred"
    """The first replica of the assignment, if it may lead; else as ONLINE."""
    ONLINE = "online"
    """Keep the partition online, never at the price of acknowledged messages."""
    UNCLEAN = "unclean"
    """Keep it online even if acknowledged messages are lost."""


class Candidates(NamedTuple):
    """Who may be elected, as the partition shall be after the change."""

    leader: int
    replicas: Sequence[int]
    isr: Collection[int]
    eligible: Collection[int] = ()
    """Eligible leader replicas, used when nobody is in the ISR."""
    last_leader: int = NO_LEADER
    """Who led when ISR and eligible replicas became empty; NO_LEADER if that isn't known."""


class Elected(NamedTuple):
    """The choice."""

    leader: int
    unclean: bool


def kept_or_first(
    leader: int,
    replicas: Sequence[int],
    electable: Collection[int],
    is_acceptable: Callable[[int], bool],
) -> int:
    """The leader if it may stay, else the first assigned replica that may lead; NO_LEADER if none of them may."""
    if leader in electable and is_acceptable(leader):
        return leader
    for replica in replicas:
        if replica in electable and is_acceptable(replica):
            return replica
    return NO_LEADER


def elect(
    candidates: Candidates, is_acceptable: Callable[[int], bool], election: Election
) -> Elected:
    """The replica that shall lead; NO_LEADER if none may.

    `is_acceptable` says of a replica that it is alive and has its directory; ISR membership is looked at here.
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
