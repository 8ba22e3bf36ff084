"""What the core has to know of the log without reading it: ends, epochs, snapshots.

Owns the epoch → start offset list and the divergence arithmetic. Must not know bytes on disk.
Source: KIP-595, "Log reconciliation" and "leader-epoch-checkpoint"; KIP-630 (a log that starts behind
a snapshot).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from quorum_node.records.control import VotersRecord
from quorum_node.records.snapshot_id import NO_SNAPSHOT, SnapshotId


@dataclass(frozen=True, slots=True)
class LogState:
    """What storage found at open; all of it is durable by then, and every snapshot is verified.

    `start`: the snapshot that stands for everything before the log (0-0: nothing is missing).
    `epoch_starts`: (epoch, first offset), ascending, from the log's start on. `control_batches`: raw
    control batches, oldest first; the voter sets are in there. `snapshot`: the newest one, with the
    voters and the kraft.version that it holds; the log reaches at least to its end. `partial`: a
    download that was cut, and how many bytes of it there are.
    """

    start: SnapshotId = NO_SNAPSHOT
    end_offset: int = 0
    epoch_starts: Sequence[tuple[int, int]] = ()
    control_batches: Sequence[bytes] = ()
    snapshot: SnapshotId | None = None
    snapshot_voters: VotersRecord | None = None
    snapshot_kraft_version: int = 1
    partial: tuple[SnapshotId, int] | None = None


class EpochStarts:
    """Epochs of the log in ascending order with the offset where each begins.

    The first entry is the epoch of the record before the log's start, "beginning" at the start: it
    may have no record in the log. An empty log has epoch 0 at offset 0.
    """

    __slots__ = ("_epochs", "_offsets")

    def __init__(
        self, starts: Iterable[tuple[int, int]] = (), log_start: SnapshotId = NO_SNAPSHOT
    ) -> None:
        self._epochs = [log_start.epoch]
        self._offsets = [log_start.end_offset]
        for epoch, offset in starts:
            if epoch > log_start.epoch:
                self.append(epoch, offset)

    @property
    def last_epoch(self) -> int:
        """Epoch of the last record, or of the one before the log; 0 for an empty log."""
        return self._epochs[-1]

    def append(self, epoch: int, offset: int) -> None:
        """A batch of `epoch` starts at `offset`. Epochs never go back within a log."""
        if epoch == self._epochs[-1]:
            return
        assert epoch > self._epochs[-1], f"epoch {epoch} after {self._epochs[-1]}"
        first = len(self._epochs) == 1
        assert offset > self._offsets[-1] - first, f"epoch {epoch} at {offset}"
        self._epochs.append(epoch)
        self._offsets.append(offset)

    def truncate(self, end_offset: int) -> None:
        """Forget epochs that start at or behind `end_offset`, which is not before the log's start."""
        keep = max(1, bisect_left(self._offsets, end_offset))
        del self._epochs[keep:]
        del self._offsets[keep:]

    def delete_before(self, log_start: SnapshotId) -> None:
        """The log starts at the end of this snapshot from now on."""
        keep = bisect_right(self._epochs, log_start.epoch)
        self._epochs[:keep] = [log_start.epoch]
        self._offsets[:keep] = [log_start.end_offset]

    def epoch_at(self, offset: int) -> int:
        """Epoch of the record at `offset`, or of the one before the log's start."""
        index = bisect_right(self._offsets, offset, 1) - 1
        return self._epochs[index]

    def end_of(self, epoch: int, log_start_offset: int, log_end_offset: int) -> tuple[int, int]:
        """The largest known epoch <= `epoch`, and the end offset of its records.

        (0, log start) where there is none.
        """
        index = bisect_right(self._epochs, epoch) - 1
        if index < 0:
            return 0, log_start_offset
        last = index == len(self._epochs) - 1
        return self._epochs[index], log_end_offset if last else self._offsets[index + 1]
