"""State of the producers of a partition's log, for reads from other threads.

Owns the lock around their state. Must not know when batches are applied to it (`partition_log.py`).
"""

import threading
from collections.abc import Sequence

from quorum_node.broker.producers import ProducerEntry
from quorum_node.storage.broker.data_segment import DataSegment
from quorum_node.storage.broker.log_settings import LogSettings
from quorum_node.storage.broker.producer_table import LastBatch, ProducerTable
from quorum_node.storage.broker.segment_list import SegmentList


class LogProducers(SegmentList):
    """`settings`: of the log's files."""

    def __init__(
        self, segments: Sequence[DataSegment], producers: ProducerTable, settings: LogSettings
    ) -> None:
        super().__init__(segments)
        self.settings = settings
        self._lock = threading.RLock()
        self._producers = producers

    def producers(self) -> tuple[ProducerEntry, ...]:
        """State of producers, rebuilt from the log: for `Truncated` and `OpenedLog`."""
        with self._lock:
            return self._producers.entries()

    @property
    def producer_table(self) -> ProducerTable:
        """Their state itself. Of a closed log it is not changed any more."""
        return self._producers

    def take_producers(self, table: ProducerTable) -> None:
        """Replace what is in a snapshot by the state from which it was made, with more than the last batch of each producer."""
        with self._lock:
            self._producers = table

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """See `ProducerTable.first_unstable_offset`: the end for readers with isolation level read_committed."""
        with self._lock:
            return self._producers.first_unstable_offset(high_watermark)

    def last_batches_of_producers(self) -> dict[int, LastBatch]:
        """For each producer, the batch that compaction has to keep."""
        with self._lock:
            return self._producers.last_batches()

    def forget_producers(self, now_ms: int, high_watermark: int) -> None:
        """Drop expired producers, and transactions whose marker is below `high_watermark`. `now_ms`: time of day."""
        with self._lock:
            self._producers.expire(now_ms, self.settings.producer_id_expiration_ms)
            self._producers.first_unstable_offset(high_watermark)
