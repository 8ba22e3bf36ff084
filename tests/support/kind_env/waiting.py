"""Waits for a condition; the error message contains the last observation."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_POLL_S = 0.25


class NotInTime(AssertionError):
    """A condition did not become true in time; the message contains the last observation."""


def wait_for(
    what: str,
    probe: Callable[[], T | None],
    *,
    timeout_s: float,
    seen: Callable[[], object] | None = None,
    poll_s: float = _POLL_S,
) -> T:
    """Call `probe` until it returns a true value. `seen` describes the state for the message."""
    begun = time.monotonic()
    deadline = begun + timeout_s
    while True:
        found = probe()
        if found:
            return found
        if time.monotonic() >= deadline:
            last = f"; seen last: {seen()}" if seen is not None else ""
            raise NotInTime(f"waited {timeout_s:.0f} s for {what}{last}")
        time.sleep(poll_s)


def stays(what: str, holds: Callable[[], bool], *, for_s: float, poll_s: float = _POLL_S) -> None:
    """Check that `holds` stays true for the given time."""
    deadline = time.monotonic() + for_s
    while time.monotonic() < deadline:
        if not holds():
            raise AssertionError(f"{what}: did not last {for_s:.0f} s")
        time.sleep(poll_s)
