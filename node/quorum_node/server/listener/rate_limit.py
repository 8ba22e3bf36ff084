"""A token bucket: how many connections or handshakes may begin. Must not know the loop: times are passed in, in seconds."""


class RateLimit:
    """`rate`: events per second. `burst`: events at once after an idle time, at least one."""

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self._rate = rate
        self._burst = max(1.0, burst)
        self._credit = self._burst
        self._credited_at = now

    def pause_seconds(self, now: float) -> float:
        """Time until the next event may happen; 0 if it may at once."""
        self._earn(now)
        return max(0.0, (1 - self._credit) / self._rate)

    def take(self) -> None:
        """An event happens."""
        self._credit -= 1

    def is_unused(self, now: float) -> bool:
        """Whether the whole burst may happen at once."""
        self._earn(now)
        return self._credit >= self._burst

    def _earn(self, now: float) -> None:
        self._credit = min(self._burst, self._credit + (now - self._credited_at) * self._rate)
        self._credited_at = now
