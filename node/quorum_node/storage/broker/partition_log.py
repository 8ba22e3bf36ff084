"""The log of one partition: segments on disk, leader epochs, producers.

Owns appending, reading, truncating and flushing. Must not know the leader or the high watermark.

Threads: a lock lets one thread at a time append, truncate or delete. Reads and `flush` may run concurrently on any thread. Another lock is
held before it by whoever removes or replaces segments: compaction waits for syncs with this lock only, beside appends.

Crash safety: after a kill at any instant the log opens with everything that was flushed. This requires an order:
* An epoch is in leader-epoch-checkpoint before its first batch is in a segment.
* A truncation is durable before a batch of another epoch is written in its place.
* Before anything below the recovery point is truncated, the lower point is in its checkpoint (`before_lowering`).
* A truncation removes segments newest first. A later start of the log removes them oldest first.
* The recovery point is raised after the syncs that it depends on.
"""

import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar, cast

from quorum_node.broker.batch import Batch
from quorum_node.broker.epoch_history import EpochHistory
from quorum_node.broker.log_shape import OpenedLog
from quorum_node.storage.atomic_file import sync_directory
from quorum_node.storage.broker.data_segment import (
    LARGEST_RELATIVE_OFFSET,
    Appended,
    DataSegment,
)
from quorum_node.storage.broker.errors import DamagedLog
from quorum_node.storage.broker.fail_stop import FailStop
from quorum_node.storage.broker.held_files import HeldFiles
from quorum_node.storage.broker.log_loading import (
    CLEANED_SUFFIX,
    SWAP_SUFFIX,
    UNKNOWN,
    Known,
    LogLoader,
)
from quorum_node.storage.broker.log_producers import LogProducers
from quorum_node.storage.broker.log_settings import LogSettings
from quorum_node.storage.broker.producer_snapshots import ProducerSnapshots
from quorum_node.storage.broker.producer_table import ProducerTable
from quorum_node.storage.broker.producer_walk import follow_appended
from quorum_node.storage.broker.read_batches import ReadBatches
from quorum_node.storage.broker.removals import Removals
from quorum_node.storage.broker.rolling import must_roll
from quorum_node.storage.broker.time_of_day import time_of_day_ms
from quorum_node.storage.errors import DiskFull, StorageFailure, classify
from quorum_node.storage.file_system import POSIX, FileSystem
from quorum_node.storage.leader_epochs import write_checkpoint

T = TypeVar("T")


def _no_callback(_: object) -> None: ...


