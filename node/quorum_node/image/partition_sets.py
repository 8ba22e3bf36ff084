"""Sets of partitions that share all but what differs. PURE.

Owns the form: a bit for each partition, 256 of a topic together. When a broker fails, every third of its partitions enters
such a set; an entry of a map for each of them made that dearer the more there were.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from immutables import Map

_CHUNK_BITS = 8
_WITHIN_CHUNK = (1 << _CHUNK_BITS) - 1

IndexKey = tuple[int, int]
"""Topic id as an integer, partition."""


@dataclass(frozen=True, slots=True)
class PartitionSet:
    """(Topic, chunk) → which of its partitions, a bit each. The field is for the changes."""

    chunks: Map[tuple[int, int], int] = Map()
    count: int = 0

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[IndexKey]:
        for (topic, chunk), bits in self.chunks.items():
            first, left = chunk << _CHUNK_BITS, bits
            while left:
                lowest = left & -left
                left ^= lowest
                yield topic, first + lowest.bit_length() - 1


class PartitionSetChanges:
    """Begins as a set, ends as another one; to be used once."""

    __slots__ = ("_before", "_changed", "_count")

    def __init__(self, before: PartitionSet) -> None:
        self._before = before
        self._changed: dict[tuple[int, int], int] = {}
        self._count = before.count

    def add(self, topic: int, partition_id: int) -> None:
        """One that is not in it."""
        self._flip(topic, partition_id)
        self._count += 1

    def remove(self, topic: int, partition_id: int) -> None:
        """One that is in it."""
        self._flip(topic, partition_id)
        self._count -= 1

    def finish(self) -> PartitionSet:
        """The set with all changes."""
        if not self._changed:
            return self._before
        chunks = self._before.chunks.mutate()
        for key, bits in self._changed.items():
            if bits:
                chunks[key] = bits
            else:
                chunks.pop(key, None)
        return PartitionSet(chunks.finish(), self._count)

    def _flip(self, topic: int, partition_id: int) -> None:
        key, bit = (topic, partition_id >> _CHUNK_BITS), 1 << (partition_id & _WITHIN_CHUNK)
        bits = self._changed.get(key)
        if bits is None:
            bits = self._before.chunks.get(key, 0)
        self._changed[key] = bits ^ bit
