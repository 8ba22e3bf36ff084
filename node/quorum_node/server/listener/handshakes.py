"""TLS handshakes with clients, and logins in clear text: bounded in time, in number, and in the rate at which they begin.

A handshake costs a millisecond of CPU or more, as a login does, and a client that stalls occupies a slot. So handshakes begin at a bounded
rate, round robin over the addresses, and one address has a part of that rate (`waiting_handshakes`). If there are too many, the oldest
handshake of the address with the most is cancelled: a flood from one host displaces only itself. Must not know the protocol above TLS.
"""

import asyncio
import socket
from collections import Counter
from collections.abc import Callable

from quorum_node.server.listener.first_byte import speaks_tls
from quorum_node.server.listener.port_authentication import PortAuthentication
from quorum_node.server.listener.waiting_handshakes import WaitingHandshakes
from quorum_node.server.transport.bounded_handshake import ACCEPTED

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
        self._waiting = WaitingHandshakes[socket.socket](
            authentication.handshakes_rate, self._loop.time()
        )
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._running) + len(self._waiting)

    def begin(self, connection: socket.socket, host: str) -> None:
        """Queue the handshake with a client from `host`. The protocol of the connection is created when it succeeds."""
        if len(self) >= self._authentication.handshakes_max:
            self._give_up_one()
        self._waiting.add(host, connection)
        if self._timer is None:
            self._begin_some()

    def _begin_some(self) -> None:
        """Begin as many handshakes as the rates allow; schedule the others."""
        self._timer = None
        now = self._loop.time()
        while (begins := self._waiting.begin(now)) is not None:
            host, connection = begins
            self._begin(connection, host)
        pause_seconds = self._waiting.pause_seconds(now)
        if pause_seconds is not None:
            self._timer = self._loop.call_later(pause_seconds, self._begin_some)

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
        for connection in self._waiting:
            connection.close()
        self._waiting.clear()

    def _give_up_one(self) -> None:
        waiting = self._waiting.counts()
        counts = Counter(self._running.values()) + Counter(waiting)
        most = max(counts.values())
        crowded = next((host for host in waiting if counts[host] == most), None)
        if crowded is not None:
            self._waiting.drop_oldest(crowded).close()
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
            ACCEPTED.set(connection)  # in the context of this task
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
