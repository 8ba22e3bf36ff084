"""The log of one partition on a simulated disk: batches in the writer, written, and synced.

Owns what survives which fault: a killed process loses what was not written, a power failure what was not synced. The
epoch checkpoint is durable at once, as the order of its writes requires.
"""

from quorum_node.broker.batch import Batch
from quorum_node.broker.epoch_history import EpochHistory
from quorum_node.broker.log_shape import OpenedLog
from quorum_node.broker.producers import ProducerEntry, ProducerStates


class PartitionDisk:
    """`batches`: all batches passed to the writer; `end_offset`, `written` and `synced` are offsets.

    Where a truncation ended within a batch, the next one follows after a gap, as in Kafka.
    """

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.epoch_starts: tuple[tuple[int, int], ...] = ()
        self.high_watermark = 0
        self.start_offset = 0
        self.end_offset = 0
        self.written = 0
        self.synced = 0
        self._deleted = ProducerStates()
        """Producer states of deleted batches, which a broker has in its producer snapshots."""

    def append(self, batches: tuple[Batch, ...]) -> None:
        """Pass batches to the writer."""
        for batch in batches:
            assert batch.base_offset == self.end_offset, "the core leaves no gaps"
            self.batches.append(batch)
            self.end_offset = batch.end_offset

    def wrote(self, end_offset: int) -> None:
        """Batches reached the page cache."""
        self.written = max(self.written, min(end_offset, self.end_offset))

    def sync(self) -> None:
        """Batches reached the disk."""
        self.synced = self.written

    def flush(self) -> None:
        """Write and sync all batches."""
        self.written = self.synced = self.end_offset

    def truncate(self, end_offset: int) -> None:
        """Drop whole batches from the offset on."""
        while self.batches and self.batches[-1].end_offset > end_offset:
            self.batches.pop()
        self.end_offset = min(self.end_offset, end_offset)
        self.written, self.synced = min(self.written, end_offset), min(self.synced, end_offset)

    def begin_at(self, start_offset: int) -> None:
        """The log begins at an offset, possibly within a batch. Batches before it are removed."""
        self.start_offset = max(self.start_offset, start_offset)
        while self.batches and self.batches[0].end_offset <= self.start_offset:
            self._deleted.append(self.batches.pop(0))
        self.written = max(self.written, self.start_offset)
        self.synced = max(self.synced, self.start_offset)

    def restart_at(self, start_offset: int) -> None:
        """Remove everything; the log continues at an offset."""
        self.batches.clear()
        self.start_offset = self.end_offset = self.written = self.synced = start_offset
        self._deleted = ProducerStates()

    def lose_everything(self) -> None:
        """Effect of a failed disk, replaced by an empty one."""
        self.restart_at(0)
        self.epoch_starts, self.high_watermark = (), 0

    def lose_process(self) -> None:
        """Effect of kill -9."""
        self.truncate(self.written)

    def lose_power(self) -> None:
        """Effect of a power failure: the page cache is lost."""
        self.truncate(self.synced)

    def read(self, start_offset: int, end_offset: int, limit: int) -> tuple[Batch, ...]:
        """Whole batches within the range; the first one may begin before it."""
        found = [
            each
            for each in self.batches
            if each.end_offset > start_offset and each.end_offset <= end_offset
        ]
        return tuple(found[:limit])

    def producers(self) -> tuple[ProducerEntry, ...]:
        """Rebuilt from snapshots and batches, as a broker does after a crash."""
        states = ProducerStates(self._deleted.snapshot())
        for batch in self.batches:
            states.append(batch)
        return states.snapshot()

    def open(self, *, was_closed: bool) -> OpenedLog:
        """State that a new process finds. It removes epochs that the log lost with their batches from the checkpoint."""
        last_offset = self.batches[-1].end_offset if self.batches else 0
        self.end_offset = max(self.start_offset, last_offset)
        self.written, self.synced = self.end_offset, min(self.synced, self.end_offset)
        epochs = EpochHistory(self.epoch_starts)
        if not was_closed:
            epochs.cut_end(self.end_offset)
        epochs.cut_start(self.start_offset)
        self.epoch_starts = epochs.starts
        return OpenedLog(
            start_offset=self.start_offset,
            end_offset=self.end_offset,
            high_watermark=self.high_watermark,
            epoch_starts=self.epoch_starts,
            producers=self.producers(),
        )
