"""The implementation of `DataDirectory` for the directory in `log.dirs`.

Adapts the files of `quorum_node.storage.broker` to the protocols of `data_log.py`.
"""

import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from uuid import UUID

from quorum_node.broker.assignments import FoundLog
from quorum_node.broker.batch import Batch
from quorum_node.broker.log_shape import OpenedLog
from quorum_node.broker.producers import ProducerEntry
from quorum_node.schema.primitives import Buffer
from quorum_node.server.broker.data_log import Compacted, CompactionLimits, TimedOffset
from quorum_node.storage.broker.cleaner import (
    CPU_SHARE,
    Cleaned,
    Cleaner,
    LeftOut,
    Stopped,
    Throttle,
)
from quorum_node.storage.broker.log_directory import LogDirectory
from quorum_node.storage.broker.log_settings import LogSettings
from quorum_node.storage.broker.partition_log import PartitionLog
from quorum_node.storage.broker.retention import enforce_retention
from quorum_node.storage.broker.time_of_day import time_of_day_ms
from quorum_node.storage.broker.timestamp_search import (
    FoundOffset,
    offset_for_timestamp,
    offset_of_newest,
)
from quorum_node.storage.directory_lock import lock_directory
from quorum_node.storage.errors import WrongDirectory
from quorum_node.storage.meta_properties import FILE_NAME as META_PROPERTIES
from quorum_node.storage.meta_properties import read_meta_properties

NO_EPOCH = -1
UNKNOWN_BYTES = -1
_STRAY_DELAY_MS = 3_600_000
"""How long a log that the metadata does not assign to this broker is kept, in milliseconds, so that a mistake can be noticed."""


class OpenLog:
    """The `DataLog` of one partition."""

    def __init__(
        self, log: PartitionLog, high_watermark: int, was_cut: Callable[[PartitionLog], None]
    ) -> None:
        """`was_cut` is called after the end of the log was truncated."""
        self._log = log
        self._high_watermark = high_watermark
        self._was_cut = was_cut

    @property
    def size_bytes(self) -> int:
        """See `DataLog`."""
        return self._log.size_bytes

    def bytes_from(self, offset: int) -> int:
        """See `DataLog`."""
        return self._log.searched(lambda: self._log.bytes_from(offset))

    @property
    def settings(self) -> LogSettings:
        """See `DataLog`."""
        return self._log.settings

    def configure(self, settings: LogSettings) -> None:
        """See `DataLog`."""
        self._log.configure(settings)

    def opened(self) -> OpenedLog:
        """See `DataLog`."""
        return self._log.opened(self._high_watermark)

    def append(self, batches: Iterable[Batch]) -> None:
        """See `DataLog`."""
        self._log.append(tuple(batches))

    def read(self, offset: int, end_offset: int, max_bytes: int) -> Buffer:
        """See `DataLog`."""
        return self._log.read(offset, max_bytes, end_offset)

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
        self._log.truncate_to(end_offset)
        self._was_cut(self._log)
        return self._log.producers()

    def restart_at(self, start_offset: int) -> None:
        """See `DataLog`."""
        self._log.restart_at(start_offset)
        self._was_cut(self._log)

    def save_epochs(self, starts: tuple[tuple[int, int], ...]) -> None:
        """See `DataLog`."""
        self._log.save_epochs(starts)

    def delete_below(self, start_offset: int) -> None:
        """See `DataLog`."""
        self._log.delete_records_below(start_offset)

    def retain(self, high_watermark: int, now_ms: int) -> int | None:
        """See `DataLog`."""
        return (
            self._log.start_offset if enforce_retention(self._log, high_watermark, now_ms) else None
        )

    def offset_at(self, timestamp_ms: int, end_offset: int) -> TimedOffset | None:
        """See `DataLog`."""
        log = self._log
        return _timed(log.searched(lambda: offset_for_timestamp(log, timestamp_ms, end_offset)))

    def newest(self, end_offset: int) -> TimedOffset | None:
        """See `DataLog`."""
        return _timed(self._log.searched(lambda: offset_of_newest(self._log, end_offset)))


