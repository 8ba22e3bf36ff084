"""The implementation of `DataDirectory` for one directory in `log.dirs`.

Adapts the files of `quorum_node.storage.broker` to the protocols of `data_log.py`.
"""

import shutil
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from uuid import UUID

from quorum_node.broker.assignments import FoundLog
from quorum_node.broker.batch import Batch
from quorum_node.broker.log_shape import OpenedLog
from quorum_node.broker.producers import ProducerEntry
from quorum_node.schema.primitives import Buffer
from quorum_node.server.broker.data_log import (
    Compacted,
    CompactionLimits,
    DataLog,
    Failed,
    OffsetSearch,
    TimedOffset,
)
from quorum_node.server.broker.log_copy import FutureLog
from quorum_node.storage.broker.cleaner import (
    CPU_SHARE,
    Cleaned,
    Cleaner,
    Stopped,
    Throttle,
    UncleanableLog,
)
from quorum_node.storage.broker.log_directory import STRAY_DELAY_MS, LogDirectory
from quorum_node.storage.broker.log_settings import LogSettings
from quorum_node.storage.broker.partition_log import PartitionLog
from quorum_node.storage.broker.read_batches import ReadBatches
from quorum_node.storage.broker.retention import enforce_retention
from quorum_node.storage.broker.time_of_day import time_of_day_ms
from quorum_node.storage.broker.timestamp_search import (
    FoundOffset,
    Search,
    offset_for_timestamp,
    offset_of_newest,
    searched,
)
from quorum_node.storage.errors import DiskFull, StorageFailure

NO_EPOCH = -1
UNKNOWN_BYTES = -1


class _Watch:
    """`with watch:` reports a storage error inside the block, and raises it."""

    __slots__ = ("_failed",)

    def __init__(self, failed: Failed) -> None:
        self._failed = failed

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, StorageFailure | DiskFull):
            self._failed(error)


