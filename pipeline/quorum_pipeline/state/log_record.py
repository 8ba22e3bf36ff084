"""A record of a log, by itself. PURE."""

from typing import NamedTuple


class LogRecord(NamedTuple):
    """A record with what its batch says about it."""

    offset: int
    epoch: int
    timestamp_ms: int
    control: bool
    key: bytes | None
    value: bytes
