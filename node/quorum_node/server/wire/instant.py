"""One point in time on the core's clock and on the wall clock. Kafka's timestamps are wall-clock times; the core uses a separate clock."""

from dataclasses import dataclass

_NEVER = -1


@dataclass(frozen=True, slots=True)
class Instant:
    """The time on both clocks, in milliseconds."""

    core_ms: float
    wall_ms: int

    def wall_of(self, core_ms: float | None) -> int:
        """Wall-clock time, in milliseconds since 1970, of a time on the core's clock; -1 for never."""
        return _NEVER if core_ms is None else self.wall_ms - round(self.core_ms - core_ms)
