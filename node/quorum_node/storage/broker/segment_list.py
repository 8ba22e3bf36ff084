"""The segments of a partition, oldest first.

Owns the tuple. It is replaced as a whole, so concurrent readers see the old or the new one.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from quorum_node.storage.broker.data_segment import DataSegment
from quorum_node.storage.broker.transaction_index import AbortedTransaction


class SegmentList:
    """There is always at least one segment; the last one is active."""

    def __init__(self, segments: Sequence[DataSegment]) -> None:
        self._segments = tuple(segments)

    @property
    def segments(self) -> Sequence[DataSegment]:
        """All segments, oldest first."""
        return self._segments

    @property
    def size_bytes(self) -> int:
        """Size of the batches of all segments."""
        return sum(each.size_bytes for each in self._segments)

    def from_offset(self, offset: int) -> tuple[DataSegment, ...]:
        """The segment that contains `offset`, and all after it."""
        segments = self._segments
        number = bisect_right(segments, offset, key=lambda each: each.base_offset) - 1
        return segments[max(number, 0) :]

    def aborted_transactions(self, offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Aborted transactions with records in offset <= o < end_offset."""
        found = []
        for segment in self.from_offset(offset):
            aborted = segment.aborted.aborted
            # Of a segment that has many, a reader near its end needs only the last ones.
            first = bisect_left(aborted, offset, key=lambda each: each.last_offset)
            for number in range(first, len(aborted)):
                each = aborted[number]
                if each.first_offset < end_offset:
                    found.append(each)
                if each.last_stable_offset >= end_offset:
                    return found
        return found

    def bytes_from(self, offset: int) -> int:
        """Approximate number of bytes from `offset` on: exact to the interval of the index."""
        first, *later = self.from_offset(offset)
        position = first.offsets.position_of(offset) if offset < first.end_offset else None
        rest = 0 if position is None else first.size_bytes - position
        return rest + sum(each.size_bytes for each in later)
