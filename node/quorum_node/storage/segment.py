"""One file of the log: consecutive batches from a base offset on, with a sparse index in memory.

Owns one file descriptor. Reads and appends happen on one thread; `sync` and `seal` may run on
another.
"""

import contextlib
import os
import re
import struct
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from crc32c import crc32c

from quorum_node.records.batches import CONTROL_FLAG, MIN_LENGTH, PREFIX_BYTES, SPAN
from quorum_node.records.snapshot_id import MAX_OFFSET
from quorum_node.storage.atomic_file import drop_cached, read_at, sync_data, write_at
from quorum_node.storage.errors import StorageFailure, SyncFailed
from quorum_node.storage.file_system import POSIX, FileSystem
from quorum_node.storage.log_end import NOTHING_KNOWN, KnownSynced
from quorum_node.storage.recovery import (
    INDEX_INTERVAL_BYTES,
    SegmentScan,
    scan_segment,
)
from quorum_node.storage.seal import Seal, read_seal, write_seal
from quorum_node.storage.sync_elsewhere import SyncElsewhere

SUFFIX = ".log"
_NAME = re.compile(r"[0-9]{20}\.log")
_READ_AHEAD_BYTES = 64 * 1024
_CRC_PIECE_BYTES = 1 << 20
_ATTRIBUTES_LOW_BYTE = 22
_EPOCH = struct.Struct(">12xi")


def segment_bases(names: Iterable[str]) -> list[int]:
    """Base offsets of the segments among these file names, ascending.

    Every other name is ignored: the file is not of this log, and must neither be read nor removed.
    """
    found = sorted(int(name[:20]) for name in names if _NAME.fullmatch(name))
    return [base for base in found if base <= MAX_OFFSET]


class SyncedPart(NamedTuple):
    """The synced part of a file: its size, and the CRC-32C of the written data (None: unknown).

    Invalid if the segment has been truncated more than `cuts` times since.
    """

    size_bytes: int
    crc: int | None
    cuts: int


