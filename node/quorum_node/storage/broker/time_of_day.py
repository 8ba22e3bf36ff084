"""The wall clock that timestamps of records are compared with."""

from time import time_ns


def time_of_day_ms() -> int:
    """Milliseconds since 1970."""
    return time_ns() // 1_000_000
