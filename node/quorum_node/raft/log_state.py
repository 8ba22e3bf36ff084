"""What the core needs of the log without reading it: end offset, epochs, snapshots.

Owns the epoch → start offset list and the divergence arithmetic. Must not know bytes on disk.
Source: KIP-595, "Log reconciliation" and "leader-epoch-checkpoint"; KIP-630 (a log that starts
after a snapshot).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from quorum_node.records.control import VotersRecord
from quorum_node.records.snapshot_id import NO_SNAPSHOT, SnapshotId


@dataclass(frozen=True, slots=True)
class LogState:
    """State of the log when it is opened. Everything is durable, and every snapshot is verified.

    `start`: the snapshot at the start of the log (0-0: the log is complete). `epoch_starts`:
    (epoch, first offset), ascending. `control_batches`: raw control batches, oldest first; they
    contain the voter sets. `snapshot`: the newest one, with its voters and kraft.version; the log
    reaches at least to its end. `partial`: an interrupted download, and the number of bytes
    received.
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
    """Epochs of the log in ascending order, with the offset where each begins.

    The first entry is the epoch of the record before the log's start. It "begins" at the start and
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
        """A batch of `epoch` starts at `offset`. Epochs never decrease within a log."""
        if epoch == self._epochs[-1]:
            return
        assert epoch > self._epochs[-1], f"epoch {epoch} after {self._epochs[-1]}"
        first = len(self._epochs) == 1
        assert offset > self._offsets[-1] - first, f"epoch {epoch} at {offset}"
        self._epochs.append(epoch)
        self._offsets.append(offset)

    def truncate(self, end_offset: int) -> None:
        """Remove epochs that start at or after `end_offset`, which must not precede the log's start."""
        keep = max(1, bisect_left(self._offsets, end_offset))
        del self._epochs[keep:]
        del self._offsets[keep:]

    def delete_before(self, log_start: SnapshotId) -> None:
        """The log now starts at the end of this snapshot."""
        keep = bisect_right(self._epochs, log_start.epoch)
        self._epochs[:keep] = [log_start.epoch]
        self._offsets[:keep] = [log_start.end_offset]

    def epoch_at(self, offset: int) -> int:
        """Epoch of the record at `offset`, or of the one before the log's start."""
        index = bisect_right(self._offsets, offset, 1) - 1
        return self._epochs[index]

    def end_of(self, epoch: int, log_start_offset: int, log_end_offset: int) -> tuple[int, int]:
        """The largest known epoch <= `epoch`, and the end offset of its records.

        (0, log start) if there is none.
        """
        index = bisect_right(self._epochs, epoch) - 1
        if index < 0:
            return 0, log_start_offset
        last = index == len(self._epochs) - 1
        return self._epochs[index], log_end_offset if last else self._offsets[index + 1]
