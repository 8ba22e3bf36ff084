"""How much time requests took lately, of all callers of all listeners, so that a quota counts only while somebody else works. PURE.

Owns the decay of what was counted. Knows no principals and no loop.
"""

import math
from collections.abc import Callable
from time import perf_counter

_MEMORY_SECONDS = 1.0
"""What is older counts for little."""


class LoopWork:
    """Of one or of many callers. `clock`: seconds."""

    __slots__ = ("_clock", "_counted_at", "_seconds")

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._seconds, self._counted_at = 0.0, clock()

    def add(self, seconds: float) -> None:
        """A request has taken so much of the loop's time."""
        self._seconds = self.recent() + seconds

    def recent(self) -> float:
        """Seconds of work in the last second: the part of the loop's time, if it has been the same for some seconds."""
        now = self._clock()
        self._seconds *= math.exp((self._counted_at - now) / _MEMORY_SECONDS)
        self._counted_at = now
        return self._seconds
