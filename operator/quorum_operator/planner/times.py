"""Times as Kubernetes writes them."""

from datetime import UTC, datetime
from functools import lru_cache


# The time of a look is in every condition of its status.
@lru_cache(maxsize=256)
def text_of(at: float) -> str:
    """Seconds since 1970 as Kubernetes writes times."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_of(text: str) -> float:
    """The inverse of `text_of`."""
    return datetime.fromisoformat(text).timestamp()
