"""Which leader epoch began at which offset. PURE.

Owns the list and the arithmetic of divergence on both sides. Must not know files. A leader enters its epoch when it is
elected, also without records: the list may be ahead of the log.
Source: KIP-101, KIP-279 and KIP-595, "Log reconciliation"; the rules of a stock broker's leader epoch cache.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import NamedTuple

NO_EPOCH = -1


class EpochEnd(NamedTuple):
    """Behind the last record of `epoch`."""

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
        """What belongs into leader-epoch-checkpoint."""
        return tuple(zip(self._epochs, self._offsets, strict=True))

    @property
    def latest(self) -> int:
        """The newest epoch, or NO_EPOCH."""
        return self._epochs[-1] if self._epochs else NO_EPOCH

    def enter(self, epoch: int, start_offset: int) -> None:
        """`epoch` begins at `start_offset`: an older epoch without records there is replaced."""
        if epoch == self.latest:
            return
        assert epoch > self.latest, f"epoch {epoch} after {self.latest}"
        self.cut_end(start_offset)
        self._epochs.append(epoch)
        self._offsets.append(start_offset)

    def cut_end(self, end_offset: int) -> None:
        """Forget epochs that begin at or behind `end_offset`."""
        keep = bisect_left(self._offsets, end_offset)
        del self._epochs[keep:]
        del self._offsets[keep:]

    def cut_start(self, start_offset: int) -> None:
        """The log begins at `start_offset`: the epoch that covers it begins there, older ones are gone."""
        covering = bisect_right(self._offsets, start_offset) - 1
        if covering < 0:
            return
        del self._epochs[:covering]
        del self._offsets[:covering]
        self._offsets[0] = start_offset

    def end_of(self, epoch: int, log_end_offset: int) -> EpochEnd | None:
        """The largest known epoch that is not above `epoch`, and its end; None if `epoch` is above all known ones.

        If all known ones are above it: `epoch` itself, ending where the first of them begins.
        """
        if epoch < 0 or epoch > self.latest:
            return None
        index = bisect_right(self._epochs, epoch)
        end_offset = self._offsets[index] if index < len(self._offsets) else log_end_offset
        return EpochEnd(self._epochs[index - 1] if index else epoch, end_offset)


def truncation_offset(own: EpochHistory, own_end_offset: int, leader: EpochEnd) -> int:
    """Where a follower cuts its log after the leader told the end of the epoch that both may share.

    If the follower lacks that epoch, it cuts to the end of its own older one and asks again.
    """
    mine = own.end_of(leader.epoch, own_end_offset)
    if mine is None:
        return min(leader.end_offset, own_end_offset)
    if mine.epoch != leader.epoch:
        return min(mine.end_offset, own_end_offset)
    return min(mine.end_offset, leader.end_offset, own_end_offset)
