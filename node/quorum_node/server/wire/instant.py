"""One instant on the core's clock and on the wall. Kafka's timestamps are wall clock; the core's are of its own clock."""

from dataclasses import dataclass

_NEVER = -1


@dataclass(frozen=True, slots=True)
class Instant:
    """Milliseconds on both clocks."""

    core_ms: float
    wall_ms: int

    def wall_of(self, core_ms: float | None) -> int:
        """Wall-clock time of an instant of the core's clock, in milliseconds since 1970; -1 for never."""
        return _NEVER if core_ms is None else self.wall_ms - round(self.core_ms - core_ms)
