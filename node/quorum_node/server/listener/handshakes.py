"""TLS handshakes with clients, and logins in clear text: bounded in time, in number, and in the rate at which they begin.

A handshake costs a millisecond of CPU, as a login does, and a client that stalls occupies a slot. So handshakes begin at a bounded rate, round robin over
the addresses. If there are too many, the oldest handshake of the address with the most is cancelled: a flood from one host displaces only
itself. Must not know the protocol above TLS.
"""

import asyncio
import socket
from collections import Counter, deque
from collections.abc import Callable

from quorum_node.server.listener.first_byte import speaks_tls
from quorum_node.server.listener.port_authentication import PortAuthentication

_BURST_SECONDS = 0.2
"""Burst: number of seconds of the rate that may begin at once after an idle time."""
_SHUTDOWN_SECONDS = 2.0
"""In seconds: timeout of the other side's answer to the end of a connection."""


class GaveWay(Exception):
    """This handshake was cancelled in favour of another one."""

    def __init__(self) -> None:
        super().__init__("too many handshakes at a time (quorum.handshakes.max)")


class Handshakes:
    """The handshakes of one listener."""

    def __init__(
        self, authentication: PortAuthentication, make: Callable[[], asyncio.BaseProtocol]
    ) -> None:
        self._authentication = authentication
        self._make = make
        self._loop = asyncio.get_running_loop()
        self._running: dict[asyncio.Task[object], str] = {}
        """By address, the oldest first."""
        self._waiting: dict[str, deque[socket.socket]] = {}
        """By address; the one that waited longest for its turn is first."""
        self._burst = max(1.0, authentication.handshakes_rate * _BURST_SECONDS)
        self._credit = self._burst
        self._credited_at = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._running) + sum(map(len, self._waiting.values()))

    def begin(self, connection: socket.socket, host: str) -> None:
        """Queue the handshake with a client from `host`. The protocol of the connection is created when it succeeds."""
        if len(self) >= self._authentication.handshakes_max:
            self._give_up_one()
        self._waiting.setdefault(host, deque()).append(connection)
        if self._timer is None:
            self._begin_some()

    def _begin_some(self) -> None:
        """Begin as many handshakes as the rate allows; schedule the others."""
        self._timer = None
        now, rate = self._loop.time(), self._authentication.handshakes_rate
        self._credit = min(self._burst, self._credit + (now - self._credited_at) * rate)
        self._credited_at = now
        while self._waiting and self._credit >= 1:
            self._credit -= 1
            host = next(iter(self._waiting))
            own = self._waiting.pop(host)
            connection = own.popleft()
            if own:
                self._waiting[host] = own
            self._begin(connection, host)
        if self._waiting:
            self._timer = self._loop.call_later((1 - self._credit) / rate, self._begin_some)

    def _begin(self, connection: socket.socket, host: str) -> None:
        begun: list[bool] = []
        task = self._loop.create_task(self._shake(connection, host, begun))
        self._running[task] = host

        def ended(task: asyncio.Task[object]) -> None:
            self._running.pop(task, None)
            if not begun:  # cancelled before it began: the socket has no other owner
                connection.close()

        task.add_done_callback(ended)

    def close(self) -> None:
        """Cancel all handshakes."""
        if self._timer is not None:
            self._timer.cancel()
        for task in self._running:
            task.cancel()
        for waiting in self._waiting.values():
            for connection in waiting:
                connection.close()
        self._waiting.clear()

    def _give_up_one(self) -> None:
        counts = Counter(self._running.values())
        counts.update({host: len(waiting) for host, waiting in self._waiting.items()})
        most = max(counts.values())
        crowded = next((host for host in self._waiting if counts[host] == most), None)
        if crowded is not None:
            own = self._waiting[crowded]
            own.popleft().close()
            if not own:
                del self._waiting[crowded]
            self._authentication.refused(crowded, GaveWay())
            return
        oldest = next(task for task, host in self._running.items() if counts[host] == most)
        self._authentication.refused(self._running.pop(oldest), GaveWay())
        oldest.cancel()

    async def _shake(self, connection: socket.socket, host: str, begun: list[bool]) -> None:
        begun.append(True)
        authentication = self._authentication
        try:
            context = authentication.context
            plain = context is None or (
                authentication.takes_clear_text and not await speaks_tls(connection)
            )
            if plain:
                await self._loop.connect_accepted_socket(self._make, connection)
                return
            await self._loop.connect_accepted_socket(
                self._make,
                connection,
                ssl=context,
                ssl_handshake_timeout=authentication.handshake_timeout_seconds,
                ssl_shutdown_timeout=_SHUTDOWN_SECONDS,
            )
        except OSError as error:  # includes TLS errors
            authentication.refused(host, error)
            connection.close()
