"""Which repetitions of a log line are written: the first, second, fourth, eighth and so on.

Owns the count. Must not know the lines.
"""

import time
from collections import Counter
from collections.abc import Callable, Hashable

_MAX_DIFFERENT = 100
_PERIOD_SECONDS = 3600.0


def is_written(times: int) -> bool:
    """Whether the line is written when its event has happened this number of times (1 or more)."""
    return not times & (times - 1)


class Repeats:
    """Counts different events that clients can cause. All counts begin again after an hour.

    At most 100 different events are written in an hour, so that nobody can flood the log with them.
    """

    def __init__(self, monotonic_seconds: Callable[[], float] = time.monotonic) -> None:
        self._monotonic_seconds = monotonic_seconds
        self._since = monotonic_seconds()
        self._times: Counter[Hashable] = Counter()

    def is_written(self, event: Hashable) -> bool:
        """Count the event, and tell whether its line is written this time."""
        now = self._monotonic_seconds()
        if now - self._since >= _PERIOD_SECONDS:
            self._since = now
            self._times.clear()
        if event not in self._times and len(self._times) >= _MAX_DIFFERENT:
            return False
        self._times[event] += 1
        return is_written(self._times[event])
