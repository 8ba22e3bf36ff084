"""Leader epochs and their start offsets. PURE.

Owns the list and the divergence arithmetic of both sides. Must not know files. A leader adds its epoch when it is
elected, also without records, so the list may be ahead of the log.
Source: KIP-101, KIP-279 and KIP-595, "Log reconciliation"; the rules of a stock broker's leader epoch cache.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import NamedTuple

NO_EPOCH = -1


class EpochEnd(NamedTuple):
    """End offset of `epoch` (exclusive)."""

    epoch: int
    end_offset: int


class EpochHistory:
    """(epoch, start offset), both ascending."""

    __slots__ = ("_epochs", "_offsets")

    def __init__(self, starts: Iterable[tuple[int, int]] = ()) -> None:
        self._epochs: list[int] = []
        self._offsets: list[int] = []
        for epoch, offset in starts:
            self.enter(epoch, offset)

    @property
    def starts(self) -> tuple[tuple[int, int], ...]:
        """Content of leader-epoch-checkpoint."""
        return tuple(zip(self._epochs, self._offsets, strict=True))

    @property
    def latest(self) -> int:
        """The newest epoch, or NO_EPOCH."""
        return self._epochs[-1] if self._epochs else NO_EPOCH

    def enter(self, epoch: int, start_offset: int) -> None:
        """`epoch` starts at `start_offset`. An older epoch without records there is replaced."""
        if epoch == self.latest:
            return
        assert epoch > self.latest, f"epoch {epoch} after {self.latest}"
        self.cut_end(start_offset)
        self._epochs.append(epoch)
        self._offsets.append(start_offset)

    def cut_end(self, end_offset: int) -> None:
        """Remove epochs that start at or after `end_offset`."""
        keep = bisect_left(self._offsets, end_offset)
        del self._epochs[keep:]
        del self._offsets[keep:]

    def cut_start(self, start_offset: int) -> None:
        """The log starts at `start_offset`: the epoch of that offset starts there, older ones are removed."""
        covering = bisect_right(self._offsets, start_offset) - 1
        if covering < 0:
            return
        del self._epochs[:covering]
        del self._offsets[:covering]
        self._offsets[0] = start_offset

    def end_of(self, epoch: int, log_end_offset: int) -> EpochEnd | None:
        """The largest known epoch at or below `epoch`, and its end; None if `epoch` is above all known ones.

        If all known ones are above it: `epoch` itself, with the start of the first known one as its end.
        """
        if epoch < 0 or epoch > self.latest:
            return None
        index = bisect_right(self._epochs, epoch)
        end_offset = self._offsets[index] if index < len(self._offsets) else log_end_offset
        return EpochEnd(self._epochs[index - 1] if index else epoch, end_offset)


def truncation_offset(own: EpochHistory, own_end_offset: int, leader: EpochEnd) -> int:
    """Where a follower truncates its log, given the end of the last common epoch on the leader.

    If the follower lacks that epoch, it truncates to the end of its own preceding one and asks again.
    """
    mine = own.end_of(leader.epoch, own_end_offset)
    if mine is None:
        return min(leader.end_offset, own_end_offset)
    if mine.epoch != leader.epoch:
        return min(mine.end_offset, own_end_offset)
    return min(mine.end_offset, leader.end_offset, own_end_offset)
