"""Persistent sets of partitions. PURE.

Owns the representation: a bit per partition, 256 partitions of a topic together. When a broker fails, a third of its
partitions enters such a set; one map entry per partition was too slow.
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
    """(Topic, chunk) → bit set of partitions. The field is for `PartitionSetChanges`."""

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
    """Starts from a set and ends with a new one; to be used once."""

    __slots__ = ("_before", "_changed", "_count")

    def __init__(self, before: PartitionSet) -> None:
        self._before = before
        self._changed: dict[tuple[int, int], int] = {}
        self._count = before.count

    def add(self, topic: int, partition_id: int) -> None:
        """Add a partition that is not in the set."""
        self._flip(topic, partition_id)
        self._count += 1

    def remove(self, topic: int, partition_id: int) -> None:
        """Remove a partition of the set."""
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
