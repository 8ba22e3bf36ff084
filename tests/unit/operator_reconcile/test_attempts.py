"""The memory of attempts: a repetition is the same write again, and another value is new work."""

import pytest

from quorum_operator.attempts import (
    CONTESTED_FOR_S,
    CONTESTED_TIMES,
    DONE_MOST_S,
    RESTARTED_MOST_S,
    Attempts,
)

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


def test_write_that_is_no_longer_reverted_is_not_contested_for_long() -> None:
    """However long it was reverted before: somebody who reads the condition would look for nothing."""
    attempts, now = Attempts(), 1000.0
    for _ in range(40):
        attempts.done(1, "StartMember", "StatefulSet/q-1-1", now)
        (held,) = attempts.refusals(1, now)
        assert held.reported == (held.times >= CONTESTED_TIMES)
        last, now = now, held.retry_at
    assert now - last <= DONE_MOST_S
    assert attempts.refusals(1, now + CONTESTED_FOR_S - 1)
    assert not attempts.refusals(1, now + CONTESTED_FOR_S + 1)
    attempts.done(1, "StartMember", "StatefulSet/q-1-1", now + CONTESTED_FOR_S + 2)
    (again,) = attempts.refusals(1, now + CONTESTED_FOR_S + 2)
    assert again.times == 41, "it may be the same client again"


def test_restarts_of_a_pod_may_pause_for_longer() -> None:
    attempts = Attempts()
    for _ in range(40):
        attempts.done(1, "RestartMember", "Pod/q-1-1-0", 0.0, "", RESTARTED_MOST_S)
    (held,) = attempts.refusals(1, 0.0)
    assert DONE_MOST_S < held.retry_at <= RESTARTED_MOST_S
