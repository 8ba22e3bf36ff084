"""Which ranges of an archive a writer merges while it follows a log. PURE.

Sizes are powers of AT_ONCE. When AT_ONCE ranges of one size are at the end, they become one of the next size. So a record is
written again only as often as its range has grown by this factor, and few ranges of each size remain. A range of at least
half of the size limit is merged no more. Source: size-tiered compaction, as in Cassandra's documentation,
"SizeTieredCompactionStrategy".
"""

from collections.abc import Sequence

from quorum_pipeline.archive.layout import OffsetRange

AT_ONCE = 16
"""Number of ranges of one size that become one range."""
_BITS = AT_ONCE.bit_length() - 1


def next_merge(counting: Sequence[OffsetRange], target_rows: int) -> list[OffsetRange]:
    """Return the adjacent ranges that are to be merged now: none, or at least two with at most `target_rows` offsets together.

    `counting`: all valid ranges, in order. The ranges to be merged are the last ones, or are before smaller ones.
    """
    waiting = list[OffsetRange]()
    rows, largest = 0, 0
    for each in reversed(counting):
        if _is_full(each, target_rows):
            break
        if _size(each) > largest and len(waiting) >= AT_ONCE:
            break
        if rows + len(each) > target_rows:
            # More than half of the limit, because this one is less: the result is merged no more.
            return waiting if len(waiting) > 1 else []
        waiting.insert(0, each)
        rows, largest = rows + len(each), max(largest, _size(each))
    return _of_one_size(waiting)


def _of_one_size(waiting: list[OffsetRange]) -> list[OffsetRange]:
    """Leave out the first ranges while too few are at least as large as the first one."""
    for first, begin in enumerate(waiting):
        if sum(_size(each) >= _size(begin) for each in waiting[first:]) >= AT_ONCE:
            return waiting[first:]
    return []


def _is_full(range: OffsetRange, target_rows: int) -> bool:
    return 2 * len(range) >= target_rows


def _size(range: OffsetRange) -> int:
    """Logarithm of the length to the base AT_ONCE, rounded down."""
    return (len(range).bit_length() - 1) // _BITS