class PartitionLog(LogProducers):
    """`recovery_point`: all records below it were synced. `start_offset`: first readable record."""

    def __init__(
        self,
        directory: Path,
        settings: LogSettings,
        known: Known,
        files: FileSystem,
        clock_ms: Callable[[], int],
        before_lowering: Callable[["PartitionLog"], None],
        on_failure: Callable[[StorageFailure | DiskFull], None],
    ) -> None:
        """See `open`."""
        self.directory = directory
        self.before_lowering = before_lowering
        self._files = files
        self._clock_ms = clock_ms
        self._reshaping, self._flushing = threading.RLock(), threading.RLock()
        self.held = HeldFiles()
        """Keeps the files open for long-running readers."""
        self._stop = FailStop(directory, on_failure)
        self.cuts = 0
        """Changes at the begin and at the end of a truncation: the result of a read, flush or compaction that overlaps one is void."""
        self._removals = Removals(files)
        loaded = LogLoader(files, directory, settings, known, clock_ms()).load()
        super().__init__(loaded.segments, loaded.producers, settings)
        self._dirty: set[DataSegment] = set()
        self._epochs = loaded.epochs
        self._snapshots = ProducerSnapshots(files, directory, loaded.snapshots, loaded.copies)
        self.start_offset = loaded.start_offset
        self.end_offset = loaded.end_offset
        self.recovery_point = loaded.recovery_point
        self.notes = tuple(loaded.notes)
        """Messages about repairs at open."""
        self._dirty.update(s for s in self._segments if s.end_offset > self.recovery_point)

    @classmethod
    def open(
        cls,
        directory: Path,
        settings: LogSettings,
        known: Known = UNKNOWN,
        *,
        files: FileSystem = POSIX,
        clock_ms: Callable[[], int] = time_of_day_ms,
        before_lowering: Callable[["PartitionLog"], None] = _no_callback,
        on_failure: Callable[[StorageFailure | DiskFull], None] = _no_callback,
    ) -> "PartitionLog":
        """Open or create the log in an existing directory. `known`: see `Known`; without it everything is scanned.

        `before_lowering` is called when `recovery_point` or `start_offset` was lowered, before anything is truncated:
        it makes them durable. `on_failure` is called for a failure that is not limited to this log's data. Raises
        StorageFailure (DamagedLog: only this partition is affected) or DiskFull.
        """
        try:
            return cls(directory, settings, known, files, clock_ms, before_lowering, on_failure)
        except OSError as error:
            raise classify(error, f"open the log in {directory}") from error

    # -- state

    def configure(self, settings: LogSettings) -> None:
        """The topic's configuration changed: it applies from the next segment, or the next check."""
        self.settings = settings

    @property
    def epoch_history(self) -> EpochHistory:
        """Leader epochs, as in their checkpoint."""
        return self._epochs

    def opened(self, high_watermark: int) -> OpenedLog:
        """Initial state of a replica of the partition. `high_watermark`: from replication-offset-checkpoint."""
        start, end = self.start_offset, self.end_offset
        return OpenedLog(start, end, high_watermark, self._epochs.starts, self.producers())

    def is_uncut(self, cuts: int) -> bool:
        """Whether no truncation overlaps with what began at this number of `cuts`. During one the number is odd."""
        return cuts == self.cuts and not cuts % 2

    # -- appending

    def append(self, batches: Sequence[Batch]) -> None:
        """Append placed batches, in order; `data` of each is its bytes.

        Raises DiskFull (batches from `end_offset` on were not written; the log can continue) or StorageFailure (final).
        """
        with self._lock:
            self._stop.check()
            first = 0
            for number, batch in enumerate(batches):
                if batch.leader_epoch > self._epochs.latest:
                    self._append_set(batches[first:number])
                    first = number
                    self._enter_epoch(batch.leader_epoch, batch.base_offset)
            self._append_set(batches[first:] if first else batches)

    def save_epochs(self, starts: Sequence[tuple[int, int]]) -> None:
        """Make these the leader epochs, durably. Raises StorageFailure or DiskFull."""
        with self._lock:
            self._stop.check()
            if tuple(starts) != self._epochs.starts:
                self._write_epochs(EpochHistory(starts))

    def _enter_epoch(self, epoch: int, start_offset: int) -> None:
        epochs = EpochHistory(self._epochs.starts)
        epochs.enter(epoch, start_offset)
        self._write_epochs(epochs)

    def _write_epochs(self, epochs: EpochHistory) -> None:
        self._stop.guarded(
            lambda: write_checkpoint(self.directory, list(epochs.starts), self._files)
        )
        self._epochs = epochs

    def _append_set(self, batches: Sequence[Batch]) -> None:
        """Append batches of one epoch, as many at once as fit into the segment."""
        while batches:
            first = batches[0]
            assert first.base_offset >= self.end_offset, f"{first.base_offset} < {self.end_offset}"
            segment = self._segment_for(first)
            room_bytes = self.settings.segment_bytes - segment.size_bytes - first.size_bytes
            last_offset = segment.base_offset + LARGEST_RELATIVE_OFFSET
            count = 1
            for batch in batches[1:]:
                room_bytes -= batch.size_bytes
                if room_bytes < 0 or batch.end_offset - 1 > last_offset:
                    break
                count += 1
            self._write(segment, batches if count == len(batches) else batches[:count])
            batches = batches[count:]

    def _write(self, segment: DataSegment, batches: Sequence[Batch]) -> None:
        if len(batches) == 1:
            data = cast(bytes, batches[0].data)
        else:
            data = b"".join([cast(bytes, each.data) for each in batches])
        try:
            segment.append(
                data, [Appended(each.size_bytes, each.end_offset, each.max_timestamp_ms) for each in batches]
            )  # fmt: skip
            self._dirty.add(segment)
            follow_appended(self._producers, segment, batches)
        except OSError as error:
            raise self._append_failed(segment, error) from error
        self.end_offset = batches[-1].end_offset
        self._snapshots.copies.applied(len(data), self._producers)

    def _append_failed(self, segment: DataSegment, error: OSError) -> StorageFailure | DiskFull:
        """Undo the append. The log can continue after a full disk, if the written part can be removed."""
        failure = classify(error, f"append to {segment.path}")
        if not isinstance(failure, DiskFull):
            return self._stop.fail(failure)
        try:
            if segment.end_offset > self.end_offset:
                # The batches are complete; an index could not be written.
                segment.truncate_to(self.end_offset)
                self._reload_producers(self.end_offset)
            else:
                segment.cut_back()
        except (OSError, StorageFailure, DiskFull) as second:
            return self._stop.fail_again(failure, second)
        return failure

    def _segment_for(self, batch: Batch) -> DataSegment:
        """The segment for the batch: a new one if the present one is full, or old."""
        segment = self._segments[-1]
        if must_roll(segment, batch, self.settings, self._clock_ms):
            # Without a gap: so a segment that lost its end differs from one with skipped batches.
            is_near = batch.end_offset - segment.end_offset <= LARGEST_RELATIVE_OFFSET
            is_next = is_near and segment.size_bytes > 0
            return self._roll(segment.end_offset if is_next else batch.base_offset)
        return segment

    def roll(self, base_offset: int = 0) -> None:
        """Begin a new segment unless the present one is empty; at `base_offset`, if the log ends before. Raises StorageFailure or DiskFull."""
        with self._lock:
            self._stop.check()
            if self._segments[-1].size_bytes:
                segment = self._roll(max(self._segments[-1].end_offset, base_offset))
                self.end_offset = max(self.end_offset, segment.base_offset)

    def _roll(self, base_offset: int) -> DataSegment:
        def make() -> DataSegment:
            self._segments[-1].close_for_appends()
            self._snapshots.take(self._producers, base_offset)
            return self._new_segment(base_offset)

        if base_offset == self._segments[-1].base_offset:
            return self._segments[-1]
        segment = self._stop.guarded(make, full_is_final=False)
        if not self._segments[-1].size_bytes:
            # Offsets were skipped after an empty segment.
            self._set_aside(self._segments[-1:])
            self._segments = (*self._segments[:-1], segment)
        else:
            self._segments = (*self._segments, segment)
        return segment

    def _new_segment(self, base_offset: int) -> DataSegment:
        segment = DataSegment(
            self._files,
            self.directory,
            base_offset,
            index_interval_bytes=self.settings.index_interval_bytes,
            now_ms=self._clock_ms(),
        )
        segment.clear_indexes()
        segment.cut_back()
        return segment

    # -- reading

    def read(self, offset: int, max_bytes: int, limit_offset: int | None = None) -> bytes:
        """The bytes of `read_batches`."""
        return self.read_batches(offset, max_bytes, limit_offset).data

    def read_batches(
        self,
        offset: int,
        max_bytes: int,
        limit_offset: int | None = None,
        most_batches: int = sys.maxsize,
    ) -> ReadBatches:
        """Whole batches from the first one that ends after `offset`, each ending by `limit_offset` (None: the end).

        At least one, if any, even if larger than `max_bytes`. None at the end, or after a truncation meanwhile. Raises StorageFailure.
        """
        self._stop.check()
        nothing = ReadBatches(b"", offset, 0)
        cuts = self.cuts
        limit = self.end_offset if limit_offset is None else min(limit_offset, self.end_offset)
        try:
            with self.held:
                for segment in self.from_offset(offset):
                    if segment.base_offset >= limit:
                        break
                    found = segment.read(offset, max_bytes, limit, most_batches)
                    if found.batch_count:
                        return found if self.is_uncut(cuts) else nothing
        except DamagedLog as error:
            if self.is_uncut(cuts):
                raise self._stop.fail(error) from error
        except OSError as error:
            raise self._stop.fail(classify(error, f"read {self.directory}")) from error
        return nothing

    def searched(self, search: Callable[[], T]) -> T:
        """The result of a search in the files, which are kept open meanwhile. Raises StorageFailure or DiskFull."""
        self._stop.check()
        with self.held:
            return self._stop.guarded(search)

    def truncate_to(self, end_offset: int) -> None:
        """Drop every batch that ends after `end_offset`. Raises StorageFailure or DiskFull."""
        with self._reshaping, self._lock:
            self._stop.check()
            if end_offset >= self.end_offset:
                return
            if end_offset < self._segments[0].base_offset:
                self.restart_at(end_offset)
                return
            kept = self._stop.guarded(
                lambda: self.from_offset(end_offset - 1)[0].last_end_below(end_offset)
            )
            self._lower(min(self.recovery_point, kept), min(self.start_offset, end_offset))
            self._stop.guarded(lambda: self._cut(end_offset))
            self.end_offset = end_offset
            self._cut_epochs(end_offset)
            self._stop.guarded(lambda: self._reload_producers(end_offset))

    def restart_at(self, offset: int) -> None:
        """Remove everything; the log continues at `offset`. Raises StorageFailure or DiskFull."""
        with self._reshaping, self._lock:
            self._stop.check()
            # Until the new segment exists, any part of the old ones may remain.
            self._lower(0, min(self.start_offset, offset))
            self._stop.guarded(lambda: self._drop_all(offset))
            self.start_offset = self.end_offset = self.recovery_point = offset
            self._cut_epochs(0)
            self._producers = ProducerTable(offset)

    def _lower(self, recovery_point: int, start_offset: int) -> None:
        if (recovery_point, start_offset) != (self.recovery_point, self.start_offset):
            self.recovery_point, self.start_offset = recovery_point, start_offset
            self._stop.guarded(lambda: self.before_lowering(self))

    def _cut(self, end_offset: int) -> None:
        self.cuts += 1
        keep = max(sum(each.base_offset < end_offset for each in self._segments), 1)
        going = self._segments[keep:]
        self._segments = self._segments[:keep]
        self._set_aside(tuple(reversed(going)))
        self._segments[-1].truncate_to(end_offset)
        # Otherwise the bytes could reappear after an epoch that begins here. The indexes are built anew after a crash.
        self._segments[-1].sync_batches()
        self._dirty.add(self._segments[-1])
        if self._snapshots.drop(lambda offset: offset > end_offset) or going:
            sync_directory(self.directory, self._files)
        self.cuts += 1

    def _drop_all(self, offset: int) -> None:
        self.cuts += 1
        self._set_aside(tuple(reversed(self._segments)))
        self._snapshots.drop(lambda _: True)
        self._segments = (self._new_segment(offset),)
        sync_directory(self.directory, self._files)
        self.cuts += 1

    def _cut_epochs(self, end_offset: int) -> None:
        epochs = EpochHistory(self._epochs.starts)
        epochs.cut_end(end_offset)
        if epochs.starts != self._epochs.starts:
            self._write_epochs(epochs)

    def _reload_producers(self, end_offset: int) -> None:
        start_offset = max(self._segments[0].base_offset, self.start_offset)
        self._producers = self._snapshots.rebuilt(self._segments, start_offset, end_offset)

    # -- start of the log

    def delete_records_below(self, offset: int) -> None:
        """Hide records below `offset`; `delete_segments_below` frees the space.

        The new start is durable with the next `log-start-offset-checkpoint`. Raises StorageFailure.
        """
        with self._lock:
            self._stop.check()
            assert offset <= self.end_offset, f"{offset} is behind the end {self.end_offset}"
            if offset <= self.start_offset:
                return
            self.start_offset = offset
            # Without a sync, for which the loop would wait: each opening of the log does the same with the file.
            epochs = EpochHistory(self._epochs.starts)
            epochs.cut_start(offset)
            self._epochs = epochs

    def delete_segments(self, wanted: Sequence[DataSegment]) -> bool:
        """Remove the oldest segments, after `file_delete_delay_ms`; the log then starts after them.

        False, without any change, if a compaction has replaced one of them meanwhile. Its replacement may contain newer records.
        """
        with self._reshaping, self._lock:
            self._stop.check()
            going, staying = self._segments[: len(wanted)], self._segments[len(wanted) :]
            if going != tuple(wanted) or not going:
                return False
            assert staying, "the active segment can't be deleted"
            self.delete_records_below(max(self.start_offset, staying[0].base_offset))
            self._segments = staying
            self._stop.guarded(lambda: self._set_aside(going))
            first = staying[0].base_offset
            self._stop.guarded(lambda: self._snapshots.drop(lambda offset: offset < first))
            return True

    def replace_segments(self, old: Sequence[DataSegment], new: DataSegment, cuts: int) -> bool:
        """Replace segments by a compacted and synced one.

        False, without any change, if the log was truncated since it had this number of `cuts`, or if retention removed one of
        them. A truncated segment may contain other records by now. Raises StorageFailure or DiskFull.
        """
        with self._reshaping:
            self._stop.check()
            if cuts != self.cuts or not set(old) <= set(self._segments[:-1]):
                return False

            def swap() -> None:
                new.end_offset = old[-1].end_offset
                new.rename(CLEANED_SUFFIX, SWAP_SUFFIX)
                sync_directory(self.directory, self._files)
                with self._lock:
                    self._set_aside(old)
                    new.rename(SWAP_SUFFIX, "")
                    first = self._segments.index(old[0])
                    later = self._segments[first + len(old) :]
                    self._segments = (*self._segments[:first], new, *later)
                    self._snapshots.drop({each.base_offset for each in old[1:]}.__contains__)
                sync_directory(self.directory, self._files)

            self._stop.guarded(swap)
            return True

    def _set_aside(self, segments: Sequence[DataSegment]) -> None:
        """Rename files for a later removal."""
        self._dirty.difference_update(segments)
        self._removals.add(segments, self._clock_ms() + self.settings.file_delete_delay_ms)

    def remove_deleted(self, now_ms: int | None = None) -> None:
        """Remove files whose delay is over (None: all), unless they are in use; without the lock, for which appends would wait. Raises StorageFailure."""
        with self._lock:
            due = [] if self.held.are_held else self._removals.take_due(now_ms)
        self._stop.guarded(lambda: self._removals.remove(due))

    def flush(self) -> int:
        """Sync everything that was appended before the call; returns the recovery point. Raises StorageFailure.

        Can run concurrently with appends. A failed sync is final. Does nothing if the log was closed meanwhile.
        """
        with self._flushing, self.held:
            with self._lock:
                if self.held.is_closed:
                    return self.recovery_point
                self._stop.check()
                cuts, dirty = self.cuts, self._dirty
                end_offset = self._segments[-1].end_offset
                self._dirty = set()
            try:
                for segment in sorted(dirty, key=lambda each: each.base_offset):
                    segment.sync()
                if dirty:
                    sync_directory(self.directory, self._files)
            except OSError as error:
                # Also if the log was truncated meanwhile: another sync of the same bytes would succeed without them.
                for segment in dirty:
                    segment.evict()
                raise self._stop.fail(classify(error, f"flush {self.directory}")) from error
            with self._lock:
                if cuts != self.cuts:
                    self._dirty.update(each for each in dirty if each in self._segments)
                else:
                    self.recovery_point = max(self.recovery_point, end_offset)
                return self.recovery_point

    def close(self, *, cleanly: bool = True) -> None:
        """Close all files. `cleanly`: flush, and write indexes and a snapshot, so that no scan is needed at open."""
        # A flush in progress has the files open.
        with self._reshaping, self._flushing, self._lock:
            if cleanly and self._stop.failure is None:
                self._stop.guarded(self._segments[-1].close_for_appends)
                self._dirty.add(self._segments[-1])
                self.flush()
                self._stop.guarded(
                    lambda: self._snapshots.take_last(self._producers, self._segments[-1])
                )
                self._stop.guarded(lambda: sync_directory(self.directory, self._files))
            self.held.close((*self._segments, *self._removals.leave()))
            self._stop.disable(StorageFailure(f"{self.directory} is closed"))

    def disable(self, failure: StorageFailure) -> None:
        """The directory failed: refuse all further operations."""
        self._stop.disable(failure)
