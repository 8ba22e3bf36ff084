"""The replica's log: segments on disk, the tail in memory, and what of it is proven durable.

Owns appending, truncating, reading and syncing of batches, roll-over of segments and recovery at
open. Knows nothing of epochs' meaning, high watermarks or who reads. KIP-595, "Log".

Threads: everything runs on the driver's thread, except `flush`, which may run on a worker beside
appends, reads and truncations.
"""

import threading
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path

from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.storage.atomic_file import sync_directory
from quorum_node.storage.errors import DiskFull, StorageFailure, classify
from quorum_node.storage.leader_epochs import (
    EpochStarts,
    check_against_log,
    read_checkpoint,
    write_checkpoint,
)
from quorum_node.storage.recovery import LENGTH_PREFIX_BYTES
from quorum_node.storage.segment import SUFFIX, Segment
from quorum_node.storage.tail_cache import TailCache

DEFAULT_SEGMENT_BYTES = 64 * 1024 * 1024
DEFAULT_CACHE_BYTES = 32 * 1024 * 1024


class SegmentedLog:
    """The durable log of one partition in one directory.

    `end_offset` counts everything appended; only `flush` says what is durable.
    """

    def __init__(
        self,
        directory: Path,
        *,
        segment_bytes: int = DEFAULT_SEGMENT_BYTES,
        cache_bytes: int = DEFAULT_CACHE_BYTES,
    ) -> None:
        """Open or create. Raises StorageFailure on damage; a torn tail is cut off durably."""
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._cache = TailCache(cache_bytes)
        self._segments: list[Segment] = []
        self._bases: list[int] = []
        self._dirty: set[Segment] = set()
        self._names_dirty = False
        self._lock = threading.Lock()
        self._flushing = threading.Lock()
        self._truncated_to: int | None = None
        self._failure: str | None = None
        self.epoch_starts: EpochStarts = []
        self.control_batches: list[bytes] = []
        """Control batches found at open, oldest first (the voter sets are in there)."""
        self.start_offset = 0
        self.end_offset = 0
        self.torn_bytes = 0
        """Bytes of a torn tail that were cut off at open."""
        try:
            self._open()
        except OSError as error:
            raise classify(error, f"open the log in {directory}") from error

    def append(self, data: bytes, base_offset: int, end_offset: int, leader_epoch: int) -> None:
        """Append whole batches for base_offset <= o < end_offset.

        Raises DiskFull (nothing of it is kept) or StorageFailure (final).
        """
        self._check_usable()
        assert base_offset == self.end_offset, f"append at {base_offset}, end {self.end_offset}"
        if not self.epoch_starts or leader_epoch > self.epoch_starts[-1][0]:
            starts = [*self.epoch_starts, (leader_epoch, base_offset)]
            self._guarded(lambda: write_checkpoint(self._directory, starts))
            self.epoch_starts = starts
        segment = self._segments[-1]
        if segment.size_bytes and segment.size_bytes + len(data) > self._segment_bytes:
            segment = self._roll(base_offset)
        before_bytes = segment.size_bytes
        try:
            segment.append(data, base_offset)
        except OSError as error:
            self._undo_append(segment, before_bytes)
            raise self._fail(error, f"append to {segment.path}") from error
        with self._lock:
            self._dirty.add(segment)
            self.end_offset = end_offset
        self._remember(data, base_offset, end_offset)

    def truncate_to(self, end_offset: int) -> None:
        """Drop every batch that ends after `end_offset`. Raises StorageFailure."""
        self._check_usable()
        if end_offset >= self.end_offset:
            return
        starts = [start for start in self.epoch_starts if start[1] < end_offset]
        if starts != self.epoch_starts:
            self._guarded(lambda: write_checkpoint(self._directory, starts))
            self.epoch_starts = starts
        try:
            while len(self._segments) > 1 and self._bases[-1] >= end_offset:
                self._drop_last_segment()
            self._segments[-1].truncate_to(end_offset)
        except OSError as error:
            raise self._fail(error, f"truncate {self._segments[-1].path}") from error
        with self._lock:
            self._dirty.add(self._segments[-1])
            self.end_offset = end_offset
            earlier = self._truncated_to
            self._truncated_to = end_offset if earlier is None else min(earlier, end_offset)
        self._cache.truncate_to(end_offset)

    def reset_to(self, id: SnapshotId) -> None:
        """Not without snapshots."""
        raise StorageFailure(f"this log can't begin behind snapshot {id}")

    def delete_prefix(self, id: SnapshotId) -> None:
        """Not without snapshots."""
        raise StorageFailure(f"this log can't begin behind snapshot {id}")

    def read(self, start_offset: int, max_bytes: int, limit_offset: int) -> bytes:
        """Raw whole batches from the one that holds `start_offset`, each ending by `limit_offset`.

        At least one if any qualifies; b"" at the end. Raises StorageFailure.
        """
        if start_offset >= min(limit_offset, self.end_offset):
            return b""
        cached = self._cache.read(start_offset, max_bytes, limit_offset)
        if cached is not None:
            return cached
        self._check_usable()
        segment = self._segments[bisect_right(self._bases, start_offset) - 1]
        try:
            return segment.read(start_offset, max_bytes, limit_offset)
        except OSError as error:
            raise self._fail(error, f"read {segment.path}") from error

    def flush(self) -> int:
        """Make everything appended so far durable; returns the end offset that is proven durable.

        Never retried: after a StorageFailure the log refuses everything.
        """
        with self._flushing:
            self._check_usable()
            with self._lock:
                end_offset, dirty, names = self.end_offset, self._dirty, self._names_dirty
                self._dirty, self._names_dirty = set(), False
                self._truncated_to = None
            try:
                for segment in dirty:
                    segment.sync()
                if names:
                    sync_directory(self._directory)
            except OSError as error:
                raise self._fail(error, f"sync the log in {self._directory}") from error
            return min(end_offset, self._lowest_truncation(end_offset))

    def _lowest_truncation(self, otherwise: int) -> int:
        """Where the log was cut while a flush was under way: beyond it nothing is proven."""
        with self._lock:
            return otherwise if self._truncated_to is None else self._truncated_to

    def close(self) -> None:
        """Close the files without syncing; a graceful stop flushes first."""
        for segment in self._segments:
            segment.close()
        self._segments, self._bases = [], []
        self._failure = self._failure or "the log is closed"

    def _open(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        names = sorted(p.name for p in self._directory.iterdir() if p.name.endswith(SUFFIX))
        bases = [int(name.removesuffix(SUFFIX)) for name in names] or [0]
        self.start_offset = self.end_offset = bases[0]
        self._names_dirty = not names
        last_epoch = -1
        for index, base in enumerate(bases):
            if base != self.end_offset:
                raise StorageFailure(
                    f"segment {base:020d}{SUFFIX} in {self._directory} does not follow offset"
                    f" {self.end_offset}: a segment is missing or cut short"
                )
            segment = Segment(self._directory, base)
            self._segments.append(segment)
            self._bases.append(base)
            scan = segment.load(last_epoch)
            if scan.torn_bytes and index < len(bases) - 1:
                raise StorageFailure(f"{segment.path} ends in damage before the tail of the log")
            if scan.torn_bytes:
                segment.cut()
                self.torn_bytes = scan.torn_bytes
            last_epoch = scan.last_epoch
            self.epoch_starts += scan.epoch_starts
            self.control_batches += scan.control_batches
            self.end_offset = scan.end_offset
        # What a killed process left in the page cache counts as durable only after this.
        self._dirty = set(self._segments)
        checkpoint = read_checkpoint(self._directory)
        check_against_log(checkpoint, self.epoch_starts, self.end_offset)
        if checkpoint != self.epoch_starts:
            write_checkpoint(self._directory, self.epoch_starts)
        self.flush()

    def _roll(self, base_offset: int) -> Segment:
        try:
            segment = Segment(self._directory, base_offset)
        except OSError as error:
            raise self._fail(error, f"create a segment in {self._directory}") from error
        self._segments.append(segment)
        self._bases.append(base_offset)
        with self._lock:
            self._names_dirty = True
        return segment

    def _drop_last_segment(self) -> None:
        segment = self._segments.pop()
        self._bases.pop()
        with self._flushing:  # a worker may be syncing this very descriptor
            with self._lock:
                self._dirty.discard(segment)
                self._names_dirty = True
            segment.close()
            segment.path.unlink()

    def _remember(self, data: bytes, base_offset: int, end_offset: int) -> None:
        """Cache batch by batch: a reader's limit may lie between two that came together."""
        position, base = 0, base_offset
        while position < len(data):
            size = LENGTH_PREFIX_BYTES + int.from_bytes(data[position + 8 : position + 12], "big")
            last_delta = int.from_bytes(data[position + 23 : position + 27], "big")
            whole = size == len(data)
            self._cache.append(
                base, base + last_delta + 1, data if whole else data[position : position + size]
            )
            position, base = position + size, base + last_delta + 1
        assert base == end_offset, f"batches end at {base}, not {end_offset}"

    def _undo_append(self, segment: Segment, size_bytes: int) -> None:
        segment.size_bytes = size_bytes
        try:
            segment.cut()
        except OSError:
            # Its bytes are behind the last whole batch: recovery cuts them off.
            return

    def _guarded(self, action: Callable[[], None]) -> None:
        try:
            action()
        except (StorageFailure, DiskFull) as error:
            self._failure = str(error)
            raise

    def _fail(self, error: OSError, action: str) -> StorageFailure | DiskFull:
        failure = classify(error, action)
        self._failure = self._failure or str(failure)
        return failure

    def _check_usable(self) -> None:
        if self._failure is not None:
            raise StorageFailure(self._failure)
