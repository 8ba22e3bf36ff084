"""Which log of a directory is compacted next, and how fast.

Owns the choice, the throttle and cleaner-offset-checkpoint. Runs in a thread of its own, one log at a time; a log that can not be
compacted is left out, with the reason, until the broker starts again.
Source: Kafka's documentation, "Broker Configs", log.cleaner.*.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from quorum_node.storage.broker.compaction import (
    DEFAULT_MAP_BYTES,
    CleanablePart,
    Uncleanable,
    cleanable_part,
    compact,
)
from quorum_node.storage.broker.log_directory import LogDirectory
from quorum_node.storage.broker.offset_checkpoint import TopicPartition


class Throttle:
    """Waits so that no more than `bytes_per_second` are read and written; None: as fast as it goes."""

    __slots__ = ("_bytes_per_second", "_clock_seconds", "_free_at", "_sleep")

    def __init__(
        self,
        bytes_per_second: float | None,
        clock_seconds: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._bytes_per_second = bytes_per_second
        self._clock_seconds = clock_seconds
        self._sleep = sleep
        self._free_at = clock_seconds()

    def __call__(self, size_bytes: int) -> None:
        """So much was read or written; waits if it was too early."""
        if self._bytes_per_second is None:
            return
        now = self._clock_seconds()
        self._free_at = max(self._free_at, now) + size_bytes / self._bytes_per_second
        if self._free_at - now > 0.05:
            self._sleep(self._free_at - now)


@dataclass(frozen=True, slots=True)
class Cleaned:
    """A log that was compacted: the first offset that is not clean, and its size before and after."""

    replica: TopicPartition
    end_offset: int
    before_bytes: int
    after_bytes: int


class Cleaner:
    """Of one directory. `uncleanable`: what is left out, with the reason for people."""

    def __init__(
        self,
        directory: LogDirectory,
        high_watermark_of: Callable[[TopicPartition], int],
        clock_ms: Callable[[], int],
        throttle: Throttle,
        map_bytes: int = DEFAULT_MAP_BYTES,
    ) -> None:
        self._directory = directory
        self._high_watermark_of = high_watermark_of
        self._clock_ms = clock_ms
        self._throttle = throttle
        self._map_bytes = map_bytes
        self.uncleanable: dict[TopicPartition, str] = {}

    def clean_one(self) -> Cleaned | None:
        """Compact the log with the largest part that is not clean; None if no log is due.

        Raises StorageFailure or DiskFull.
        """
        now_ms = self._clock_ms()
        found = self._dirtiest(now_ms)
        if found is None:
            return None
        replica, part = found
        log = self._directory.logs[replica]
        before_bytes = log.size_bytes
        try:
            end_offset = compact(
                log, part, now_ms, map_bytes=self._map_bytes, throttle=self._throttle
            )
        except Uncleanable as error:
            self.uncleanable[replica] = str(error)
            return None
        self._directory.cleaned[replica] = end_offset
        self._directory.write_cleaned()
        return Cleaned(replica, end_offset, before_bytes, log.size_bytes)

    def _dirtiest(self, now_ms: int) -> tuple[TopicPartition, CleanablePart] | None:
        due = []
        for replica, log in list(self._directory.logs.items()):
            if log.settings.compacts and replica not in self.uncleanable:
                cleaned = self._directory.cleaned.get(replica, 0)
                part = cleanable_part(log, cleaned, self._high_watermark_of(replica), now_ms)
                if part.is_due(log, now_ms):
                    share = part.dirty_bytes / (part.clean_bytes + part.dirty_bytes)
                    due.append((share, replica, part))
        if not due:
            return None
        _, replica, part = max(due, key=lambda each: each[:2])
        return replica, part
