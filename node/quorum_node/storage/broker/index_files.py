"""`.index` and `.timeindex` of a segment: where a search begins.

Owns the entries and the search. Entries are sorted and of fixed size; the newest are in memory
until there are enough for a write. Files are not kept open, as thousands of partitions would need
too many descriptors. An index is only a hint: it is rebuilt from its segment if it is missing or
inconsistent.
Source: the files of a stock broker (`OffsetIndex`, `TimeIndex`).
"""

import os
from pathlib import Path
from struct import Struct

from quorum_node.storage.atomic_file import sync_data
from quorum_node.storage.file_system import FileSystem

_PENDING_BYTES = 4096


class _IndexFile:
    """Entries of format `entry`, ascending in all columns."""

    __slots__ = ("_count", "_files", "_on_disk", "_pending", "_unsynced", "entry", "last", "path")

    def __init__(self, files: FileSystem, path: Path, entry: Struct) -> None:
        self._files = files
        self.path = path
        self.entry = entry
        self._on_disk = 0
        """Number of entries in the file."""
        self._count = 0
        self._pending = bytearray()
        self._unsynced = False
        self.last: tuple[int, int] | None = None

    @property
    def count(self) -> int:
        """Number of entries."""
        return self._count

    def adopt(self) -> bool:
        """Load the file; False if it does not exist or its first and last entries do not ascend."""
        try:
            size_bytes = self._files.size_of(self.path)
        except FileNotFoundError:
            return False
        if size_bytes % self.entry.size:
            return False
        self._count = self._on_disk = size_bytes // self.entry.size
        if not self._count:
            return True
        fd = self._files.open(self.path, os.O_RDONLY)
        try:
            first, self.last = self._get(fd, 0), self._get(fd, self._count - 1)
        finally:
            self._files.close(fd)
        return self._count == 1 or (first[0] < self.last[0] and first[1] < self.last[1])

    def append(self, first: int, second: int) -> None:
        """Add an entry; entries are written in groups."""
        self._pending += self.entry.pack(first, second)
        self.last = (first, second)
        self._count += 1
        if len(self._pending) >= _PENDING_BYTES:
            self.write()

    def write(self) -> None:
        """Write pending entries, without a sync. The file exists afterwards."""
        if not self._pending and self._on_disk:
            return
        fd = self._files.open(self.path, os.O_RDWR | os.O_CREAT)
        try:
            view, position = memoryview(self._pending), self._on_disk * self.entry.size
            while view:
                written = self._files.pwrite(fd, view, position)
                view, position = view[written:], position + written
        finally:
            self._files.close(fd)
        self._on_disk = self._count
        self._pending = bytearray()
        self._unsynced = True

    def sync(self) -> None:
        """Make all entries durable. Raises OSError."""
        self.write()
        if not self._unsynced:
            return
        self._unsynced = False
        fd = self._files.open(self.path, os.O_RDWR)
        try:
            sync_data(fd, self._files)
        finally:
            self._files.close(fd)

    def clear(self) -> None:
        """Remove all entries."""
        self._resize(0)

    def keep(self, column: int, below: int) -> None:
        """Keep the entries whose `column` is below the value."""
        self._resize(self._find(column, below))

    def floor(self, column: int, target: int) -> tuple[int, int] | None:
        """The last entry whose `column` is at most `target`."""
        if self.last is None:
            return None
        if self.last[column] <= target:
            return self.last
        return self._entry(self._find(column, target + 1) - 1)

    def _resize(self, count: int) -> None:
        """Truncate the file to its entries; an empty index keeps its file."""
        self.write()
        if count == self._count and count:
            return
        last = self._entry(count - 1)
        fd = self._files.open(self.path, os.O_RDWR | os.O_CREAT)
        try:
            self._files.ftruncate(fd, count * self.entry.size)
        finally:
            self._files.close(fd)
        self._count = self._on_disk = count
        self.last = last
        self._unsynced = True

    def _entry(self, number: int) -> tuple[int, int] | None:
        if number < 0:
            return None
        if number >= self._on_disk:
            return self._pending_entry(number)
        fd = self._files.open(self.path, os.O_RDONLY)
        try:
            return self._get(fd, number)
        finally:
            self._files.close(fd)

    def _find(self, column: int, target: int) -> int:
        """Number of entries whose `column` is below `target`."""
        low, high = 0, self._count
        fd = self._files.open(self.path, os.O_RDONLY) if self._on_disk else -1
        try:
            while low < high:
                middle = (low + high) // 2
                entry = self._get(fd, middle)
                if entry[column] < target:
                    low = middle + 1
                else:
                    high = middle
        finally:
            if fd >= 0:
                self._files.close(fd)
        return low

    def _get(self, fd: int, number: int) -> tuple[int, int]:
        if number >= self._on_disk:
            return self._pending_entry(number)
        size = self.entry.size
        first, second = self.entry.unpack(self._files.pread(fd, size, number * size))
        return first, second

    def _pending_entry(self, number: int) -> tuple[int, int]:
        at = (number - self._on_disk) * self.entry.size
        first, second = self.entry.unpack_from(self._pending, at)
        return first, second


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

    def cut(self, end_offset: int) -> None:
        """Remove entries of a truncated segment."""
        self.keep(1, end_offset - self._base_offset)
