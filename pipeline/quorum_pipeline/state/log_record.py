"""A record of a log, by itself, and what is said where some are missing. PURE."""

from typing import NamedTuple


class LogRecord(NamedTuple):
    """A record with what its batch says about it."""

    offset: int
    epoch: int
    timestamp_ms: int
    control: bool
    key: bytes | None
    value: bytes


def misplaced(offset: int, expected: int) -> str:
    """What is said where another offset comes than the one that has to."""
    return f"offset {offset} where {expected} is expected: records are missing or duplicated"


def missing(offset: int, end_offset: int) -> str:
    """What is said where records end too early: they have to come up to `end_offset`."""
    return f"the records from offset {offset} to {end_offset} are missing"
