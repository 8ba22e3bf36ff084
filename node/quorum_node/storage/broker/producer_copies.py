"""Copies of the state of producers at some offsets of a log, in memory.

A truncation begins with the newest one before its offset. It then walks about as many bytes as it removes, or an interval: while the
log is open, the snapshots in files are only at the beginnings of segments.

Owns which copies are kept. Must not know files.
"""

from collections.abc import Callable
from typing import NamedTuple

from quorum_node.storage.broker.producer_table import ProducerTable

INTERVAL_BYTES = 4 << 20
"""Between two copies. With the smallest batches these are 60,000, which take about 0.1 s to walk."""
MOST_PRODUCERS = 10_000
"""With more, no copies are made: each one has up to 500 bytes for a producer."""


class _Copy(NamedTuple):
    """`position`: number of bytes of batches before it."""

    position: int
    table: ProducerTable


class ProducerCopies:
    """The copies of one log, in ascending order. Positions count the bytes that were applied since the log was opened."""

    __slots__ = ("_copies", "_position")

    def __init__(self) -> None:
        self._copies: list[_Copy] = []
        self._position = 0

    def __len__(self) -> int:
        return len(self._copies)

    def applied(self, size_bytes: int, table: ProducerTable) -> None:
        """Batches of this size were applied to the state, which is copied if the last copy is too far away."""
        self._position += size_bytes
        last = self._copies[-1].position if self._copies else 0
        if self._position - last >= INTERVAL_BYTES and len(table.states) <= MOST_PRODUCERS:
            self._copies.append(_Copy(self._position, table.copied()))
            self._thin_out()

    def newest(self, offset: int) -> ProducerTable | None:
        """The state at the newest copy at or before `offset`, which may be changed."""
        for copy in reversed(self._copies):
            if copy.table.end_offset <= offset:
                return copy.table.copied()
        return None

    def after(self, offset: int) -> list[ProducerTable]:
        """All copies behind `offset`, which must not be changed."""
        return [each.table for each in self._copies if each.table.end_offset > offset]

    def drop(self, goes: Callable[[int], bool]) -> None:
        """Remove the copies at these offsets."""
        self._copies = [each for each in self._copies if not goes(each.table.end_offset)]

    def go_back(self) -> None:
        """The log was truncated; the batches after the last remaining copy are applied again."""
        self._position = self._copies[-1].position if self._copies else 0

    def _thin_out(self) -> None:
        """Keep the distance between two copies below their distance from the end: few copies remain of a long log."""
        kept: list[_Copy] = []
        for copy in self._copies:
            while len(kept) > 1 and copy.position - kept[-2].position <= (
                self._position - copy.position
            ):
                kept.pop()
            kept.append(copy)
        self._copies = kept
