"""Which ranges a following archiver merges: few remain, and each record is written again only a few times."""

from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum_pipeline.archive.layout import OffsetRange
from quorum_pipeline.archive.merge_planner import AT_ONCE, next_merge

TARGET = 5_000_000


def ranges(*lengths: int) -> list[OffsetRange]:
    return [OffsetRange(*each) for each in pairwise(accumulate(lengths, initial=3))]


def lengths(found: list[OffsetRange]) -> list[int]:
    return [len(each) for each in found]


@pytest.mark.parametrize(
    ("given", "merged"),
    [
        ([], []),
        ([1] * 15, []),
        ([1] * 16, [1] * 16),
        ([1] * 20, [1] * 20),
        ([100] + [1] * 15, []),
        ([100] + [1] * 16, [1] * 16),
        ([16] * 15 + [1] * 16, [1] * 16),
        ([16] * 15 + [1] * 15, []),
        ([16] * 16 + [1] * 3, [16] * 16 + [1] * 3),
        ([15, 16] + [1] * 16, [1] * 16),
        ([1, 100] + [1] * 14, [1, 100] + [1] * 14),
    ],
)
def test_ranges_of_one_size_at_the_end_are_merged(given: list[int], merged: list[int]) -> None:
    every = ranges(*given)
    found = next_merge(every, TARGET)
    assert lengths(found) == merged
    assert found == every[len(every) - len(found) :]


@pytest.mark.parametrize(
    ("given", "merged"),
    [
        ([20] * 5, []),
        ([20] * 6, [20] * 5),
        ([45, 45, 45], [45, 45]),
        ([45, 30, 1], []),
        ([50, 45, 30, 1], []),
        ([45, 45, 30, 1], [45, 30, 1]),
        ([45, 60], []),
        ([60] * 40, []),
        ([50] + [1] * 16, [1] * 16),
    ],
)
def test_size_limit_is_respected_and_large_ranges_stay(given: list[int], merged: list[int]) -> None:
    """100 offsets at most; what has 50 is not merged any more."""
    assert lengths(next_merge(ranges(*given), 100)) == merged


def followed(added: list[int], target: int) -> tuple[list[OffsetRange], float, int]:
    """The ranges after these were written and merged, how often a record was written, and the largest number of ranges."""
    counting, at, written, most = list[OffsetRange](), 0, 0, 0
    for length in added:
        counting.append(OffsetRange(at, at + length))
        at, written = at + length, written + length
        while group := next_merge(counting, target):
            assert len(group) > 1
            assert sum(lengths(group)) <= target
            first = counting.index(group[0])
            assert counting[first : first + len(group)] == group, "they are adjacent"
            counting[first : first + len(group)] = [OffsetRange(group[0].start, group[-1].end)]
            written += sum(lengths(group))
        most = max(most, len(counting))
    return counting, written / max(at, 1), most


@given(
    added=st.lists(st.integers(1, 400) | st.integers(1, 3), max_size=400),
    target=st.sampled_from([1, 2, 10, 1_000, 20_000]),
)
def test_no_record_is_lost_and_few_ranges_remain(added: list[int], target: int) -> None:
    counting, times, most = followed(added, target)
    assert sum(lengths(counting)) == sum(added)
    assert all(before.end == after.start for before, after in pairwise(counting))
    total = sum(added)
    tiers = (max(target, 2).bit_length() - 1) // 4 + 1
    large = sum(2 * each >= target for each in added)
    assert most <= 2 * total / target + large * (1 + tiers * (AT_ONCE - 1)) + tiers * AT_ONCE + 1
    assert times <= tiers + 2


def test_hours_of_following_leave_few_ranges() -> None:
    """A range of a few records every five seconds for six hours. Each record is written at most four times."""
    counting, times, largest = followed([10] * 4_320, TARGET)
    assert largest <= 48
    assert len(counting) <= 48
    assert times <= 4
