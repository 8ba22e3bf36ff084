"""Progress output: a line every few seconds on standard error."""

import sys
import time

_EVERY_SECONDS = 3.0


class Progress:
    """Prints progress. `what`: the work in progress. `unit`: the counted things."""

    def __init__(self, what: str, unit: str) -> None:
        self._what = what
        self._unit = unit
        self._began = time.monotonic()
        self._told = self._began

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    def __call__(self, count: int) -> None:
        """Update the count; prints a line if the last one is old enough."""
        now = time.monotonic()
        if now - self._told >= _EVERY_SECONDS:
            self._told = now
            self.say(f"{self._what}: {count:,} {self._unit}")

    def say(self, text: str) -> None:
        """Print a line with the elapsed time."""
        print(f"[{self.seconds:6.1f} s] {text}", file=sys.stderr, flush=True)
