"""The replica's log: segments on disk, the newest batches in memory, and the end that is known to be durable.

Owns appending, truncating, reading and syncing of batches, roll-over of segments, and the start of the log after a
snapshot. Must not know the meaning of epochs, high watermarks or readers. KIP-595, "Log"; KIP-630.
Threads: everything runs on the driver's thread, except `flush`, which may run on a worker concurrently with appends,
reads and truncations.

Crash safety: after a kill at any instant `SegmentedLog` opens with everything that was durable. This requires an
order:
* An epoch enters leader-epoch-checkpoint before its first batch is written, and after a truncation that made room for
it is durable. It is removed after the truncation of its batches is durable.
* A seal is written after its segment and the name of the next one were synced. It is removed, durably, before the
segment is truncated.
* `synced-end` never claims more than is synced: it is written after a sync, and before a truncation.
* `delete_prefix` removes whole segments, oldest first. `reset_to` removes them newest first, then empties the first
one and renames it to the new base. In between the log is shorter, and from the snapshot, which was durable before,
the next open recognizes that the reset has to be completed.
"""

import contextlib
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from quorum_node.records.batches import PREFIX_BYTES
from quorum_node.records.snapshot_id import NO_SNAPSHOT, SnapshotId
from quorum_node.storage.atomic_file import sync_directory
from quorum_node.storage.checked_read import check_batch_at, check_batches
from quorum_node.storage.errors import (
    DiskFull,
    StorageFailure,
    again,
    check_syncs,
    classify,
    unless_full,
)
from quorum_node.storage.file_system import POSIX, FileSystem
from quorum_node.storage.leader_epochs import (
    EpochStarts,
    check_against_log,
    from_offset,
    read_checkpoint,
    write_checkpoint,
)
from quorum_node.storage.log_opening import log_start, open_as_recorded
from quorum_node.storage.seal import seal_path
from quorum_node.storage.segment import Segment
from quorum_node.storage.sync_elsewhere import SyncElsewhere
from quorum_node.storage.synced_end import SyncedEnd, read_synced_end
from quorum_node.storage.tail_cache import TailCache
from quorum_node.storage.unsynced import Unsynced

DEFAULT_SEGMENT_BYTES = 64 * 1024 * 1024
DEFAULT_CACHE_BYTES = 32 * 1024 * 1024


