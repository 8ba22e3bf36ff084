"""Progress output: a line every few seconds on standard error."""

import sys
import time

_EVERY_SECONDS = 3.0


class Progress:
    """`what`: what is going on; `unit`: what is counted."""

    def __init__(self, what: str, unit: str) -> None:
        self._what = what
        self._unit = unit
        self._began = time.monotonic()
        self._told = self._began

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._began

    def __call__(self, count: int) -> None:
        """Update the count; prints a line if the last one is old enough."""
        now = time.monotonic()
        if now - self._told >= _EVERY_SECONDS:
            self._told = now
            self.say(f"{self._what}: {count:,} {self._unit}")

    def say(self, text: str) -> None:
        """A line, with the time so far."""
        print(f"[{self.seconds:6.1f} s] {text}", file=sys.stderr, flush=True)
