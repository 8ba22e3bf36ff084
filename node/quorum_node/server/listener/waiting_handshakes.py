"""Which handshake of a listener begins next, and when: token buckets for all and for each address, and turns of the addresses.

Must not know sockets or the loop: times are passed in, in seconds.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

BURST_SECONDS = 0.2
"""Burst: number of seconds of a rate that may begin at once after an idle time."""
ADDRESS_SHARE = 0.25
"""Part of the rate that one address has: a flood from one host leaves most of the CPU to commits."""

Connection = TypeVar("Connection")


class Allowance:
    """A token bucket. `rate`: handshakes per second."""

    def __init__(self, rate: float, now: float) -> None:
        self._rate = rate
        self._burst = max(1.0, rate * BURST_SECONDS)
        self._credit = self._burst
        self._credited_at = now

    def pause_seconds(self, now: float) -> float:
        """Time until one may begin; 0 if it may at once."""
        self._credit = min(self._burst, self._credit + (now - self._credited_at) * self._rate)
        self._credited_at = now
        return max(0.0, (1 - self._credit) / self._rate)

    def take(self) -> None:
        """One begins."""
        self._credit -= 1

    def is_full(self, now: float) -> bool:
        """Whether the whole burst may begin."""
        return self.pause_seconds(now) == 0 and self._credit >= self._burst


class WaitingHandshakes(Generic[Connection]):
    """Connections whose handshake has not begun. `rate`: handshakes per second of all addresses."""

    def __init__(self, rate: float, now: float) -> None:
        self._address_rate = rate * ADDRESS_SHARE
        self._allowance = Allowance(rate, now)
        self._by_address: dict[str, Allowance] = {}
        """Without those that are full."""
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
        if not self._waiting or self._allowance.pause_seconds(now):
            return None
        host = next((each for each in self._waiting if not self._pause_seconds(each, now)), None)
        if host is None:
            return None
        self._allowance.take()
        self._by_address.setdefault(host, Allowance(self._address_rate, now)).take()
        own = self._waiting.pop(host)
        connection = own.popleft()
        if own:
            self._waiting[host] = own
        return host, connection

    def pause_seconds(self, now: float) -> float | None:
        """Time until one may begin; None if none waits."""
        for host in [each for each, one in self._by_address.items() if one.is_full(now)]:
            del self._by_address[host]
        if not self._waiting:
            return None
        first = min(self._pause_seconds(host, now) for host in self._waiting)
        return max(first, self._allowance.pause_seconds(now))

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

    def _pause_seconds(self, host: str, now: float) -> float:
        own = self._by_address.get(host)
        return 0.0 if own is None else own.pause_seconds(now)
