"""What a broker needs of the disk: the logs of partitions, and the directory around them.

Owns the protocols that storage fulfils. Must not know files.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from quorum_node.broker.assignments import FoundLog
from quorum_node.broker.batch import Batch
from quorum_node.broker.log_shape import OpenedLog
from quorum_node.broker.producers import ProducerEntry
from quorum_node.schema.primitives import Buffer
from quorum_node.storage.broker.log_settings import LogSettings


@dataclass(frozen=True, slots=True)
class TimedOffset:
    """A record's offset and timestamp, in milliseconds since 1970."""

    offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class CompactionLimits:
    """`bytes_per_second`: read and written, None for no limit; `map_bytes`: memory for the newest offset of each key."""

    bytes_per_second: float | None
    map_bytes: int


@dataclass(frozen=True, slots=True)
class Compacted:
    """A log that was compacted below `end_offset`, or, with a `refusal`, is left out until the next start."""

    topic_name: str
    partition_id: int
    end_offset: int
    before_bytes: int
    after_bytes: int
    refusal: str | None = None


class DataLog(Protocol):
    """The log of one partition. Every method raises StorageFailure or DiskFull when the disk refuses."""

    @property
    def size_bytes(self) -> int:
        """Of all segments."""

    def bytes_from(self, offset: int) -> int:
        """About how many bytes follow from `offset` on."""

    @property
    def settings(self) -> LogSettings:
        """What the topic's configuration says of its files."""

    def configure(self, settings: LogSettings) -> None:
        """The configuration changed; what is on the disk follows with the next segment or the next look."""

    def opened(self) -> OpenedLog:
        """What was found at the start."""

    def append(self, batches: Iterable[Batch]) -> None:
        """Write placed batches: they can be read afterwards; the disk may have them later."""

    def read(self, offset: int, end_offset: int, max_bytes: int) -> Buffer:
        """Whole batches from the one that holds `offset`, below `end_offset`: at least one, if there is one."""

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Where what is not decided begins, below the high watermark or above; None: everything is decided."""

    def aborted_between(self, offset: int, end_offset: int) -> tuple[tuple[int, int], ...]:
        """(producer id, first offset) of aborted transactions with records in offset <= o < end_offset."""

    def truncate_to(self, end_offset: int) -> tuple[ProducerEntry, ...]:
        """Drop everything from `end_offset` on; what is known of producers afterwards."""

    def restart_at(self, start_offset: int) -> None:
        """Drop everything and go on at `start_offset`."""

    def save_epochs(self, starts: tuple[tuple[int, int], ...]) -> None:
        """Write leader-epoch-checkpoint."""

    def delete_below(self, start_offset: int) -> None:
        """Records below are not served any more; whole segments of them go."""

    def retain(self, high_watermark: int, now_ms: int) -> int | None:
        """Remove the oldest segments that the topic's retention lets go; where the log begins then, None if none went.

        `now_ms`: milliseconds since 1970.
        """

    def offset_at(self, timestamp_ms: int, end_offset: int) -> TimedOffset | None:
        """The first record below `end_offset` that is not older; None if there is none."""

    def newest(self, end_offset: int) -> TimedOffset | None:
        """The first record below `end_offset` that has the largest timestamp; None if there is none."""


class DataDirectory(Protocol):
    """One directory of `log.dirs`."""

    @property
    def directory_id(self) -> UUID:
        """Under which it is registered."""

    @property
    def previous_broker_epoch(self) -> int:
        """Of the run before, if that stopped in good order; else -1."""

    @property
    def path(self) -> str:
        """As it stands in log.dirs."""

    def volume_bytes(self) -> tuple[int, int]:
        """How large its volume is, and how much of it may still be used; -1 where that is unknown."""

    def found(self) -> tuple[FoundLog, ...]:
        """Logs that lie there, opened or not."""

    def open(
        self, topic_name: str, topic_id: UUID, partition_id: int, settings: LogSettings
    ) -> DataLog:
        """The log of a partition, made if there is none."""

    def set_aside(self, stray: FoundLog) -> None:
        """A log that this broker should not have: it is kept under another name, and deleted later."""

    def delete(self, topic_name: str, partition_id: int) -> None:
        """The partition is gone: its log is renamed at once and deleted later."""

    def checkpoint(self, high_watermarks: Iterable[tuple[str, int, int]]) -> None:
        """(topic, partition, high watermark) of all logs, for the next start."""

    def maintain(self) -> None:
        """Sync what was appended, so that a later start has less to check, and remove files whose delay is over.

        May run on another thread than everything else here.
        """

    def compact(
        self,
        high_watermarks: Mapping[tuple[str, int], int],
        limits: CompactionLimits,
        told: Callable[[Compacted], None],
    ) -> None:
        """Compact each of these logs that is due; returns early, with what was begun dropped, when the directory is closed.

        Runs on a thread of its own, beside everything else; `told` is called there. Raises StorageFailure or DiskFull.
        """

    def close(self, broker_epoch: int | None) -> None:
        """Flush and close all logs. `broker_epoch`: of this run, if it stops in good order."""
