"""Durations in the form of Java."""

import pytest

from quorum_node.controller.java_duration import duration_ns

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PT0S", 0),
        ("PT1.5S", 3 * SECOND // 2),
        ("PT1,5S", 3 * SECOND // 2),
        ("PT1.S", SECOND),
        ("P1D", 86_400 * SECOND),
        ("p1dt1h1m1s", 90_061 * SECOND),
        ("PT1H-61M", -60 * SECOND),
        ("-PT-1M", 60 * SECOND),
        ("PT-0.5S", -SECOND // 2),
        ("+PT+1S", SECOND),
        ("PT9223372036854775807S", ((1 << 63) - 1) * SECOND),
    ],
)
def test_duration_is_read(text: str, expected: int) -> None:
    assert duration_ns(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "", "P", "PT", "P1DT", "P1Y", "P1W", "PT1.5H", "PT.5S", "PT1.1234567890S", " PT1S", "PT1M1H",
        "PT9223372036854775808S", "P999999999999999D", "PT9223372036854775807S1M", "PT1M9223372036854775807S", "PT１S",
    ],
)  # fmt: skip
def test_what_is_no_duration_of_java_is_refused(text: str) -> None:
    assert duration_ns(text) is None
