"""Throttles of replication: which replicas of a topic are throttled, and how many bytes per second they may take. PURE.

Owns the lists of throttled replicas and the quota. Only replicas outside of the ISR are throttled; the caller checks that. Their
traffic alone counts: a throttle below the rate of the producers would otherwise stop a reassignment for good. Times are monotonic.
Source: KIP-73; a stock broker's ReplicationQuotaManager.
"""

from dataclasses import dataclass
from functools import lru_cache

BURST_SECONDS = 1.0
"""What can be transferred at once after a pause, as time at the limit."""
_ALL = "*"


@dataclass(frozen=True, slots=True)
class Throttled:
    """Whether a replica is in the lists of its topic: as leader of a throttled follower, and as throttled follower."""

    as_leader: bool = False
    as_follower: bool = False


NOT_THROTTLED = Throttled()


def is_listed(text: str, partition_id: int, broker_id: int) -> bool:
    """Whether `*.replication.throttled.replicas` contains the replica: as PARTITION:BROKER, or as `*`."""
    entries = _entries(text)
    return _ALL in entries or f"{partition_id}:{broker_id}" in entries


@lru_cache(maxsize=64)
def _entries(text: str) -> frozenset[str]:
    """A list names each partition of a topic, and is read for each of them."""
    return frozenset(each.strip() for each in text.split(","))


class ReplicationQuota:
    """A limit in bytes per second, None for none. What exceeds it is paid off before more is permitted, so the mean is the limit.

    A stock broker looks at the last ten seconds only: with fetches that are larger than ten seconds of the limit it is exceeded for good.
    """

    __slots__ = ("_at_ms", "_bytes_per_second", "_owed_bytes")

    def __init__(self, bytes_per_second: float | None = None) -> None:
        self._bytes_per_second = bytes_per_second
        self._owed_bytes = 0.0
        """What was transferred and is not paid off, as of `_at_ms`."""
        self._at_ms = 0.0

    def limit(self, bytes_per_second: float | None) -> None:
        """Change the limit. What exceeded the earlier one is paid off by the new one."""
        self._bytes_per_second = bytes_per_second

    def record(self, size_bytes: int, now_ms: float) -> None:
        """Throttled replicas have received or sent this many bytes."""
        self._pay(now_ms)
        self._owed_bytes += size_bytes

    def is_exceeded(self, now_ms: float) -> bool:
        """Whether throttled replicas have to wait."""
        self._pay(now_ms)
        return self._bytes_per_second is not None and self._owed_bytes > (
            self._bytes_per_second * BURST_SECONDS
        )

    def _pay(self, now_ms: float) -> None:
        if self._bytes_per_second is None:
            self._owed_bytes = 0.0
        else:
            paid = (now_ms - self._at_ms) * self._bytes_per_second / 1000
            self._owed_bytes = max(0.0, self._owed_bytes - paid)
        self._at_ms = now_ms
