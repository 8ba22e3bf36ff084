"""One file of the log: consecutive batches from a base offset on, and a sparse index in memory.

Owns one file descriptor. Reading and appending happen on one thread; `sync` may run on another.
"""

import os
import struct
from array import array
from bisect import bisect_right
from pathlib import Path

from quorum_node.storage.recovery import (
    INDEX_INTERVAL_BYTES,
    LENGTH_PREFIX_BYTES,
    SegmentScan,
    scan_segment,
)

SUFFIX = ".log"
_READ_AHEAD_BYTES = 64 * 1024
_PREFIX = struct.Struct(">qi")
_SPAN = struct.Struct(">qi11xi")
"""base offset, length, last offset delta."""
_SPAN_BYTES = _SPAN.size


class Segment:
    """An open segment file. OSErrors are left to the log, which knows what they mean."""

    __slots__ = ("_index_offsets", "_index_positions", "base_offset", "fd", "path", "size_bytes")

    def __init__(self, directory: Path, base_offset: int) -> None:
        self.path = directory / f"{base_offset:020d}{SUFFIX}"
        self.base_offset = base_offset
        self.size_bytes = 0
        self.fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        self._index_offsets = array("q")
        self._index_positions = array("q")

    def load(self, last_epoch: int) -> SegmentScan:
        """Scan the file and adopt its whole batches; a torn tail is left for `cut`."""
        size = os.fstat(self.fd).st_size
        content = self._pread(size, 0)
        scan = scan_segment(content, self.base_offset, last_epoch, str(self.path))
        self.size_bytes = scan.valid_bytes
        self._index_offsets = scan.index_offsets
        self._index_positions = scan.index_positions
        return scan

    def append(self, data: bytes, base_offset: int) -> None:
        """Write one batch behind the last one; on an error nothing of it counts as written."""
        position = self.size_bytes
        written = os.pwrite(self.fd, data, position)
        while written < len(data):  # the next attempt says why: ENOSPC, most of the time
            written += os.pwrite(self.fd, memoryview(data)[written:], position + written)
        offsets = self._index_offsets
        if not offsets or position - self._index_positions[-1] >= INDEX_INTERVAL_BYTES:
            offsets.append(base_offset)
            self._index_positions.append(position)
        self.size_bytes = position + len(data)

    def cut(self) -> None:
        """Drop whatever the file holds behind the last whole batch."""
        os.ftruncate(self.fd, self.size_bytes)

    def truncate_to(self, end_offset: int) -> None:
        """Keep the batches that end at or before `end_offset`."""
        self.size_bytes = self._position_of(end_offset)
        keep = bisect_right(self._index_positions, self.size_bytes - 1)
        del self._index_offsets[keep:], self._index_positions[keep:]
        os.ftruncate(self.fd, self.size_bytes)

    def read(self, start_offset: int, max_bytes: int, limit_offset: int) -> bytes:
        """Whole batches from the one that holds `start_offset`, each ending by `limit_offset`.

        At least one batch, if any qualifies, even when it is larger than `max_bytes`.
        """
        start = self._position_of(start_offset)
        content = self._pread(min(max(max_bytes, _SPAN_BYTES), self.size_bytes - start), start)
        position = 0
        while len(content) - position >= _SPAN_BYTES:
            base, length, last_delta = _SPAN.unpack_from(content, position)
            end = position + LENGTH_PREFIX_BYTES + length
            if base + last_delta + 1 > limit_offset:
                break
            if end > len(content):
                return self._pread(end, start) if position == 0 else content[:position]
            position = end
        return content[:position]

    def sync(self) -> None:
        """fdatasync: size and bytes are durable afterwards."""
        os.fdatasync(self.fd)

    def close(self) -> None:
        """Close the descriptor, without syncing."""
        os.close(self.fd)

    def _position_of(self, offset: int) -> int:
        """Position of the batch that holds `offset`, or the end of the file."""
        entry = bisect_right(self._index_offsets, offset) - 1
        position = self._index_positions[entry] if entry >= 0 else 0
        while position < self.size_bytes:
            chunk = self._pread(min(_READ_AHEAD_BYTES, self.size_bytes - position), position)
            walked = 0
            while len(chunk) - walked >= _SPAN_BYTES:
                base, length, last_delta = _SPAN.unpack_from(chunk, walked)
                if base + last_delta >= offset:
                    return position + walked
                walked += LENGTH_PREFIX_BYTES + length
            position += walked
        return self.size_bytes

    def _pread(self, size: int, position: int) -> bytes:
        content = os.pread(self.fd, size, position)
        while len(content) < size:
            more = os.pread(self.fd, size - len(content), position + len(content))
            if not more:
                break
            content += more
        return content
