"""Caches the newest batches of the log in memory, so that a Fetch at its end reads no file.

Owns bytes that were appended already. Must not know files.
"""

from bisect import bisect_right


class TailCache:
    """Consecutive batches up to the log's end, at most about `limit_bytes` of them."""

    __slots__ = ("_bases", "_batches", "_ends", "_limit_bytes", "_size_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._bases: list[int] = []
        self._ends: list[int] = []
        self._batches: list[bytes] = []
        self._size_bytes = 0

    def append(self, base_offset: int, end_offset: int, data: bytes) -> None:
        """Add the batch after the cached ones."""
        self._bases.append(base_offset)
        self._ends.append(end_offset)
        self._batches.append(data)
        self._size_bytes += len(data)
        if self._size_bytes > self._limit_bytes:
            self._drop_oldest_half()

    def truncate_to(self, end_offset: int) -> None:
        """Remove batches that end after `end_offset`."""
        while self._ends and self._ends[-1] > end_offset:
            self._bases.pop()
            self._ends.pop()
            self._size_bytes -= len(self._batches.pop())

    def read(self, start_offset: int, max_bytes: int, limit_offset: int) -> bytes | None:
        """Whole batches from the one that contains `start_offset`; None if it is not cached."""
        if not self._bases or start_offset < self._bases[0]:
            return None
        first = bisect_right(self._bases, start_offset) - 1
        size, last = 0, first
        while last < len(self._bases) and self._ends[last] <= limit_offset:
            size += len(self._batches[last])
            if size > max_bytes and last > first:
                break
            last += 1
        if last - first == 1:
            return self._batches[first]
        return b"".join(self._batches[first:last])

    def _drop_oldest_half(self) -> None:
        # In bulk, so that the cost per append stays constant.
        dropped, target = 0, self._size_bytes // 2
        while self._size_bytes > target and dropped < len(self._batches) - 1:
            self._size_bytes -= len(self._batches[dropped])
            dropped += 1
        del self._bases[:dropped], self._ends[:dropped], self._batches[:dropped]
