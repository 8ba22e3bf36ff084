"""Which directories of an archive count, and what may be missing from one."""

import pytest

from quorum_pipeline.archive.layout import (
    Marker,
    OffsetRange,
    expired_states,
    merges,
    parse_directory,
    parse_marker,
    tiles,
)
from quorum_pipeline.archive.missing_offsets import unexplained

RANGE = OffsetRange(10, 20)


def test_merged_range_replaces_its_parts() -> None:
    first, second, both, far = (OffsetRange(*each) for each in ((0, 5), (5, 9), (0, 9), (12, 14)))
    assert tiles([first, second, far]) == ([first, second], [far])
    assert tiles([first, second, both]) == ([both], [first, second])


@pytest.mark.requirement("SP-02")
@pytest.mark.parametrize(
    ("kept", "quarantined", "expected"),
    [
        ([10, 11, *range(13, 20)], [12], None),
        ([10, 15, 16, 17, 18, 19], [11], None),
        ([10, 11, 12], [13], None),
        ([11, 15, 16, 17, 18, 19], [10], 12),
        ([11, 12, 13, 14, 16, 17, 18, 19], [15], 10),
        ([10, 11, 12, 13, 14, 16, 17, 18], [15], 19),
        ([*range(10, 16), 17, 18, 19, 14], [16], 14),
        ([*range(10, 16), *range(17, 21)], [16], 21),
        (range(10, 20), [12], None),
        (range(10, 20), [10, 12, 12], None),
        ([10, 11, 12, 15, 16, 17, 18, 19], [12], 13),
        ([*range(10, 20), 12], [12], 12),
        ([10, 11, 15, 16, 17, 18, 19], [12, 12], None),
    ],
)
def test_missing_records_are_allowed_after_damage_only(
    kept: range | list[int], quarantined: list[int], expected: int | None
) -> None:
    """Damage is one row for all records that it makes unreadable; other missing or duplicate records are reported."""
    assert unexplained(RANGE, kept, quarantined) == expected


def test_adjacent_ranges_are_merged_up_to_the_size_limit() -> None:
    """Up to so many offsets together; what stays alone is left as it is."""
    a, b, c, large, d = (
        OffsetRange(*each) for each in ((0, 5), (5, 9), (9, 12), (12, 40), (40, 41))
    )
    assert merges([a, b, c, large, d], 9) == [[a, b]]
    assert merges([a, b, c, large, d], 12) == [[a, b, c]]
    assert merges([a], 100) == merges([large, d], 10) == merges([], 10) == []


def test_of_old_states_the_last_one_of_each_day_is_kept() -> None:
    """One every eight hours for ten days."""
    states = [(number, number * 8 * 3_600_000) for number in range(30)]
    last_of_day = set(range(2, 30, 3))
    expected = [number for number in range(29 - 6) if number not in last_of_day]
    assert expired_states(states, 2) == expected
    assert expired_states(states[::-1], 2) == expected
    assert expired_states([each for each in states if each[0] not in expected], 2) == []
    assert (
        expired_states(states, 10) == expired_states([], 1) == expired_states(states[:1], 1) == []
    )


def test_names_and_markers_are_parsed_as_written() -> None:
    assert parse_directory(RANGE.directory) == RANGE
    for name in ("offsets=1-2", OffsetRange(5, 5).directory, "_temporary", f"{RANGE.directory}x"):
        assert parse_directory(name) is None
    assert parse_marker(Marker(7, 3).text()) == Marker(7, 3)
    for text in ("", "{", "{}", '{"rows": 1}', "[]"):
        with pytest.raises(ValueError, match=r"is not a marker|Expecting"):
            parse_marker(text)


@pytest.mark.requirement("SP-02")
def test_any_flipped_bit_of_a_marker_is_detected() -> None:
    sound = Marker(70, 2, 31)
    text = sound.text().encode()
    reported = 0
    for at in range(len(text)):
        for bit in range(8):
            damaged = bytearray(text)
            damaged[at] ^= 1 << bit
            try:
                found = parse_marker(damaged.decode(errors="replace"))
            except ValueError:
                reported += 1
            else:
                assert found == sound
    assert reported > len(text) * 7
    assert parse_marker('{"rows": 70, "quarantined": 2, "delta_rows": 31}') == sound, "an older one"


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"rows": 1e999, "quarantined": 0}',
        '{"rows": Infinity, "quarantined": 0}',
        '{"rows": -1, "quarantined": 0}',
        '{"rows": 1, "quarantined": -1}',
        '{"rows": 1, "quarantined": 0, "delta_rows": -1}',
        '{"rows": ' + "9" * 5000 + ', "quarantined": 0}',
    ],
)
def test_marker_with_impossible_content_is_no_marker(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_marker(text)
