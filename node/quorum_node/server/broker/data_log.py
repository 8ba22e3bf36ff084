"""The storage protocols of a broker: the logs of partitions, and their directory.

Does not depend on files.
"""

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from quorum_node.broker.assignments import FoundLog
from quorum_node.broker.batch import Batch
from quorum_node.broker.log_shape import OpenedLog
from quorum_node.broker.producers import ProducerEntry
from quorum_node.schema.primitives import Buffer
from quorum_node.storage.broker.log_settings import LogSettings
from quorum_node.storage.broker.read_batches import ReadBatches
from quorum_node.storage.errors import DiskFull, StorageFailure

Failed = Callable[[StorageFailure | DiskFull], None]
"""Called with the failure of a directory; possibly on another thread than the loop's."""


@dataclass(frozen=True, slots=True)
class TimedOffset:
    """Offset and timestamp of a record, the timestamp in milliseconds since 1970."""

    offset: int
    timestamp_ms: int


OffsetSearch = Generator[None, None, TimedOffset | None]
"""A search in a log. It yields after each short piece, and raises VoidSearch if the log was truncated or closed meanwhile."""


@dataclass(frozen=True, slots=True)
class CompactionLimits:
    """`bytes_per_second`: bytes read and written, None for no limit. `map_bytes`: memory for the map from key to newest offset."""

    bytes_per_second: float | None
    map_bytes: int


@dataclass(frozen=True, slots=True)
class Compacted:
    """The outcome for one log: compacted below `end_offset`, or, with a `refusal`, skipped until the next start."""

    topic_name: str
    partition_id: int
    end_offset: int
    before_bytes: int
    after_bytes: int
    refusal: str | None = None


class DataLog(Protocol):
    """The log of one partition. Every method raises StorageFailure or DiskFull when the disk fails."""

    @property
    def size_bytes(self) -> int:
        """Size of all segments."""

    def bytes_from(self, offset: int) -> int:
        """Approximate number of bytes from `offset` to the end."""

    @property
    def settings(self) -> LogSettings:
        """The settings of the log's files, from the topic's configuration."""

    @property
    def start_offset(self) -> int:
        """First offset that can be read."""

    @property
    def synced_offset(self) -> int:
        """All records below it are synced."""

    @property
    def cuts(self) -> int:
        """Number of truncations since the log was opened."""

    def configure(self, settings: LogSettings) -> None:
        """Apply a changed configuration. Existing files follow with the next segment or the next retention check."""

    def opened(self) -> OpenedLog:
        """The state of the log when it was opened."""

    def append(self, batches: Iterable[Batch]) -> bool:
        """Append batches with assigned offsets. They can be read when this returns; they may reach the disk later.

        Returns whether a segment was completed.
        """

    def sync(self) -> None:
        """Make everything durable that was appended before the call. Runs on another thread, beside the other methods.

        Does nothing if the log was closed meanwhile.
        """

    def read(self, offset: int, end_offset: int, max_bytes: int) -> Buffer:
        """Whole batches, from the one that contains `offset`, below `end_offset`; at least one, unless the range is empty."""

    def read_batches(
        self, offset: int, end_offset: int, max_bytes: int, most_batches: int
    ) -> ReadBatches:
        """As `read`, at most this number of batches."""

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """First offset of the oldest open transaction, above or below the high watermark; None if all transactions are decided."""

    def forget_producers(self, now_ms: int, high_watermark: int) -> None:
        """Drop the state of producers that have not written for `producer.id.expiration.ms`, and of decided transactions. `now_ms`: milliseconds since 1970."""

    def aborted_between(self, offset: int, end_offset: int) -> tuple[tuple[int, int], ...]:
        """(producer id, first offset) of aborted transactions with records in offset <= o < end_offset."""

    def truncate_to(self, end_offset: int) -> tuple[ProducerEntry, ...]:
        """Drop all records from `end_offset` on. Returns the producer states that remain."""

    def restart_at(self, start_offset: int) -> None:
        """Drop all records; the next record is appended at `start_offset`."""

    def keep_high_watermark(self, offset: int) -> None:
        """Store this high watermark with the next `checkpoint` of the directory."""

    def save_epochs(self, starts: tuple[tuple[int, int], ...]) -> None:
        """Write these to leader-epoch-checkpoint with the next `write_epochs`, or at the beginning of the next change of the log."""

    def write_epochs(self) -> None:
        """Write what `save_epochs` has left to write. May run on another thread, beside the other methods."""

    def delete_below(self, start_offset: int) -> None:
        """Stop serving records below `start_offset`, and delete segments that contain only such records."""

    def retain(self, high_watermark: int, now_ms: int) -> int | None:
        """Delete the oldest segments that the topic's retention allows. Returns the new start offset, None if nothing was deleted.

        `now_ms`: milliseconds since 1970.
        """

    def offset_at(self, timestamp_ms: int, end_offset: int) -> OffsetSearch:
        """The first record below `end_offset` with at least this timestamp (milliseconds since 1970), or None."""

    def newest(self, end_offset: int) -> OffsetSearch:
        """The first record below `end_offset` that has the largest timestamp, or None."""


