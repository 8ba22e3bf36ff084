"""Replica lists of a partition during a reassignment: the AR/RAR state machine, in terms of Kafka's
records.

PURE. Owns start, end and cancellation as plain lists of replicas. Must not know records, leaders or
requests (`partition_change.py`, `reassignments.py`).
Source: the replication design V3, "F. Replica reassignment" (AR, the assigned replicas, become RAR,
the reassigned ones, when all of those are in the ISR); KIP-455.

During a reassignment `replicas` is RAR followed by the replicas to be removed; `adding` and
`removing` list the new and the removed ones. The records contain the whole state, so a new
controller can continue.
"""

from collections.abc import Sequence
from typing import NamedTuple

Replicas = tuple[int, ...]


class Move(NamedTuple):
    """The replica lists of a partition, in reassignment or not."""

    replicas: Replicas
    removing: Replicas = ()
    adding: Replicas = ()

    @property
    def is_moving(self) -> bool:
        """Whether a reassignment is in progress."""
        return bool(self.removing or self.adding)

    @property
    def original(self) -> Replicas:
        """AR: the replicas without the added ones."""
        return tuple(each for each in self.replicas if each not in self.adding)


class Ended(NamedTuple):
    """The lists after a reassignment has ended."""

    replicas: Replicas
    isr: Replicas


class Reverted(NamedTuple):
    """The lists after a cancellation; `unclean` if no remaining replica is in the ISR."""

    replicas: Replicas
    isr: Replicas
    unclean: bool


def begin(now: Move, isr: Sequence[int], target: Sequence[int]) -> tuple[Move, Replicas]:
    """The lists at the start of a reassignment to `target`, and the ISR without dropped replicas.

    It replaces a reassignment in progress. The new one starts at the same AR, so that its
    cancellation returns there (KIP-455). Replicas that the old one was adding and the new one does
    not want are dropped at once. If the ISR has no other member they stay, and are removed at the
    end of the new one.
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
    """The lists after the switch to RAR; None while a replica of RAR is not in the ISR."""
    if not move.is_moving:
        return None
    replicas = tuple(each for each in move.replicas if each not in move.removing)
    staying = tuple(each for each in isr if each not in move.removing)
    if not replicas or not staying or not set(replicas) <= set(staying):
        return None
    return Ended(replicas, staying)


def revert(move: Move, isr: Sequence[int]) -> Reverted:
    """The lists after a cancellation: AR, and its members in the ISR.

    If there is none, the first of AR becomes leader, and data that only the added replicas had is
    lost. This is an unclean election, which the caller has to permit.
    """
    replicas = move.original
    assert replicas, "a reassignment always keeps the replicas that it began with until it ends"
    staying = tuple(each for each in isr if each not in move.adding)
    if staying:
        return Reverted(replicas, staying, unclean=False)
    return Reverted(replicas, replicas[:1], unclean=True)
