"""Progress output: a line every few seconds on standard error."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

from quorum_pipeline.redaction import redacted
from quorum_pipeline.spark.step import megabytes

_EVERY_SECONDS = 3.0


class Progress:
    """Prints progress. `what`: the work in progress. `unit`: the counted things."""

    def __init__(self, what: str, unit: str) -> None:
        self._what = what
        self._unit = unit
        self._began = time.monotonic()
        self._reported_at = self._began
        self._total: int | None = None
        self._first: tuple[float, int] | None = None
        """Time and count of the first update, from which the rate is computed."""
        self._bytes: Callable[[], int] = lambda: 0

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    def expect(self, total: int) -> None:
        """Set the count at which the work is done."""
        self._total = total

    def measure(self, size_bytes: Callable[[], int]) -> None:
        """Set a function that returns how many bytes are written."""
        self._bytes = size_bytes

    def __call__(self, count: int) -> None:
        """Update the count; prints a line if the last one is old enough: count, bytes, rate, and what is left."""
        now = time.monotonic()
        if self._first is None:
            self._first = (now, count)
        if now - self._reported_at >= _EVERY_SECONDS:
            self._reported_at = now
            size_bytes = self._bytes()
            written = f", {megabytes(size_bytes)} written" if size_bytes else ""
            self.report(f"{self._what}: {count:,} {self._unit}{written}{self._rate(now, count)}")

    def report(self, text: str) -> None:
        """Print a line with the elapsed time, without credentials."""
        print(f"[{self.seconds:6.1f} s] {redacted(text)}", file=sys.stderr, flush=True)

    @contextmanager
    def watching(self, look: Callable[[], str | None]) -> Iterator[None]:
        """Print what `look` returns every few seconds, on another thread; None: there is nothing to report."""
        ended = Event()

        def report_repeatedly() -> None:
            while not ended.wait(_EVERY_SECONDS):
                if (text := look()) is not None:
                    self.report(text)

        thread = Thread(target=report_repeatedly, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _rate(self, now: float, count: int) -> str:
        assert self._first is not None, "there was an update"
        began, first = self._first
        parts = []
        rate = (count - first) / (now - began) if now > began and count > first else 0.0
        if rate:
            parts.append(f"{rate:,.0f} a second")
        if self._total is not None and self._total >= count:
            left = self._total - count
            parts.append(f"{left:,} left" + (f", about {left / rate:,.0f} s" if rate else ""))
        return "".join(f", {each}" for each in parts)
