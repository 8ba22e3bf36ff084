"""Measures how much time the requests of all listeners took recently, so that a quota counts only while others work. PURE.

Owns the decay of the measurements. Knows no principals and no loop.
"""

import math
from collections.abc import Callable
from time import perf_counter

_MEMORY_SECONDS = 1.0
"""In seconds: older work counts little."""
_STEP_SECONDS = 0.01 * _MEMORY_SECONDS
"""In seconds: work within one step is added without decay, which is cheaper and inexact by at most 1 %."""


class LoopWork:
    """The work of one caller or of many. `clock`: in seconds."""

    __slots__ = ("_clock", "_counted_at", "_seconds")

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._seconds, self._counted_at = 0.0, clock()

    def add(self, seconds: float) -> None:
        """A request has used this much of the loop's time."""
        if self._clock() - self._counted_at > _STEP_SECONDS:
            self.recent()
        self._seconds += seconds

    def recent(self) -> float:
        """Seconds of work a second, over the recent past: the used part of the loop's time."""
        now = self._clock()
        self._seconds *= math.exp((self._counted_at - now) / _MEMORY_SECONDS)
        self._counted_at = now
        return self._seconds
