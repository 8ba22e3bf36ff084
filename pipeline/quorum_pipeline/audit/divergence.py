"""Diverged replicas: their log ends with records that were never committed. PURE.

A leader that fails may have written records that no majority has got. The next leader writes others at these offsets, and
the replica removes its own ones when it fetches again; until then its log ends with them. This is no damage. Owns how it
is distinguished from damage: from the first differing batch on the replica never agrees again, no batch there has the epoch of the
majority's, a majority has gone on with later epochs, and the replica does not know that such a record was committed.
Source: Raft (Ongaro and Ousterhout, 2014), figure 7; KIP-595, "Log".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quorum_node.quorum_arithmetic import majority

if TYPE_CHECKING:
    from quorum_pipeline.audit.log_matching import BatchFingerprint, ReplicaRange

_NEVER = -1


@dataclass(slots=True)
class Divergence:
    """How a replica differs from a majority, in one block or more. `differs_at`: first offset at which it has another batch, or none;
    `agrees_at`: last offset at which it has the same one. `contradicts`: it has another batch of the same epoch; or, first of
    all, the same content with another epoch, as after damage that a checksum does not cover.
    """

    differs_at: int = _NEVER
    agrees_at: int = _NEVER
    contradicts: bool = False

    @property
    def is_known(self) -> bool:
        """Whether anything was compared."""
        return (self.differs_at, self.agrees_at) != (_NEVER, _NEVER)

    def compare(self, offset: int, batch: BatchFingerprint, right: BatchFingerprint) -> None:
        """Compare its batch at an offset with that of a majority; offsets ascend."""
        if batch.identity == right.identity:
            self.agrees_at = offset
            return
        is_first = self.differs_at == _NEVER
        self.contradicts |= batch.epoch == right.epoch or (is_first and batch.crc == right.crc)
        self.add_missing(offset)

    def add_missing(self, offset: int) -> None:
        """It has no batch there that begins where that of a majority does."""
        if self.differs_at == _NEVER:
            self.differs_at = offset

    def append(self, other: Divergence) -> None:
        """Append what follows."""
        if self.differs_at == _NEVER:
            self.differs_at = other.differs_at
        self.agrees_at = max(self.agrees_at, other.agrees_at)
        self.contradicts |= other.contradicts


def diverged_replicas(
    replicas: Sequence[ReplicaRange],
    same_to: Sequence[int],
    compared: Sequence[Sequence[tuple[int, Divergence]]],
) -> Mapping[int, int]:
    """Return the diverged replicas, by number, with the first offset of what was never committed there.

    `same_to`: see `log_matching.Agreement`; `compared`: replicas of the blocks that differ, in order.
    """
    divergences = [Divergence(agrees_at=offset) for offset in same_to]
    for block in compared:
        for number, each in block:
            divergences[number].append(each)
    epochs = [each.last_epoch for each in replicas]
    found = {}
    for number, (divergence, replica) in enumerate(zip(divergences, replicas, strict=False)):
        later = sum(each > replica.last_epoch for each in epochs)
        if (
            divergence.differs_at > divergence.agrees_at
            and not divergence.contradicts
            and not replica.is_cut
            and replica.known_end <= divergence.differs_at
            and later >= majority(len(replicas))
        ):
            found[number] = divergence.differs_at
    return found
