"""A query without progress is reported, and aborted in the end."""

import pytest

from quorum_pipeline.errors import PipelineError
from quorum_pipeline.spark.stall_detection import (
    REPORT_AFTER_SECONDS,
    TIMEOUT_SECONDS,
    StallDetector,
)


def looked_at(steps: list[object], from_s: float = 0.0) -> list[str]:
    """One check a second; the reports."""
    reported: list[str] = []
    detector = StallDetector(reported.append, from_s)
    for number, seen in enumerate(steps):
        detector.check(from_s + number, seen, lambda: "where it is")
    return reported


def test_long_wait_is_reported_repeatedly() -> None:
    count = int(REPORT_AFTER_SECONDS)
    assert looked_at(["a"] * count) == []
    assert looked_at(["a"] * (2 * count + 1), 1e6) == [
        f"no step for {count} s: where it is",
        f"no step for {2 * count} s: where it is",
    ]


def test_progress_or_idle_state_resets_the_wait() -> None:
    count = int(REPORT_AFTER_SECONDS)
    assert looked_at((["a"] * count + ["b"] * count) * 2) == []
    assert looked_at([None] * (5 * count)) == []
    assert looked_at(["a"] * count + [None] + ["a"] * count) == []


def test_wait_ends_with_the_awaited_event() -> None:
    enough = int(TIMEOUT_SECONDS)
    assert len(looked_at(["a"] * enough)) == enough // REPORT_AFTER_SECONDS - 1
    with pytest.raises(PipelineError, match=rf"given up after {enough} s .*: where it is"):
        looked_at(["a"] * (enough + 1))