class Segment:
    """An open segment file. OSErrors are handled by the log.

    `epoch_starts` begins with the first batch. `closed`: fully synced, nothing more is appended.
    """

    __slots__ = (
        "_crc",
        "_index_offsets",
        "_index_positions",
        "_under_way",
        "base_offset",
        "closed",
        "control_spans",
        "cuts",
        "epoch_starts",
        "fd",
        "files",
        "path",
        "size_bytes",
        "synced",
        "tail",
    )

    def __init__(self, directory: Path, base_offset: int, files: FileSystem = POSIX) -> None:
        self.files = files
        self.path = directory / f"{base_offset:020d}{SUFFIX}"
        self.base_offset = base_offset
        self.size_bytes = 0
        self.closed = False
        self.fd = files.open(self.path, os.O_RDWR | os.O_CREAT)
        self.epoch_starts: list[tuple[int, int]] = []
        self.control_spans: list[tuple[int, int]] = []
        self._crc: int | None = 0
        """CRC-32C of the whole file; None: unknown since a truncation."""
        self.cuts = 0
        """Number of truncations."""
        self.tail: tuple[int, int | None, int] = (0, 0, 0)
        """Size, checksum and truncations of the written data: one value, as another thread reads it
        in `sync`.
        """
        self.synced: SyncedPart | None = None
        """The synced part, for `scrub`."""
        self._index_offsets = array("q")
        self._index_positions = array("q")
        self._under_way: tuple[SyncElsewhere, tuple[int, int | None, int]] | None = None

    def load(self, last_epoch: int, synced: KnownSynced = NOTHING_KNOWN) -> SegmentScan:
        """Scan the file on the disk and load its valid batches; an incomplete tail is left for `cut`.

        Data of a killed process in the page cache is synced first.
        """
        drop_cached(self.fd, self.files)
        scan = self.scan(last_epoch, synced)
        self.synced = SyncedPart(*self.tail)
        return scan

    def scan(self, last_epoch: int, synced: KnownSynced) -> SegmentScan:
        """As `load`, but reads through the page cache."""
        content = self._pread(self.files.size_bytes(self.fd), 0)
        scan = scan_segment(content, self.base_offset, last_epoch, str(self.path), synced)
        self.size_bytes = scan.valid_bytes
        self._index_offsets = scan.index_offsets
        self._index_positions = scan.index_positions
        self.control_spans = scan.control_spans
        if scan.valid_bytes:
            first = (_EPOCH.unpack_from(content, 0)[0], self.base_offset)
            self.epoch_starts = [first, *(s for s in scan.epoch_starts if s != first)]
        self._crc = crc32c(memoryview(content)[: scan.valid_bytes])
        self.tail = (self.size_bytes, self._crc, self.cuts)
        return scan

    def adopt_seal(self, end_offset: int) -> bool:
        """Load the seal, if there is one that matches a segment up to `end_offset`."""
        seal = read_seal(self.path, self.files)
        size_bytes = self.files.size_bytes(self.fd)
        if seal is None or (seal.end_offset, seal.size_bytes) != (end_offset, size_bytes):
            return False
        self.size_bytes = size_bytes
        self._index_offsets, self._index_positions = seal.index_offsets, seal.index_positions
        self.control_spans = list(seal.control_spans)
        self.epoch_starts = list(seal.epoch_starts)
        self._crc = seal.crc
        self.tail = (self.size_bytes, self._crc, self.cuts)
        self.synced = SyncedPart(*self.tail)
        self.closed = True
        return True

    def seal(self, end_offset: int) -> None:
        """Write the seal; the whole segment has to be synced. Raises StorageFailure or DiskFull."""
        crc = self._crc
        write_seal(
            self.path,
            Seal(
                end_offset=end_offset,
                size_bytes=self.size_bytes,
                crc=self.read_crc() if crc is None else crc,
                epoch_starts=tuple(self.epoch_starts),
                control_spans=tuple(self.control_spans),
                index_offsets=self._index_offsets,
                index_positions=self._index_positions,
            ),
            self.files,
        )

    def read_crc(self) -> int:
        """CRC-32C of everything in the file as it is on disk."""
        crc = 0
        for position in range(0, self.size_bytes, _CRC_PIECE_BYTES):
            size = min(_CRC_PIECE_BYTES, self.size_bytes - position)
            crc = crc32c(self._pread(size, position), crc)
        return crc

    def append(self, data: bytes, base_offset: int) -> None:
        """Append one batch. After an error nothing of it counts as written."""
        position = self.size_bytes
        write_at(self.fd, data, position, self.files)
        offsets = self._index_offsets
        if not offsets or position - self._index_positions[-1] >= INDEX_INTERVAL_BYTES:
            offsets.append(base_offset)
            self._index_positions.append(position)
        if self._crc is not None:
            self._crc = crc32c(data, self._crc)
        self.size_bytes = position + len(data)
        self.tail = (self.size_bytes, self._crc, self.cuts)

    def note_batch(self, data: bytes, start: int, size: int) -> None:
        """Register a control batch at `start` of `data`, which was just appended."""
        if data[start + _ATTRIBUTES_LOW_BYTE] & CONTROL_FLAG:
            self.control_spans.append((self.size_bytes - len(data) + start, size))

    def undo_append(self, size_bytes: int) -> None:
        """Remove the remains of a failed append after `size_bytes`."""
        self.size_bytes = size_bytes
        # it is after the last valid batch, so recovery truncates it
        with contextlib.suppress(OSError):
            self.cut()

    def cut(self) -> None:
        """Truncate the file to its last valid batch."""
        self.files.ftruncate(self.fd, self.size_bytes)

    def truncate_to(self, end_offset: int) -> None:
        """Keep the batches that end at or before `end_offset`."""
        self.size_bytes = self._position_of(end_offset)
        self.closed = False
        keep = bisect_right(self._index_positions, self.size_bytes - 1)
        del self._index_offsets[keep:], self._index_positions[keep:]
        self.epoch_starts = [start for start in self.epoch_starts if start[1] < end_offset]
        self.control_spans = [span for span in self.control_spans if span[0] < self.size_bytes]
        self._crc = None if self.size_bytes else 0
        self.cuts += 1
        self.synced, self.tail = None, (self.size_bytes, self._crc, self.cuts)
        self.files.ftruncate(self.fd, self.size_bytes)

    def rebase(self, base_offset: int) -> None:
        """Change the base offset and the name of an empty segment."""
        assert self.size_bytes == 0, f"{self.path} is not empty"
        path = self.path.with_name(f"{base_offset:020d}{SUFFIX}")
        self.files.rename(self.path, path)
        self.path, self.base_offset = path, base_offset

    def control_batches(self) -> list[tuple[int, bytes]]:
        """Base offset and bytes of every control batch, in order.

        The offset is computed from the batches before, not read from the header.
        """
        return [
            (self._offset_at(position), self._pread(size, position))
            for position, size in self.control_spans
        ]

    def read(self, start_offset: int, max_bytes: int, limit_offset: int) -> bytes:
        """Whole batches from the one that contains `start_offset`, each ending by `limit_offset`.

        At least one batch, if there is any, even if it is larger than `max_bytes`.
        """
        start = self._position_of(start_offset)
        content = self._pread(min(max(max_bytes, SPAN.size), self.size_bytes - start), start)
        position = 0
        while len(content) - position >= SPAN.size:
            base, length, last_delta = SPAN.unpack_from(content, position)
            end = position + PREFIX_BYTES + length
            if length < MIN_LENGTH or end > self.size_bytes - start:
                raise self._damaged(start + position, length)
            if base + last_delta + 1 > limit_offset:
                break
            if end > len(content):
                return self._pread(end, start) if position == 0 else content[:position]
            position = end
        return content[:position]

    def sync(self) -> None:
        """fdatasync: size and bytes are durable afterwards. Raises SyncFailed."""
        tail = self.tail
        sync_data(self.fd, self.files)
        self.synced = SyncedPart(*tail)

    def begin_sync(self, elsewhere: SyncElsewhere) -> None:
        """Begin a sync; `end_sync` follows."""
        elsewhere.submit(self.fd)
        self._under_way = elsewhere, self.tail

    def end_sync(self) -> None:
        """Wait for the sync that was begun. Raises SyncFailed."""
        assert self._under_way is not None
        (elsewhere, tail), self._under_way = self._under_way, None
        code = elsewhere.wait()
        if code:
            raise SyncFailed(code, os.strerror(code))
        self.synced = SyncedPart(*tail)

    def close(self) -> None:
        """Close the descriptor, without syncing."""
        self.files.close(self.fd)

    def _position_of(self, offset: int) -> int:
        """Position of the batch that contains `offset`, or the end of the file."""
        entry = bisect_right(self._index_offsets, offset) - 1
        for position, _, end_offset in self._batches_from(entry, self.size_bytes):
            if end_offset > offset:
                return position
        return self.size_bytes

    def _offset_at(self, position: int) -> int:
        """Base offset of the batch at `position`, computed from the batches before it."""
        entry = bisect_right(self._index_positions, position) - 1
        if entry >= 0 and self._index_positions[entry] == position:
            return self._index_offsets[entry]
        if position == 0:
            return self.base_offset
        for _, end, end_offset in self._batches_from(entry, position):
            if end == position:
                return end_offset
            if end > position:
                break
        raise self._damaged(position, 0)

    def _batches_from(self, entry: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """Position, end and end offset of each batch before `stop`, from an index entry on; -1:
        from the first batch on.

        Batches are consecutive. No checksum covers a base offset, so an unexpected one is damage. A
        length is checked when the next batch is read.
        """
        position, following = 0, self.base_offset
        if entry >= 0:
            position, following = self._index_positions[entry], self._index_offsets[entry]
        while position < stop:
            chunk = self._pread(min(_READ_AHEAD_BYTES, stop - position), position)
            walked = 0
            while len(chunk) - walked >= SPAN.size:
                base, length, last_delta = SPAN.unpack_from(chunk, walked)
                if base != following or last_delta < 0:
                    raise self._misplaced(position + walked, base, last_delta, following)
                following = base + last_delta + 1
                size = PREFIX_BYTES + length
                yield position + walked, position + walked + size, following
                if length < MIN_LENGTH or position + walked + size > self.size_bytes:
                    raise self._damaged(position + walked, length)
                walked += size
            if not walked:
                raise self._damaged(position, 0)
            position += walked

    def _misplaced(
        self, position: int, base: int, last_delta: int, following: int
    ) -> StorageFailure:
        what = f"base offset {base} instead of {following}"
        if base == following:
            what = f"last offset delta {last_delta}"
        return StorageFailure(f"{self.path} is damaged at byte {position}: {what}")

    def _damaged(self, position: int, length: int) -> StorageFailure:
        return StorageFailure(f"{self.path} is damaged at byte {position}: batch length {length}")

    def _pread(self, size: int, position: int) -> bytes:
        return read_at(self.fd, size, position, self.files)