class LogCopy(Protocol):
    """A copy of a log in another directory, in progress. Every method raises StorageFailure, DiskFull or CorruptBatch."""

    @property
    def end_offset(self) -> int:
        """All batches below are copied."""

    @property
    def size_bytes(self) -> int:
        """Size of what is copied."""

    @property
    def is_void(self) -> bool:
        """Whether the log was truncated meanwhile: the copy has to begin again."""

    def advance(self, end_offset: int) -> int:
        """Copy some more batches below `end_offset`. Returns their bytes, 0 if there are none. May run on another thread."""

    def flush(self) -> None:
        """Make what is copied durable. May run on another thread."""

    def promote(self) -> None:
        """Complete the copy, which has all batches, so that `open` of its directory opens it as the log of the replica."""

    def drop(self) -> None:
        """Remove the copy."""


class DataDirectory(Protocol):
    """One directory of `log.dirs`. A method that raises StorageFailure or DiskFull has taken the directory offline, except `compact`."""

    @property
    def directory_id(self) -> UUID:
        """The directory id that the broker registers."""

    @property
    def previous_broker_epoch(self) -> int:
        """The broker epoch of the previous run, if that run was stopped cleanly; else -1."""

    @property
    def path(self) -> str:
        """The path as configured in log.dirs."""

    @property
    def failure(self) -> StorageFailure | DiskFull | None:
        """Why the directory is offline; None if it is online. Never online again in this process."""

    def watch(self, failed: Failed) -> None:
        """Call `failed` once when the directory fails, on the thread that detects it."""

    def fail(self, failure: StorageFailure | DiskFull) -> None:
        """Take the directory offline: no log in it can be read or written any more."""

    def volume_bytes(self) -> tuple[int, int]:
        """Total and usable bytes of the volume; -1 where unknown."""

    def found(self) -> tuple[FoundLog, ...]:
        """All logs in the directory, opened or not."""

    def open(
        self, topic_name: str, topic_id: UUID, partition_id: int, settings: LogSettings
    ) -> DataLog:
        """The log of a partition; created if it does not exist."""

    def copy(self, topic_name: str, topic_id: UUID, partition_id: int, source: DataLog) -> LogCopy:
        """Begin a copy of a log from another directory."""

    def mark_move(self, topic_name: str, partition_id: int, target: UUID | None) -> None:
        """Note that a copy in the directory `target` is about to take the place of the log here; None: that it does not.

        After a crash the copy is then the current log, if it is complete. May run on another thread.
        """

    def set_aside(self, stray: FoundLog) -> None:
        """Rename a log that is not assigned to this broker; it is deleted later."""

    def delete(self, topic_name: str, partition_id: int) -> None:
        """Delete the log of a partition that no longer exists: it is renamed now and deleted later.

        Waits for a sync of the log that is running. Runs on another thread, beside the other methods.
        """

    def checkpoint(self) -> None:
        """Store the high watermarks of all logs for the next start. May run on another thread, beside the other methods."""

    def maintain(self) -> None:
        """Sync appended records, so that the next start has less to check, and delete files whose deletion delay has passed.

        May run on a different thread from the other methods.
        """

    def compact(
        self,
        high_watermarks: Mapping[tuple[str, int], int],
        limits: CompactionLimits,
        report: Callable[[Compacted], None],
    ) -> None:
        """Compact each of these logs that is due. When the directory is closed, this returns early and drops the unfinished work.

        Runs on a separate thread, concurrently with the other methods, and calls `report` on it. Raises StorageFailure, or DiskFull, which
        does not take the directory offline.
        """

    def close(self, broker_epoch: int | None) -> None:
        """Flush and close all logs. `broker_epoch`: the epoch of this run, if it is stopped cleanly; else None."""
