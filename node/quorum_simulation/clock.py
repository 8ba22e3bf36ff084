"""Clocks of a machine: they may run faster or slower than simulated time, and jump.

Owns the relation of simulated time and a machine's time. Must not know timers. The monotonic clock never goes back,
like CLOCK_MONOTONIC. It may jump forward, like that of a suspended virtual machine. The wall clock is arbitrary.
"""

from collections.abc import Callable

from quorum_simulation.scheduler import Scheduler

ROUNDING_MS = 1e-6


class Clock:
    """`rate`: milliseconds of this clock per simulated millisecond."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._shown_ms = scheduler.now_ms
        self._shown_at_ms = scheduler.now_ms
        self.wall_offset_ms = 0.0
        self.rate = 1.0
        self.on_change: list[Callable[[], None]] = []
        """Called after a jump or a change of the rate: deadlines move."""

    def monotonic_ms(self) -> float:
        """Milliseconds of the monotonic clock, which never goes back."""
        return self._shown_ms + (self._scheduler.now_ms - self._shown_at_ms) * self.rate

    def wall_ms(self) -> int:
        """Milliseconds of the time of day."""
        return max(0, int(self.monotonic_ms() + self.wall_offset_ms))

    def delay_until(self, deadline_ms: float) -> float:
        """Simulated milliseconds until the monotonic clock shows `deadline_ms`; 0.0 if it has."""
        missing_ms = deadline_ms - self.monotonic_ms()
        # A little later, so that rounding never stops the clock just before the deadline.
        return missing_ms / self.rate + ROUNDING_MS if missing_ms > 0 else 0.0

    def run_at(self, rate: float) -> None:
        """Change the rate, without a jump."""
        self._set(self.monotonic_ms(), rate)

    def jump(self, forward_ms: float) -> None:
        """Both clocks jump forward."""
        assert forward_ms >= 0
        self._set(self.monotonic_ms() + forward_ms, self.rate)

    def set_wall(self, offset_ms: float) -> None:
        """Set the time of day; the monotonic clock is unchanged."""
        self.wall_offset_ms = offset_ms

    def _set(self, shown_ms: float, rate: float) -> None:
        self._shown_ms, self._shown_at_ms, self.rate = shown_ms, self._scheduler.now_ms, rate
        for changed in self.on_change:
            changed()
