"""A single record of a log, and the messages about missing records. PURE."""

from typing import NamedTuple


class LogRecord(NamedTuple):
    """A record with the properties that its batch defines."""

    offset: int
    epoch: int
    timestamp_ms: int
    control: bool
    key: bytes | None
    value: bytes


def misplaced(offset: int, expected: int) -> str:
    """Return the message about an offset other than the expected one."""
    return f"offset {offset} where {expected} is expected: records are missing or duplicated"


def missing(offset: int, end_offset: int) -> str:
    """Return the message about records that end before `end_offset`."""
    return f"the records from offset {offset} to {end_offset} are missing"
