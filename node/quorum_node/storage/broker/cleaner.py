"""Schedules the compaction of the logs of a directory, and limits its rate.

Owns the choice of the next log, the pauses, and cleaner-offset-checkpoint. Runs in its own thread,
one log at a time. A log that can't be compacted is skipped until the broker restarts, and the
reason is reported.
Source: Kafka's documentation, "Broker Configs", log.cleaner.*.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from quorum_node.storage.broker.compaction import (
    DEFAULT_MAP_BYTES,
    CleanablePart,
    LogChanged,
    Uncleanable,
    cleanable_part,
    compact,
)
from quorum_node.storage.broker.log_directory import LogDirectory
from quorum_node.storage.broker.offset_checkpoint import TopicPartition
from quorum_node.storage.broker.partition_log import PartitionLog
from quorum_node.storage.errors import DiskFull, StorageFailure

CPU_SHARE = 0.25
"""Share of one core: requests use the same interpreter."""
_CPU_BURST_SECONDS = 0.002


class Stopped(Exception):
    """The broker is stopping: unfinished work is dropped."""


class Throttle:
    """Limits the rate of a thread: at most `bytes_per_second` are read and written (None: no
    limit), and at most `cpu_share` of a core is used.

    `stop` ends a wait, and every later call raises Stopped.
    """

    def __init__(
        self,
        bytes_per_second: float | None,
        clock_seconds: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] | None = None,
        *,
        cpu_share: float = 1.0,
        cpu_seconds: Callable[[], float] = time.thread_time,
    ) -> None:
        self._bytes_per_second = bytes_per_second
        self._clock_seconds = clock_seconds
        self._stopped = threading.Event()
        self._sleep = sleep or self._stopped.wait
        self._free_at = clock_seconds()
        self._cpu_share = cpu_share
        self._cpu_seconds = cpu_seconds
        self._cpu_since = cpu_seconds()

    def limit(self, bytes_per_second: float | None) -> None:
        """Set a new limit."""
        self._bytes_per_second = bytes_per_second

    def begin(self) -> None:
        """Start measuring, possibly on another thread than before."""
        self._cpu_since = self._cpu_seconds()

    def stop(self) -> None:
        """End a wait, and make every later call raise Stopped. Can be called from any thread."""
        self._stopped.set()

    def __call__(self, size_bytes: int) -> None:
        """Account for bytes that were read or written; waits if the rate is too high. Raises Stopped."""
        if self._stopped.is_set():
            raise Stopped
        pause = self._cpu_pause()
        if self._bytes_per_second is not None:
            now = self._clock_seconds()
            self._free_at = max(self._free_at, now) + size_bytes / self._bytes_per_second
            if self._free_at - now > 0.05:
                pause = max(pause, self._free_at - now)
        if pause:
            self._sleep(pause)
            if self._stopped.is_set():
                raise Stopped

    def _cpu_pause(self) -> float:
        if self._cpu_share >= 1.0:
            return 0.0
        used = self._cpu_seconds() - self._cpu_since
        if used < _CPU_BURST_SECONDS:
            return 0.0
        self._cpu_since += used
        return used * (1.0 / self._cpu_share - 1.0)


@dataclass(frozen=True, slots=True)
class Cleaned:
    """A compacted log: its first dirty offset, and its size before and after."""

    replica: TopicPartition
    end_offset: int
    before_bytes: int
    after_bytes: int


@dataclass(frozen=True, slots=True)
class UncleanableLog:
    """A log that is skipped until the broker restarts."""

    replica: TopicPartition
    reason: str


class Cleaner:
    """The cleaner of one directory."""

    def __init__(
        self,
        directory: LogDirectory,
        clock_ms: Callable[[], int],
        throttle: Throttle,
        map_bytes: int = DEFAULT_MAP_BYTES,
    ) -> None:
        self._directory = directory
        self._clock_ms = clock_ms
        self._throttle = throttle
        self._map_bytes = map_bytes
        self._uncleanable: dict[TopicPartition, PartitionLog] = {}

    def limit(self, bytes_per_second: float | None, map_bytes: int) -> None:
        """Set the limit of the next rounds."""
        self._throttle.limit(bytes_per_second)
        self._map_bytes = map_bytes

    def stop(self) -> None:
        """Can be called from any thread: the round in progress ends with Stopped."""
        self._throttle.stop()

    def clean_due(
        self,
        high_watermarks: Mapping[TopicPartition, int],
        report: Callable[[Cleaned | UncleanableLog], None] = lambda _: None,
    ) -> None:
        """One round: compact every log that is due, the one with the largest dirty ratio first.

        `high_watermarks` is looked up again for each log when its turn comes, which may be hours later.
        `report` is called on this thread after each log. Raises Stopped, StorageFailure or DiskFull.
        """
        self._throttle.begin()
        for replica, log in self._due(high_watermarks):
            # Check again: it may have been truncated or closed while other logs were compacted.
            cuts = log.cuts  # before the high watermark, which a truncation lowers
            part = self._due_part(replica, log, high_watermarks[replica])
            if part is None:
                continue
            outcome = self._clean(replica, log, part, cuts)
            if isinstance(outcome, UncleanableLog):
                self._uncleanable[replica] = log
            if outcome is not None:
                report(outcome)

    def _clean(
        self, replica: TopicPartition, log: PartitionLog, part: CleanablePart, cuts: int
    ) -> Cleaned | UncleanableLog | None:
        """None if nothing was compacted: the log was closed or truncated meanwhile. `cuts`: of the log before `part` was determined."""
        before_bytes = log.size_bytes

        def is_replaced() -> bool:
            return log.held.is_closed or not log.is_uncut(cuts)

        def throttle(size_bytes: int) -> None:
            self._throttle(size_bytes)
            if log.held.is_closed:
                raise _LogClosed

        try:
            end_offset = compact(
                log,
                part,
                self._clock_ms(),
                cuts=cuts,
                map_bytes=self._map_bytes,
                throttle=throttle,
                replaced=lambda: log.remove_deleted(self._clock_ms()),
            )
        except Uncleanable as error:
            return None if is_replaced() else UncleanableLog(replica, str(error))
        except (_LogClosed, LogChanged):
            return None
        except (StorageFailure, DiskFull):
            if log.held.is_closed:
                return None  # its directory has been renamed
            raise
        if is_replaced():
            return None
        self._directory.note_cleaned(replica, log, end_offset)
        return Cleaned(replica, end_offset, before_bytes, log.size_bytes)

    def _due(
        self, high_watermarks: Mapping[TopicPartition, int]
    ) -> list[tuple[TopicPartition, PartitionLog]]:
        """The logs that are due now, the one with the largest dirty ratio first."""
        found = []
        for replica, high_watermark in high_watermarks.items():
            log = self._directory.logs.get(replica)
            part = None if log is None else self._due_part(replica, log, high_watermark)
            if log is not None and part is not None:
                share = part.dirty_bytes / (part.clean_bytes + part.dirty_bytes)
                found.append((share, replica, log))
        found.sort(key=lambda each: each[:2], reverse=True)
        return [(replica, log) for _, replica, log in found]

    def _due_part(
        self, replica: TopicPartition, log: PartitionLog, high_watermark: int
    ) -> CleanablePart | None:
        """The part of a log to be compacted; None if it is not due or does not exist any more."""
        if self._directory.logs.get(replica) is not log or not log.settings.compacts:
            return None
        if self._uncleanable.get(replica) is log:
            return None
        now_ms = self._clock_ms()
        cleaned = self._directory.cleaned.get(replica, 0)
        part = cleanable_part(log, cleaned, high_watermark, now_ms)
        return part if part.is_due(log, now_ms) else None


class _LogClosed(Exception):
    """The log was closed during its compaction."""
