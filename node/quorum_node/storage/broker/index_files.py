"""`.index` and `.timeindex` of a segment: where a search begins.

Owns the entries and the search. Entries are sorted and of fixed size; the newest are in memory
until there are enough for a write. Files are not kept open, as thousands of partitions would need
too many descriptors. An index is only a hint: it is rebuilt from its segment if it is missing or
inconsistent.
One thread at a time adds and truncates. Searches and `sync` may run concurrently on any thread, also during a rename.
Source: the files of a stock broker (`OffsetIndex`, `TimeIndex`).
"""

import os
import threading
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from quorum_node.storage.atomic_file import sync_data, write_at
from quorum_node.storage.file_system import FileSystem

_PENDING_BYTES = 4096


class _IndexFile:
    """Entries of format `entry`, ascending in all columns."""

    __slots__ = (
        "_files",
        "_name_lock",
        "_tail",
        "_tail_lock",
        "_unsynced",
        "entry",
        "last",
        "path",
    )

    def __init__(self, files: FileSystem, path: Path, entry: Struct) -> None:
        self._files = files
        self.path = path
        self.entry = entry
        self._name_lock = threading.Lock()
        """Held while the file is renamed, and while it is opened by its name."""
        self._tail_lock = threading.RLock()
        """Held while entries are added, written or truncated. `sync` writes them, too."""
        self._tail = _Tail(0, bytearray())
        self._unsynced = False
        self.last: tuple[int, int] | None = None

    @property
    def count(self) -> int:
        """Number of entries."""
        return self._tail.count(self.entry)

    def rename(self, target: Path) -> None:
        """Rename the file, if it exists. Searches on other threads continue. Raises OSError."""
        with self._name_lock:
            if self._files.exists(self.path):
                self._files.rename(self.path, target)
            self.path = target

    def adopt(self) -> bool:
        """Load the file; False if it does not exist or its first and last entries are negative or do not ascend."""
        try:
            size_bytes = self._files.size_of(self.path)
        except FileNotFoundError:
            return False
        if size_bytes % self.entry.size:
            return False
        tail = self._tail = _Tail(size_bytes // self.entry.size, bytearray())
        if not tail.on_disk:
            return True
        fd = self._open(os.O_RDONLY)
        try:
            first, self.last = self._get(fd, tail, 0), self._get(fd, tail, tail.on_disk - 1)
        finally:
            self._files.close(fd)
        ascends = first[0] < self.last[0] and first[1] < self.last[1]
        return min(first) >= 0 and (tail.on_disk == 1 or ascends)

    def append(self, first: int, second: int) -> None:
        """Add an entry; entries are written in groups."""
        with self._tail_lock:
            pending = self._tail.pending
            pending += self.entry.pack(first, second)
            self.last = (first, second)
            if len(pending) >= _PENDING_BYTES:
                self.write()

    def write(self) -> None:
        """Write pending entries, without a sync. The file exists afterwards."""
        with self._tail_lock:
            tail = self._tail
            if not tail.pending and tail.on_disk:
                return
            fd = self._open(os.O_RDWR | os.O_CREAT)
            try:
                write_at(fd, bytes(tail.pending), tail.on_disk * self.entry.size, self._files)
            finally:
                self._files.close(fd)
            self._tail = _Tail(self.count, bytearray())
            self._unsynced = True

    def sync(self) -> None:
        """Make all entries durable. Raises OSError."""
        self.write()
        if not self._unsynced:
            return
        self._unsynced = False
        fd = self._open(os.O_RDWR)
        try:
            sync_data(fd, self._files)
        finally:
            self._files.close(fd)

    def clear(self) -> None:
        """Remove all entries."""
        self._resize(0)

    def keep(self, column: int, below: int) -> None:
        """Keep the entries whose `column` is below the value."""
        self._resize(self._find(self._tail, column, below))

    def floor(self, column: int, target: int) -> tuple[int, int] | None:
        """The last entry whose `column` is at most `target`.

        None if there is none, or if the index is truncated meanwhile. The search then begins at the start of the segment.
        """
        last, tail = self.last, self._tail
        if last is None:
            return None
        if last[column] <= target:
            return last
        try:
            return self._entry(tail, self._find(tail, column, target + 1) - 1)
        except CutShort:
            return None

    def _resize(self, count: int) -> None:
        """Truncate the file to its entries; an empty index keeps its file.

        Nothing is written: on a full disk that would fail, although space becomes free. A failed write can have left more in the file.
        """
        with self._tail_lock:
            tail = self._tail
            if count == self.count and count:
                return
            last = self._entry(tail, count - 1)
            on_disk = min(count, tail.on_disk)
            pending = tail.pending[: (count - on_disk) * self.entry.size]
            self._tail, self.last = _Tail(on_disk, pending), last
            fd = self._open(os.O_RDWR | os.O_CREAT)
            try:
                self._files.ftruncate(fd, on_disk * self.entry.size)
            finally:
                self._files.close(fd)
            self._unsynced = True

    def _open(self, flags: int) -> int:
        with self._name_lock:
            return self._files.open(self.path, flags)

    def _entry(self, tail: "_Tail", number: int) -> tuple[int, int] | None:
        if number < 0:
            return None
        if number >= tail.on_disk:
            return self._get(-1, tail, number)
        fd = self._open(os.O_RDONLY)
        try:
            return self._get(fd, tail, number)
        finally:
            self._files.close(fd)

    def _find(self, tail: "_Tail", column: int, target: int) -> int:
        """Number of entries whose `column` is below `target`."""
        low, high = 0, tail.count(self.entry)
        fd = self._open(os.O_RDONLY) if tail.on_disk else -1
        try:
            while low < high:
                middle = (low + high) // 2
                entry = self._get(fd, tail, middle)
                if entry[column] < target:
                    low = middle + 1
                else:
                    high = middle
        finally:
            if fd >= 0:
                self._files.close(fd)
        return low

    def _get(self, fd: int, tail: "_Tail", number: int) -> tuple[int, int]:
        size = self.entry.size
        if number >= tail.on_disk:
            data = bytes(tail.pending[(number - tail.on_disk) * size :][:size])
        else:
            data = self._files.pread(fd, size, number * size)
        if len(data) < size:
            raise CutShort(f"{self.path} ends before entry {number}")
        first, second = self.entry.unpack(data)
        return first, second


class _Tail(NamedTuple):
    """Location of the entries: `on_disk` of them are in the file, the newer ones in `pending`.

    Replaced as a whole, so that a search on another thread uses one consistent state. Entries are only added to `pending`.
    """

    on_disk: int
    pending: bytearray

    def count(self, entry: Struct) -> int:
        """Number of entries."""
        return self.on_disk + len(self.pending) // entry.size


class CutShort(Exception):
    """The index was truncated during a search."""


class OffsetIndex(_IndexFile):
    """(last offset of a batch − base offset of the segment, position of the batch)."""

    __slots__ = ("_base_offset",)
    SUFFIX = ".index"
    ENTRY = Struct(">ii")

    def __init__(self, files: FileSystem, path: Path, base_offset: int) -> None:
        super().__init__(files, path, self.ENTRY)
        self._base_offset = base_offset

    def position_of(self, offset: int) -> int:
        """Position from which to search for the batch that contains `offset`."""
        found = self.floor(0, offset - self._base_offset)
        return 0 if found is None else found[1]

    def add(self, last_offset: int, position: int) -> None:
        """Add the position of a batch."""
        self.append(last_offset - self._base_offset, position)

    def cut(self, end_offset: int) -> None:
        """Remove entries of a truncated segment."""
        self.keep(0, end_offset - self._base_offset)


class TimeIndex(_IndexFile):
    """(largest timestamp so far, last offset of its batch − base offset of the segment)."""

    __slots__ = ("_base_offset",)
    SUFFIX = ".timeindex"
    ENTRY = Struct(">qi")

    def __init__(self, files: FileSystem, path: Path, base_offset: int) -> None:
        super().__init__(files, path, self.ENTRY)
        self._base_offset = base_offset

    @property
    def largest(self) -> tuple[int, int]:
        """(timestamp, offset) of the last entry; (-1, base offset) if there is none."""
        if self.last is None:
            return -1, self._base_offset
        return self.last[0], self._base_offset + self.last[1]

    def add(self, timestamp_ms: int, offset: int) -> None:
        """Add an entry if its timestamp is larger than the last one."""
        if timestamp_ms > self.largest[0]:
            self.append(timestamp_ms, offset - self._base_offset)

    def before(self, timestamp_ms: int) -> int:
        """An offset before which all timestamps are lower than `timestamp_ms`."""
        found = self.floor(0, timestamp_ms - 1)
        return self._base_offset if found is None else self._base_offset + found[1]

    def largest_before(self, offset: int) -> int:
        """The largest timestamp in the entries of batches that end before `offset` or there; -1 if there is none."""
        found = self.floor(1, offset - 1 - self._base_offset)
        return -1 if found is None else found[0]

    def cut(self, end_offset: int) -> None:
        """Remove entries of a truncated segment."""
        self.keep(1, end_offset - self._base_offset)
