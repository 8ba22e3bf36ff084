"""What a reassignment does to a partition's replica lists: the AR/RAR machine in the terms of Kafka's records.

PURE. Owns beginning, end and reversal as plain lists of replicas. Must not know records, leaders or requests
(`partition_change.py`, `reassignments.py`).
Source: the replication design V3, "F. Replica reassignment" (AR, the assigned replicas, become RAR, the
reassigned ones, when every one of those is in the ISR); KIP-455.

While it goes on, `replicas` is RAR followed by what is going to leave; `adding` and `removing` say which are
new and which leave. That is all its state: it is in the records, so whoever becomes controller goes on.
"""

from collections.abc import Sequence
from typing import NamedTuple

Replicas = tuple[int, ...]


class Move(NamedTuple):
    """The replica lists of a partition that is (not) moving."""

    replicas: Replicas
    removing: Replicas = ()
    adding: Replicas = ()

    @property
    def is_moving(self) -> bool:
        """Whether a reassignment goes on."""
        return bool(self.removing or self.adding)

    @property
    def original(self) -> Replicas:
        """AR: without what was added."""
        return tuple(each for each in self.replicas if each not in self.adding)


class Ended(NamedTuple):
    """What is left when a reassignment ends."""

    replicas: Replicas
    isr: Replicas


class Reverted(NamedTuple):
    """What is left when a reassignment is cancelled; `unclean` if nobody who stays is in the ISR."""

    replicas: Replicas
    isr: Replicas
    unclean: bool


def begin(now: Move, isr: Sequence[int], target: Sequence[int]) -> tuple[Move, Replicas]:
    """The lists at the start of a move to `target`, and the ISR without replicas that are dropped.

    A move that goes on is replaced. The new one starts at the same AR, so that cancelling it leads back
    there (KIP-455); replicas that the old one was adding and the new one doesn't want go at once. If nobody
    else is in the ISR they can't, and leave at the end of the new move like every other replica.
    """
    dropped = set(now.adding) - set(target)
    staying = tuple(each for each in isr if each not in dropped)
    current = set(now.original)
    if not staying:
        current, staying = set(now.replicas), tuple(isr)
    removing = tuple(sorted(current - set(target)))
    adding = tuple(sorted(set(target) - current))
    return Move((*target, *removing), removing, adding), staying


def end(move: Move, isr: Sequence[int]) -> Ended | None:
    """The lists after the switch to RAR; None while a replica of it is not in the ISR."""
    if not move.is_moving:
        return None
    replicas = tuple(each for each in move.replicas if each not in move.removing)
    staying = tuple(each for each in isr if each not in move.removing)
    if not replicas or not staying or not set(replicas) <= set(staying):
        return None
    return Ended(replicas, staying)


def revert(move: Move, isr: Sequence[int]) -> Reverted:
    """The lists after cancelling: AR, and who of it is in the ISR.

    If none is, the first of AR takes its place, and what only the added replicas had is lost: an unclean
    election, which the caller has to be allowed.
    """
    replicas = move.original
    assert replicas, "a reassignment always keeps the replicas that it began with until it ends"
    staying = tuple(each for each in isr if each not in move.adding)
    if staying:
        return Reverted(replicas, staying, unclean=False)
    return Reverted(replicas, replicas[:1], unclean=True)
