"""Which handshake of a listener begins next, and when: rate limits for all and for each address, and turns of the addresses.

Must not know sockets or the loop: times are passed in, in seconds.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from quorum_node.server.listener.rate_limit import RateLimit

BURST_SECONDS = 0.2
"""Burst: number of seconds of a rate that may begin at once after an idle time."""
ADDRESS_SHARE = 0.25
"""Part of the rate that one address has: a flood from one host leaves most of the CPU to commits."""

Connection = TypeVar("Connection")


class WaitingHandshakes(Generic[Connection]):
    """Connections whose handshake has not begun. `rate`: handshakes per second of all addresses."""

    def __init__(self, rate: float, now: float) -> None:
        self._address_rate = rate * ADDRESS_SHARE
        self._limit = RateLimit(rate, rate * BURST_SECONDS, now)
        self._limits: dict[str, RateLimit] = {}
        """By address, without those that are unused."""
        self._waiting: dict[str, deque[Connection]] = {}
        """By address; the one that waited longest for its turn is first."""

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def __iter__(self) -> Iterator[Connection]:
        for each in self._waiting.values():
            yield from each

    def counts(self) -> Mapping[str, int]:
        """Number of connections by address."""
        return {host: len(own) for host, own in self._waiting.items()}

    def add(self, host: str, connection: Connection) -> None:
        """After the others of its address."""
        self._waiting.setdefault(host, deque()).append(connection)

    def begin(self, now: float) -> tuple[str, Connection] | None:
        """Remove the one whose handshake begins now, and return it with its address; None if none may begin yet."""
        host = None
        if not self._limit.pause_seconds(now):
            ready = (each for each in self._waiting if not self._pause_seconds(each, now))
            host = next(ready, None)
        if host is None:
            self._forget_unused(now)
            return None
        self._limit.take()
        if host not in self._limits:
            rate = self._address_rate
            self._limits[host] = RateLimit(rate, rate * BURST_SECONDS, now)
        self._limits[host].take()
        own = self._waiting.pop(host)
        connection = own.popleft()
        if own:
            self._waiting[host] = own
        return host, connection

    def pause_seconds(self, now: float) -> float | None:
        """Time until one may begin; None if none waits."""
        if not self._waiting:
            return None
        first = min(self._pause_seconds(host, now) for host in self._waiting)
        return max(first, self._limit.pause_seconds(now))

    def drop_oldest(self, host: str) -> Connection:
        """Remove the first one of an address that has some, and return it."""
        own = self._waiting[host]
        dropped = own.popleft()
        if not own:
            del self._waiting[host]
        return dropped

    def clear(self) -> None:
        """Remove all."""
        self._waiting.clear()

    def _forget_unused(self, now: float) -> None:
        for host in [each for each, limit in self._limits.items() if limit.is_unused(now)]:
            del self._limits[host]

    def _pause_seconds(self, host: str, now: float) -> float:
        limit = self._limits.get(host)
        return 0.0 if limit is None else limit.pause_seconds(now)