class OpenLog:
    """The `DataLog` of one partition.

    leader-epoch-checkpoint is written by a thread, or at the beginning of the next change of the log, whichever is first. So an epoch is durable
    before its first record is in the log, and the order of all changes is kept. A crash before the write is like one before
    the epoch was entered: no log has records of the epoch, and each epoch before it ends at the same offset without its entry.
    A stock broker syncs the file and its directory when a replica becomes leader (`LeaderEpochFileCache.assign`).
    """

    def __init__(
        self,
        log: PartitionLog,
        high_watermark: int,
        was_cut: Callable[[PartitionLog], None],
        failed: Failed = lambda failure: None,
    ) -> None:
        """`was_cut` is called after the end of the log was truncated. `failed`: before an error is raised."""
        self._log = log
        self._high_watermark = high_watermark
        self._was_cut = was_cut
        # A log that was deleted or moved is closed, also for a reader that still has it; its directory is intact.
        self._watch = _Watch(lambda failure: None if log.held.is_closed else failed(failure))
        self._unwritten: deque[tuple[tuple[int, int], ...]] = deque(maxlen=1)
        self._writing = threading.Lock()

    @property
    def high_watermark(self) -> int:
        """What `keep_high_watermark` got last; before, that of the last checkpoint of an earlier process."""
        return self._high_watermark

    @property
    def size_bytes(self) -> int:
        """See `DataLog`."""
        return self._log.size_bytes

    def bytes_from(self, offset: int) -> int:
        """See `DataLog`."""
        with self._watch:
            return self._log.searched(lambda: self._log.bytes_from(offset))

    @property
    def settings(self) -> LogSettings:
        """See `DataLog`."""
        return self._log.settings

    @property
    def start_offset(self) -> int:
        """See `DataLog`."""
        return self._log.start_offset

    @property
    def synced_offset(self) -> int:
        """See `DataLog`."""
        return self._log.recovery_point

    @property
    def cuts(self) -> int:
        """See `DataLog`."""
        return self._log.cuts

    def configure(self, settings: LogSettings) -> None:
        """See `DataLog`."""
        self._log.configure(settings)

    def opened(self) -> OpenedLog:
        """See `DataLog`."""
        return self._log.opened(self._high_watermark)

    def append(self, batches: Iterable[Batch]) -> bool:
        """See `DataLog`."""
        with self._watch:
            self.write_epochs()
            active = self._log.segments[-1]
            self._log.append(tuple(batches))
            return self._log.segments[-1] is not active

    def sync(self) -> None:
        """See `DataLog`."""
        with self._watch:
            self._log.flush()

    def read(self, offset: int, end_offset: int, max_bytes: int) -> Buffer:
        """See `DataLog`."""
        with self._watch:
            return self._log.read(offset, max_bytes, end_offset)

    def read_batches(
        self, offset: int, end_offset: int, max_bytes: int, most_batches: int
    ) -> ReadBatches:
        """See `DataLog`."""
        with self._watch:
            return self._log.read_batches(offset, max_bytes, end_offset, most_batches)

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """See `DataLog`."""
        return self._log.first_unstable_offset(high_watermark)

    def forget_producers(self, now_ms: int, high_watermark: int) -> None:
        """See `DataLog`."""
        self._log.forget_producers(now_ms, high_watermark)

    def aborted_between(self, offset: int, end_offset: int) -> tuple[tuple[int, int], ...]:
        """See `DataLog`."""
        found = self._log.aborted_transactions(offset, end_offset)
        return tuple((each.producer_id, each.first_offset) for each in found)

    def truncate_to(self, end_offset: int) -> tuple[ProducerEntry, ...]:
        """See `DataLog`."""
        with self._watch:
            self.write_epochs()
            self._log.truncate_to(end_offset)
            self._was_cut(self._log)
            return self._log.producers()

    def restart_at(self, start_offset: int) -> None:
        """See `DataLog`."""
        with self._watch:
            self.write_epochs()
            self._log.restart_at(start_offset)
            self._was_cut(self._log)

    def keep_high_watermark(self, offset: int) -> None:
        """See `DataLog`."""
        self._high_watermark = offset

    def save_epochs(self, starts: tuple[tuple[int, int], ...]) -> None:
        """See `DataLog`."""
        self._unwritten.append(starts)

    def write_epochs(self) -> None:
        """See `DataLog`."""
        # With the lock also if nothing is left: a thread may be writing.
        with self._watch, self._writing:
            if self._unwritten:
                self._log.save_epochs(self._unwritten.pop())

    def delete_below(self, start_offset: int) -> None:
        """See `DataLog`."""
        with self._watch:
            self.write_epochs()
            self._log.delete_records_below(start_offset)

    def retain(self, high_watermark: int, now_ms: int) -> int | None:
        """See `DataLog`."""
        with self._watch:
            self.write_epochs()
            deleted = enforce_retention(self._log, high_watermark, now_ms)
            return self._log.start_offset if deleted else None

    def offset_at(self, timestamp_ms: int, end_offset: int) -> OffsetSearch:
        """See `DataLog`."""
        return self._searched(offset_for_timestamp(self._log, timestamp_ms, end_offset))

    def newest(self, end_offset: int) -> OffsetSearch:
        """See `DataLog`."""
        return self._searched(offset_of_newest(self._log, end_offset))

    def _searched(self, search: Search) -> OffsetSearch:
        with self._watch:
            return _timed((yield from searched(self._log, search)))


