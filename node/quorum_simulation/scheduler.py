"""Simulated time: a heap of scheduled events.

Owns the order of events. Must not know their effects. Events of one instant run in the order in which they were
scheduled, so a run depends on its seed only.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

SPIN_LIMIT = 5000
ASK_EVERY = 8


class Spinning(AssertionError):
    """Time does not advance: an event triggers itself without end."""


class Scheduler:
    """`now_ms` only moves in `run_until`."""

    __slots__ = ("_heap", "_sequence", "executed", "now_ms")

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.executed = 0
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._sequence = 0

    def after(self, delay_ms: float, action: Callable[..., None], *arguments: Any) -> None:
        """Run `action(*arguments)` in `delay_ms`."""
        self._sequence += 1
        heappush(self._heap, (self.now_ms + delay_ms, self._sequence, action, arguments))

    def run_until(self, done: Callable[[], bool], limit_ms: float) -> bool:
        """Run until `done()` or the time limit; True if done. `done` is asked every few events."""
        heap = self._heap
        spinning = 0
        while True:
            if self.executed % ASK_EVERY == 0 and done():
                return True
            if not heap or heap[0][0] > limit_ms:
                self.now_ms = limit_ms
                return done()
            now_ms, _, action, arguments = heappop(heap)
            if now_ms != self.now_ms:
                self.now_ms = now_ms
                spinning = 0
            else:
                spinning += 1
                if spinning > SPIN_LIMIT:
                    raise Spinning(f"{SPIN_LIMIT} events at {now_ms} ms, the last one {action}")
            self.executed += 1
            action(*arguments)
