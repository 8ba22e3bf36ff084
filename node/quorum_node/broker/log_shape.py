"""The state of a partition's log that replication needs: ends, epochs, high watermark. PURE.

Owns how appends and truncations change it. Must not know bytes on disk.
Source: the replication design V3, "Log"; KIP-101.
"""

from dataclasses import dataclass

from quorum_node.broker.batch import Batch
from quorum_node.broker.epoch_history import EpochHistory
from quorum_node.broker.producers import ProducerEntry


@dataclass(frozen=True, slots=True)
class OpenedLog:
    """State of an opened log; all of it is written.

    `high_watermark`: from replication-offset-checkpoint, 0 if there is none. `producers`: rebuilt from the newest
    snapshot and the batches after it.
    """

    start_offset: int = 0
    end_offset: int = 0
    high_watermark: int = 0
    epoch_starts: tuple[tuple[int, int], ...] = ()
    producers: tuple[ProducerEntry, ...] = ()


class LogShape:
    """`end_offset`: end of the batches passed to the writer. `written_offset`: end of the written ones."""

    __slots__ = ("end_offset", "epochs", "high_watermark", "start_offset", "written_offset")

    def __init__(self, opened: OpenedLog) -> None:
        self.start_offset = opened.start_offset
        self.end_offset = self.written_offset = opened.end_offset
        self.epochs = EpochHistory(opened.epoch_starts)
        self.high_watermark = min(
            max(opened.high_watermark, opened.start_offset), opened.end_offset
        )

    @property
    def is_written(self) -> bool:
        """Whether all batches are written."""
        return self.written_offset == self.end_offset

    def append(self, batch: Batch) -> None:
        """A batch was passed to the writer."""
        assert batch.base_offset >= self.end_offset, "offsets ascend"
        self.epochs.enter(batch.leader_epoch, batch.base_offset)
        self.end_offset = batch.end_offset

    def written(self, end_offset: int) -> None:
        """All batches below `end_offset` are written."""
        self.written_offset = max(self.written_offset, min(end_offset, self.end_offset))

    def truncate(self, end_offset: int) -> None:
        """Remove everything from `end_offset` on, including epochs without records."""
        assert self.is_written, "nothing is cut that the writer still has"
        self.epochs.cut_end(end_offset)
        self.end_offset = self.written_offset = min(self.end_offset, end_offset)
        self.high_watermark = min(self.high_watermark, self.end_offset)

    def restart_at(self, start_offset: int) -> None:
        """Remove everything; the log continues at an offset outside of its range, or within its first batch."""
        self.epochs.cut_end(0)
        self.start_offset = self.end_offset = self.written_offset = start_offset
        self.high_watermark = start_offset

    def begin_at(self, start_offset: int) -> None:
        """Records before `start_offset` were deleted."""
        if start_offset > self.start_offset:
            self.start_offset = start_offset
            self.epochs.cut_start(start_offset)
            self.high_watermark = max(self.high_watermark, start_offset)