class OpenDataDirectory:
    """An open directory. `failure`: why it is offline, or None; it never comes back in this process."""

    def __init__(self, directory: LogDirectory) -> None:
        self._directory = directory
        self._cleaner = Cleaner(directory, time_of_day_ms, Throttle(None, cpu_share=CPU_SHARE))
        self._lock = threading.Lock()
        self._logs: dict[tuple[str, int], OpenLog] = {}
        self._checkpointing = threading.Lock()
        self._on_failure: Failed = lambda failure: None
        self.failure: StorageFailure | DiskFull | None = None
        self.path = str(directory.path)
        self.directory_id = directory.directory_id
        closed = directory.closed_epoch
        self.previous_broker_epoch = NO_EPOCH if closed is None else closed
        directory.watch(self.fail)

    def watch(self, failed: Failed) -> None:
        """See `DataDirectory`."""
        self._on_failure = failed

    def fail(self, failure: StorageFailure | DiskFull) -> None:
        """See `DataDirectory`."""
        with self._lock:
            if self.failure is not None:
                return
            self.failure = failure
        self._directory.fail(failure)
        self._on_failure(failure)

    def volume_bytes(self) -> tuple[int, int]:
        """See `DataDirectory`."""
        try:
            found = shutil.disk_usage(self.path)
        except OSError:
            return UNKNOWN_BYTES, UNKNOWN_BYTES
        return found.total, found.free

    def found(self) -> tuple[FoundLog, ...]:
        """See `DataDirectory`."""
        with self._watched():
            return tuple(
                FoundLog(*replica, topic_id, self.directory_id, self._directory.moving_to(replica))
                for replica, topic_id in self._directory.replicas().items()
            )

    def open(
        self, topic_name: str, topic_id: UUID, partition_id: int, settings: LogSettings
    ) -> OpenLog:
        """See `DataDirectory`."""
        replica = (topic_name, partition_id)
        with self._watched():
            log = self._directory.open_log(replica, topic_id, settings)
        self._logs[replica] = opened = OpenLog(
            log,
            self._directory.high_watermarks.get(replica, 0),
            lambda log: self._directory.note_cut(replica, log),
            self.fail,
        )
        return opened

    def copy(
        self, topic_name: str, topic_id: UUID, partition_id: int, source: DataLog
    ) -> FutureLog:
        """See `DataDirectory`."""
        replica = (topic_name, partition_id)
        return FutureLog(self._directory, replica, topic_id, source.settings, source)

    def mark_move(self, topic_name: str, partition_id: int, target: UUID | None) -> None:
        """See `DataDirectory`."""
        with self._watched():
            self._directory.mark_move((topic_name, partition_id), target)

    def set_aside(self, stray: FoundLog) -> None:
        """See `DataDirectory`."""
        with self._watched():
            self._directory.set_aside((stray.topic_name, stray.partition_id), STRAY_DELAY_MS)

    def delete(self, topic_name: str, partition_id: int) -> None:
        """See `DataDirectory`."""
        # A checkpoint that is running must not write the high watermark after the deletion has removed it: of a later log
        # of this name, it would declare records committed.
        with self._checkpointing:
            self._logs.pop((topic_name, partition_id), None)
        with self._watched():
            self._directory.delete((topic_name, partition_id))

    def checkpoint(self) -> None:
        """See `DataDirectory`."""
        with self._checkpointing, self._watched():
            logs = tuple(self._logs.items())
            self._directory.write_high_watermarks(
                {replica: log.high_watermark for replica, log in logs}
            )

    def maintain(self) -> None:
        """See `DataDirectory`."""
        with self._watched():
            for log in tuple(self._directory.logs.values()):
                log.flush()
            self._directory.write_recovery_points()
            self._directory.remove_due()

    def compact(
        self,
        high_watermarks: Mapping[tuple[str, int], int],
        limits: CompactionLimits,
        report: Callable[[Compacted], None],
    ) -> None:
        """See `DataDirectory`."""
        self._cleaner.limit(limits.bytes_per_second, limits.map_bytes)
        try:
            with suppress(Stopped):
                self._cleaner.clean_due(
                    high_watermarks, lambda outcome: report(_compacted(outcome))
                )
        except StorageFailure as failure:
            self.fail(failure)
            raise

    def close(self, broker_epoch: int | None) -> None:
        """See `DataDirectory`."""
        self._cleaner.stop()
        epoch = NO_EPOCH if broker_epoch is None else broker_epoch
        with self._watched():
            self._directory.close(epoch, cleanly=broker_epoch is not None)

    def _watched(self) -> _Watch:
        return _Watch(self.fail)


def _compacted(outcome: Cleaned | UncleanableLog) -> Compacted:
    if isinstance(outcome, UncleanableLog):
        return Compacted(*outcome.replica, -1, -1, -1, outcome.reason)
    return Compacted(
        *outcome.replica, outcome.end_offset, outcome.before_bytes, outcome.after_bytes
    )


def _timed(found: FoundOffset | None) -> TimedOffset | None:
    return None if found is None else TimedOffset(found.offset, found.timestamp_ms)