class OpenDataDirectory:
    """The `DataDirectory` of the process."""

    def __init__(self, directory: LogDirectory) -> None:
        self._directory = directory
        self._cleaner = Cleaner(directory, time_of_day_ms, Throttle(None, cpu_share=CPU_SHARE))
        self.path = str(directory.path)
        self.directory_id = directory.directory_id
        closed = directory.closed_epoch
        self.previous_broker_epoch = NO_EPOCH if closed is None else closed

    def volume_bytes(self) -> tuple[int, int]:
        """See `DataDirectory`."""
        try:
            found = shutil.disk_usage(self.path)
        except OSError:
            return UNKNOWN_BYTES, UNKNOWN_BYTES
        return found.total, found.free

    def found(self) -> tuple[FoundLog, ...]:
        """See `DataDirectory`."""
        return tuple(
            FoundLog(topic, partition, topic_id)
            for (topic, partition), topic_id in self._directory.replicas().items()
        )

    def open(
        self, topic_name: str, topic_id: UUID, partition_id: int, settings: LogSettings
    ) -> OpenLog:
        """See `DataDirectory`."""
        replica = (topic_name, partition_id)
        log = self._directory.open_log(replica, topic_id, settings)
        return OpenLog(
            log,
            self._directory.high_watermarks.get(replica, 0),
            lambda log: self._directory.note_cut(replica, log),
        )

    def set_aside(self, stray: FoundLog) -> None:
        """See `DataDirectory`."""
        self._directory.set_aside((stray.topic_name, stray.partition_id), _STRAY_DELAY_MS)

    def delete(self, topic_name: str, partition_id: int) -> None:
        """See `DataDirectory`."""
        self._directory.delete((topic_name, partition_id))

    def checkpoint(self, high_watermarks: Iterable[tuple[str, int, int]]) -> None:
        """See `DataDirectory`."""
        self._directory.write_high_watermarks(
            {(topic, partition): offset for topic, partition, offset in high_watermarks}
        )

    def maintain(self) -> None:
        """See `DataDirectory`."""
        for log in tuple(self._directory.logs.values()):
            log.flush()
        self._directory.write_recovery_points()
        self._directory.remove_due()

    def compact(
        self,
        high_watermarks: Mapping[tuple[str, int], int],
        limits: CompactionLimits,
        told: Callable[[Compacted], None],
    ) -> None:
        """See `DataDirectory`."""
        self._cleaner.limit(limits.bytes_per_second, limits.map_bytes)
        with suppress(Stopped):
            self._cleaner.clean_due(high_watermarks, lambda outcome: told(_compacted(outcome)))

    def close(self, broker_epoch: int | None) -> None:
        """See `DataDirectory`."""
        self._cleaner.stop()
        epoch = NO_EPOCH if broker_epoch is None else broker_epoch
        self._directory.close(epoch, cleanly=broker_epoch is not None)


def open_data_directory(
    path: Path, metadata_path: Path, node_id: int, cluster_id: str
) -> OpenDataDirectory:
    """Open the directory; an empty one is initialized for this broker. `metadata_path`: the directory of the metadata log.

    Raises WrongDirectory, StorageFailure or DiskFull.
    """
    lock_directory(path)
    meta, metadata = read_meta_properties(path), read_meta_properties(metadata_path)
    if meta is not None and metadata is not None and meta.directory_id == metadata.directory_id:
        raise WrongDirectory(
            f"{path / META_PROPERTIES} has the same directory.id as {metadata_path / META_PROPERTIES}: one is a copy of"
            " the other. Restore the file in log.dirs, or empty that directory: its replicas are then fetched again. Nothing was changed"
        )
    return OpenDataDirectory(LogDirectory(path, node_id=node_id, cluster_id=cluster_id))


def _compacted(outcome: Cleaned | LeftOut) -> Compacted:
    if isinstance(outcome, LeftOut):
        return Compacted(*outcome.replica, -1, -1, -1, outcome.reason)
    return Compacted(
        *outcome.replica, outcome.end_offset, outcome.before_bytes, outcome.after_bytes
    )


def _timed(found: FoundOffset | None) -> TimedOffset | None:
    return None if found is None else TimedOffset(found.offset, found.timestamp_ms)
