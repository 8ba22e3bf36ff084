"""Conversion of times to the notation of Kubernetes and back, and validation of times that other clients can edit."""

from datetime import UTC, datetime
from functools import lru_cache
from math import isfinite

_LATEST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()
"""The last time that can be written."""


# Every condition of a status contains the time of the reconcile.
@lru_cache(maxsize=256)
def text_of(at: float) -> str:
    """Format seconds since 1970 as Kubernetes does. Times out of range become the first or the last possible time."""
    return datetime.fromtimestamp(min(max(at, 0.0), _LATEST), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_of(text: str) -> float:
    """The inverse of `text_of`."""
    return datetime.fromisoformat(text).timestamp()


def time_in(value: object) -> float:
    """Parse seconds since 1970 from a document that any client may have edited. Raises ValueError or TypeError if invalid."""
    if not isinstance(value, int | float | str):
        raise TypeError(f"{value!r} is no time")
    try:
        at = float(value)
    except OverflowError:
        raise ValueError("no time") from None
    if not isfinite(at) or not 0.0 <= at <= _LATEST:
        raise ValueError(f"{value!r} is no time")
    return at
