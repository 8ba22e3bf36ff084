"""The memory of attempts: a repetition is the same write again, and another value is new work."""

import pytest

from quorum_operator.attempts import CONTESTED_TIMES, Attempts

BUDGET = "PodDisruptionBudget/demo"


def written(attempts: Attempts, values: list[str]) -> float:
    """The budget is written with each of the values, a second apart; the time of the last one."""
    now = 0.0
    for now, value in enumerate(values, start=1):
        attempts.done(1, "GuardDrains", BUDGET, float(now), value)
    return float(now)


@pytest.mark.requirement("OP-01")
def test_alternating_values_are_not_contested() -> None:
    """Five replacements in a row: the number of members that have to be ready goes up and down."""
    attempts = Attempts()
    last = written(attempts, ["3", "4"] * CONTESTED_TIMES)
    assert not [each for each in attempts.refusals(1, last) if each.reported]
    assert not attempts.refusals(1, last + 1.0), "the next write was delayed"


@pytest.mark.requirement("OP-01")
def test_repeated_identical_writes_are_contested() -> None:
    attempts = Attempts()
    last = written(attempts, ["3"] * CONTESTED_TIMES)
    (reported,) = attempts.refusals(1, last)
    assert reported.reported
    assert (reported.reason, reported.subject, reported.times) == (
        "Contested",
        BUDGET,
        CONTESTED_TIMES,
    )
    assert "repeated 6 times within 5 s, each time reverted" in reported.message
