"""Times as Kubernetes writes them."""

from datetime import UTC, datetime
from functools import lru_cache


# Every condition of a status contains the time of the reconcile.
@lru_cache(maxsize=256)
def text_of(at: float) -> str:
    """Seconds since 1970 as Kubernetes writes times."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_of(text: str) -> float:
    """The inverse of `text_of`."""
    return datetime.fromisoformat(text).timestamp()
