"""The log of one partition on a simulated disk: batches in the writer, written, and synced.

Owns what survives which fault: a killed process loses what was not written, a power failure what was not synced. The
epoch checkpoint is durable at once, as the order of its writes requires.
"""

from quorum_node.broker.batch import Batch
from quorum_node.broker.log_shape import OpenedLog
from quorum_node.broker.producers import ProducerEntry, ProducerStates


class PartitionDisk:
    """`batches`: all batches passed to the writer; `written` and `synced` are offsets."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.epoch_starts: tuple[tuple[int, int], ...] = ()
        self.high_watermark = 0
        self.written = 0
        self.synced = 0

    @property
    def end_offset(self) -> int:
        """End of the last batch."""
        return self.batches[-1].end_offset if self.batches else 0

    def append(self, batches: tuple[Batch, ...]) -> None:
        """Pass batches to the writer."""
        for batch in batches:
            assert batch.base_offset == self.end_offset, "no gaps in this simulation"
            self.batches.append(batch)

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
        self.written, self.synced = min(self.written, end_offset), min(self.synced, end_offset)

    def lose_process(self) -> None:
        """Effect of kill -9."""
        self.truncate(self.written)

    def lose_power(self) -> None:
        """Effect of a power failure: the page cache is lost."""
        self.truncate(self.synced)

    def read(self, start_offset: int, end_offset: int, limit: int) -> tuple[Batch, ...]:
        """Whole batches within the range."""
        found = [
            each
            for each in self.batches
            if each.base_offset >= start_offset and each.end_offset <= end_offset
        ]
        return tuple(found[:limit])

    def producers(self) -> tuple[ProducerEntry, ...]:
        """Rebuilt from the batches, as a broker does after a crash."""
        states = ProducerStates()
        for batch in self.batches:
            states.append(batch)
        return states.snapshot()

    def open(self) -> OpenedLog:
        """State that a new process finds."""
        starts = tuple(each for each in self.epoch_starts if each[1] <= self.end_offset)
        return OpenedLog(
            end_offset=self.end_offset,
            high_watermark=self.high_watermark,
            epoch_starts=starts,
            producers=self.producers(),
        )
