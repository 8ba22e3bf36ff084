"""What the core has to know of the log without reading it: ends and epochs.

Owns the epoch → start offset list and the divergence arithmetic. Must not know bytes on disk.
Source: KIP-595, "Log reconciliation" and "leader-epoch-checkpoint".
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogState:
    """What storage found at open; all of it is durable by then.

    `epoch_starts`: (epoch, first offset), ascending. `control_batches`: raw control batches, oldest
    first; the voter sets are in there.
    """

    start_offset: int = 0
    end_offset: int = 0
    epoch_starts: Sequence[tuple[int, int]] = ()
    control_batches: Sequence[bytes] = ()


class EpochStarts:
    """Epochs of the log in ascending order with the offset where each begins."""

    __slots__ = ("_epochs", "_offsets")

    def __init__(self, starts: Iterable[tuple[int, int]] = ()) -> None:
        self._epochs: list[int] = []
        self._offsets: list[int] = []
        for epoch, offset in starts:
            self.append(epoch, offset)

    @property
    def last_epoch(self) -> int:
        """Epoch of the last record, 0 for an empty log."""
        return self._epochs[-1] if self._epochs else 0

    def append(self, epoch: int, offset: int) -> None:
        """A batch of `epoch` starts at `offset`. Epochs never go back within a log."""
        if self._epochs:
            if epoch == self._epochs[-1]:
                return
            assert epoch > self._epochs[-1], f"epoch {epoch} after {self._epochs[-1]}"
            assert offset > self._offsets[-1], f"epoch {epoch} at {offset}"
        self._epochs.append(epoch)
        self._offsets.append(offset)

    def truncate(self, end_offset: int) -> None:
        """Forget epochs that start at or behind `end_offset`."""
        keep = bisect_left(self._offsets, end_offset)
        del self._epochs[keep:]
        del self._offsets[keep:]

    def end_of(self, epoch: int, log_start_offset: int, log_end_offset: int) -> tuple[int, int]:
        """The largest known epoch <= `epoch`, and the end offset of its records.

        (0, log start) where there is none.
        """
        index = bisect_right(self._epochs, epoch) - 1
        if index < 0:
            return 0, log_start_offset
        last = index == len(self._epochs) - 1
        return self._epochs[index], log_end_offset if last else self._offsets[index + 1]