class SegmentedLog:
    """The durable log of one partition in one directory.

    `end_offset` includes everything appended; `flush` returns the durable end.
    """

    def __init__(
        self,
        directory: Path,
        *,
        segment_bytes: int = DEFAULT_SEGMENT_BYTES,
        cache_bytes: int = DEFAULT_CACHE_BYTES,
        snapshots: Sequence[SnapshotId] = (),
        synced_offset: int = 0,
        files: FileSystem = POSIX,
    ) -> None:
        """Open or create. Raises StorageFailure on damage; data that was never synced is truncated durably.

        `snapshots`: complete ones, oldest first, the newest of them verified. `synced_offset`: everything below it is
        known from elsewhere to be synced.
        """
        self._directory = directory
        self._files = files
        self._segment_bytes = segment_bytes
        self._cache = TailCache(cache_bytes)
        self._segments: list[Segment] = []
        self._bases: list[int] = []
        self._dirty: set[Segment] = set()
        self._to_seal: list[tuple[Segment, int]] = []
        """Segments that were rolled over, with their end offsets; the next flush seals them."""
        self._names_dirty = False
        self._lock = threading.Lock()
        self._flushing = threading.Lock()
        self._truncated_to: int | None = None
        self._cut_is_unsynced = False
        self._begun: Unsynced | None = None
        self._ended_at = 0
        self._failure: StorageFailure | DiskFull | None = None
        self._synced_end: SyncedEnd | None = None
        """None while the log is being opened, and if the disk is too full to create the file."""
        self.epoch_starts: EpochStarts = []
        self.control_batches: list[bytes] = []
        """Control batches found at open, oldest first; they contain the voter sets."""
        self.start = NO_SNAPSHOT
        """The snapshot at the start of the log; `start_offset` is its end."""
        self.start_offset = 0
        self.end_offset = 0
        self.torn_bytes = 0
        """Bytes of an incomplete tail that were truncated at open."""
        self.sealed_at_open: list[Segment] = []
        """Segments that were opened without reading them: for `scrub`."""
        try:
            self._open(snapshots, synced_offset)
        except OSError as error:
            raise classify(error, f"open the log in {directory}") from error

    @property
    def segments(self) -> Sequence[Segment]:
        """Oldest first; the last one is active."""
        return self._segments

    def append(self, data: bytes, base_offset: int, end_offset: int, leader_epoch: int) -> None:
        """Append whole batches with offsets base_offset <= o < end_offset.

        Raises DiskFull (nothing was appended) or StorageFailure (final).
        """
        self._check_usable()
        assert base_offset == self.end_offset, f"append at {base_offset}, end {self.end_offset}"
        if not self.epoch_starts or leader_epoch > self.epoch_starts[-1][0]:
            starts = [*self.epoch_starts, (leader_epoch, base_offset)]
            self._sync_cut()
            self._guarded(lambda: write_checkpoint(self._directory, starts, self._files))
            self.epoch_starts = starts
        segment = self._segments[-1]
        if segment.size_bytes and segment.size_bytes + len(data) > self._segment_bytes:
            segment = self._roll(base_offset)
        before_bytes = segment.size_bytes
        try:
            segment.append(data, base_offset)
        except OSError as error:
            segment.undo_append(before_bytes)
            raise self._fail(error, f"append to {segment.path}") from error
        if not segment.epoch_starts or segment.epoch_starts[-1][0] != leader_epoch:
            segment.epoch_starts.append((leader_epoch, base_offset))
        with self._lock:
            self._dirty.add(segment)
            self.end_offset = end_offset
        self._remember(segment, data, base_offset, end_offset)

    def truncate_to(self, end_offset: int) -> None:
        """Remove every batch that ends after `end_offset`. Raises StorageFailure."""
        self._check_usable()
        if end_offset >= self.end_offset:
            return
        assert end_offset >= self.start_offset, (
            f"cut at {end_offset}, the log starts at {self.start}"
        )
        starts = [start for start in self.epoch_starts if start[1] < end_offset]
        epochs_go = starts != self.epoch_starts
        try:
            self._lower_synced_end(end_offset)
            if self._bases[-1] >= end_offset and len(self._segments) > 1:
                self._drop_segments_from(end_offset)
            self._segments[-1].truncate_to(end_offset)
            if epochs_go:
                self._segments[-1].sync()
                sync_directory(self._directory, self._files)
        except OSError as error:
            raise self._fail(error, f"truncate {self._segments[-1].path}") from error
        self._cut_is_unsynced = not epochs_go
        with self._lock:
            self._dirty.add(self._segments[-1])
            self.end_offset = end_offset
            earlier = self._truncated_to
            self._truncated_to = end_offset if earlier is None else min(earlier, end_offset)
            if self._synced_end is not None:
                self._synced_end.cut_is_done()
        self._cache.truncate_to(end_offset)
        if epochs_go:
            self._guarded(lambda: write_checkpoint(self._directory, starts, self._files))
            self.epoch_starts = starts

    def delete_prefix(self, id: SnapshotId) -> None:
        """Let the log start at the end of this durable snapshot; whole segments before it are deleted.

        A segment that is not fully synced yet stays until a later call. Raises StorageFailure.
        """
        self._check_usable()
        assert self.start_offset <= id.end_offset <= self.end_offset, f"{id} is not in the log"
        self._start_at(id)
        try:
            while len(self._bases) > 1 and self._bases[1] <= id.end_offset:
                if not self._segments[0].closed:
                    break
                segment = self._segments.pop(0)
                self._bases.pop(0)
                segment.close()
                self._files.unlink(segment.path)
                self._files.unlink(seal_path(segment.path), missing_ok=True)
        except OSError as error:
            raise self._fail(error, f"delete the log before offset {id.end_offset}") from error
        self.epoch_starts = from_offset(self.epoch_starts, self._bases[0])

    def reset_to(self, id: SnapshotId) -> None:
        """Remove everything; the log is empty and starts at the end of this durable snapshot."""
        self._check_usable()
        assert id.end_offset >= self.start_offset, f"reset to {id}, the log starts at {self.start}"
        try:
            self._lower_synced_end(self._bases[0])
            self._drop_segments_from(self._bases[0])
            # Otherwise a power failure could keep a later segment only, which looks like lost records.
            sync_directory(self._directory, self._files)
            segment = self._segments[0]
            segment.truncate_to(segment.base_offset)
            segment.sync()
            segment.rebase(id.end_offset)
            sync_directory(self._directory, self._files)
        except OSError as error:
            raise self._fail(error, f"reset the log in {self._directory}") from error
        self._bases = [id.end_offset]
        self._cache.truncate_to(-1)
        with self._lock:
            self.end_offset = id.end_offset
            self._truncated_to = id.end_offset
            if self._synced_end is not None:
                self._synced_end.cut_is_done()
        self._start_at(id)
        self.epoch_starts, self.control_batches = [], []

    def size_bytes_from(self, offset: int) -> int:
        """Size of the segments that hold anything from `offset` on."""
        first = max(0, bisect_right(self._bases, offset) - 1)
        return sum(segment.size_bytes for segment in self._segments[first:])

    def epoch_before(self, offset: int) -> int | None:
        """Epoch of the record before `offset`; None outside of the log."""
        if not self.start_offset <= offset <= self.end_offset:
            return None
        if offset == self.start_offset:
            return self.start.epoch
        found = [epoch for epoch, start in self.epoch_starts if start < offset]
        return found[-1] if found else None

    def read(self, start_offset: int, max_bytes: int, limit_offset: int) -> bytes:
        """Raw whole batches from the one that contains `start_offset`, each ending by `limit_offset`.

        At least one, if there is any; b"" at the end. Raises StorageFailure.
        """
        if start_offset >= min(limit_offset, self.end_offset):
            return b""
        cached = self._cache.read(start_offset, max_bytes, limit_offset)
        if cached is not None:
            return cached
        self._check_usable()
        assert start_offset >= self._bases[0], f"read at {start_offset}, log from {self._bases[0]}"
        segment = self._segments[bisect_right(self._bases, start_offset) - 1]
        with self._reading(segment):
            data = segment.read(start_offset, max_bytes, limit_offset)
            if not data:
                # The limit is within a batch, or the batch's header is damaged.
                check_batch_at(segment, start_offset, self.end_offset, self.epoch_starts)
        return data

    def read_checked(self, start_offset: int, max_bytes: int, limit_offset: int) -> bytes:
        """As `read`, but from the disk instead of memory, and verified, as the requester received damaged records.

        Raises StorageFailure if the log is damaged; it is unusable after that.
        """
        if start_offset >= min(limit_offset, self.end_offset):
            return b""
        self._check_usable()
        segment = self._segments[bisect_right(self._bases, start_offset) - 1]
        with self._reading(segment):
            self._files.fadvise_dontneed(segment.fd)
            data = segment.read(start_offset, max_bytes, limit_offset)
            end = check_batches(data, start_offset, self.epoch_starts, str(segment.path))
            if end < self.end_offset and end not in self._bases:
                # the reason for the early end is checked, too
                check_batch_at(segment, end, self.end_offset, self.epoch_starts)
        cached = self._cache.read(start_offset, max_bytes, limit_offset)
        if cached is not None and not (data.startswith(cached) or cached.startswith(data)):
            self._cache.truncate_to(-1)  # the disk is intact, the memory was not
        return data

    def flush(self) -> int:
        """Make everything appended so far durable; returns the durable end offset.

        Never retried: after a StorageFailure the log refuses all operations.
        """
        with self._flushing:
            self._await_begun()
            return self.sync(self.take_unsynced())

    def begin_sync(self, elsewhere: SyncElsewhere) -> bool:
        """Begin a flush if no other is in progress; `end_sync` follows. False: it needs several syncs, use `flush`."""
        if self._failure is not None or len(self._dirty) != 1 or self._names_dirty or self._to_seal:
            return False
        self._begun = self.take_unsynced()
        next(iter(self._begun.segments)).begin_sync(elsewhere)
        return True

    def end_sync(self) -> int:
        """Wait for the sync that was begun; returns and raises what `flush` would."""
        begun, self._begun = self._begun, None
        if begun is None:  # a `flush` has waited for it
            self._check_usable()
            return self._ended_at
        return self.sync(begun, begun=True)

    def _await_begun(self) -> None:
        """Wait for a sync in progress: the kernel reports a write error to one sync of a file only."""
        if self._begun is not None:
            self._ended_at = self.end_sync()

    def take_unsynced(self) -> Unsynced:
        """First half of `flush`: collect the data that a sync has to cover that begins now."""
        self._check_usable()
        with self._lock:
            unsynced = Unsynced(
                self.end_offset,
                self._dirty,
                self._names_dirty,
                self._to_seal,
                self._last_epoch(),
                self._synced_end.generation if self._synced_end is not None else 0,
            )
            self._dirty, self._names_dirty, self._to_seal = set(), False, []
            self._truncated_to = None
        return unsynced

    def sync(self, unsynced: Unsynced, *, begun: bool = False) -> int:
        """Second half of `flush`. It is slow; the log continues meanwhile."""
        try:
            # Oldest first: everything before a durable batch is durable.
            for segment in unsynced.oldest_first():
                segment.end_sync() if begun else segment.sync()
            check_syncs(self._failure)
            if unsynced.names:
                sync_directory(self._directory, self._files)
            if self._synced_end is not None:
                self._synced_end.raise_to(unsynced.end_offset, unsynced.epoch, unsynced.generation)
        except OSError as error:
            self._note_failed_sync()
            raise self._fail(error, f"sync the log in {self._directory}") from error
        self._guarded(unsynced.seal)
        with self._lock:
            # truncated during the sync: nothing beyond that offset is proven durable
            cut = self._truncated_to
        return unsynced.end_offset if cut is None else min(unsynced.end_offset, cut)

    def settle(self, committed_end: int = 0) -> None:
        """Make the known synced end durable; runs concurrently with everything else, on any thread.

        Until then a power failure leaves a lower end. `committed_end`: all records below this offset are committed;
        it is stored for readers of the directory. Raises StorageFailure or DiskFull, which are final as in `flush`.
        """
        if self._synced_end is None or self._failure is not None:
            return
        try:
            self._synced_end.settle(committed_end)
        except OSError as error:
            raise self._fail(
                error, f"sync the synced end of the log in {self._directory}"
            ) from error

    def close(self) -> None:
        """Close the files without syncing; a graceful stop flushes first."""
        if self._synced_end is not None and self._segments:
            self._synced_end.close()
        for segment in self._segments:
            segment.close()
        self._segments, self._bases = [], []
        self._failure = self._failure or StorageFailure("the log is closed")

    def _open(self, snapshots: Sequence[SnapshotId], synced_offset: int) -> None:
        self._files.make_directories(self._directory)
        recorded = read_synced_end(self._directory, self._files)
        opened = open_as_recorded(self._directory, recorded, synced_offset, self._files)
        self._segments = opened.segments
        self._bases = [segment.base_offset for segment in opened.segments]
        self.sealed_at_open = opened.sealed
        self._start_at(log_start(self._bases[0], snapshots, self._directory))
        self.end_offset = opened.end_offset
        self.epoch_starts, self.control_batches = opened.epoch_starts, opened.control_batches
        self.torn_bytes = opened.torn_bytes
        self._names_dirty = opened.names_changed
        self._dirty = set(opened.cut)  # everything else that was read was synced before
        following = zip(opened.segments, opened.segments[1:], strict=False)
        self._to_seal = [(s, after.base_offset) for s, after in following if not s.closed]
        checkpoint = from_offset(read_checkpoint(self._directory, self._files), self._bases[0])
        check_against_log(checkpoint, self.epoch_starts, self.end_offset)
        if checkpoint != self.epoch_starts:
            write_checkpoint(self._directory, self.epoch_starts, self._files)
        self.flush()
        with unless_full():
            self._synced_end = SyncedEnd(
                self._directory, self.end_offset, self._last_epoch(), recorded, self._files
            )

    def _last_epoch(self) -> int:
        """Epoch of the record before the end; -1 if there is none."""
        return self.epoch_starts[-1][0] if self.epoch_starts else self.start.epoch

    def _lower_synced_end(self, end_offset: int) -> None:
        """Lower the synced end before a truncation. Raises OSError, SyncFailed."""
        if self._synced_end is not None:
            epoch = self.epoch_before(end_offset)
            self._synced_end.lower_to(end_offset, -1 if epoch is None else epoch)

    def _sync_cut(self) -> None:
        """Sync a truncation before a new epoch begins there: the old records must not reappear after its entry."""
        if self._cut_is_unsynced:
            try:
                self._segments[-1].sync()
            except OSError as error:
                self._note_failed_sync()
                raise self._fail(error, f"sync {self._segments[-1].path}") from error
            self._cut_is_unsynced = False

    def _note_failed_sync(self) -> None:
        if self._synced_end is not None:
            # the next start detects it, as it reads from the disk
            with contextlib.suppress(OSError):
                self._synced_end.note_failure()

    def _start_at(self, id: SnapshotId) -> None:
        self.start, self.start_offset = id, id.end_offset

    def _roll(self, base_offset: int) -> Segment:
        before = self._segments[-1]
        try:
            segment = Segment(self._directory, base_offset, self._files)
        except OSError as error:
            raise self._fail(error, f"create a segment in {self._directory}") from error
        self._segments.append(segment)
        self._bases.append(base_offset)
        with self._lock:
            self._names_dirty = True
            self._to_seal.append((before, base_offset))
        return segment

    def _drop_segments_from(self, end_offset: int) -> None:
        """Remove segments, newest first, until the last one begins before `end_offset`; keep one."""
        keep = max(1, bisect_right(self._bases, end_offset - 1))
        self._await_begun()  # A worker may be syncing or sealing a file that would be closed here.
        with self._flushing:  # a worker may be syncing or sealing these very files
            with self._lock:
                self._to_seal = [
                    each for each in self._to_seal if each[0] not in self._segments[keep - 1 :]
                ]
            for segment in self._segments[keep - 1 :]:
                self._files.unlink(seal_path(segment.path), missing_ok=True)
            sync_directory(self._directory, self._files)
            while len(self._segments) > keep:
                segment = self._segments.pop()
                self._bases.pop()
                with self._lock:
                    self._dirty.discard(segment)
                    self._names_dirty = True
                segment.close()
                self._files.unlink(segment.path)

    def _remember(self, segment: Segment, data: bytes, base_offset: int, end_offset: int) -> None:
        """Cache batch by batch: a reader's limit may be between two batches that were appended together."""
        position, base = 0, base_offset
        while position < len(data):
            size = PREFIX_BYTES + int.from_bytes(data[position + 8 : position + 12], "big")
            last_delta = int.from_bytes(data[position + 23 : position + 27], "big")
            whole = size == len(data)
            segment.note_batch(data, position, size)
            self._cache.append(
                base, base + last_delta + 1, data if whole else data[position : position + size]
            )
            position, base = position + size, base + last_delta + 1
        assert base == end_offset, f"batches end at {base}, not {end_offset}"

    @contextlib.contextmanager
    def _reading(self, segment: Segment) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._fail(error, f"read {segment.path}") from error
        except StorageFailure as failure:
            self._failure = self._failure or failure
            raise

    def _guarded(self, action: Callable[[], None]) -> None:
        try:
            action()
        except (StorageFailure, DiskFull) as error:
            self._failure = error
            raise

    def _fail(self, error: OSError, action: str) -> StorageFailure | DiskFull:
        failure = classify(error, action)
        self._failure = self._failure or failure
        return failure

    def _check_usable(self) -> None:
        if self._failure is not None:
            raise again(self._failure)
