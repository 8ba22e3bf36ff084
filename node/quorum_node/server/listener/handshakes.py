"""Handshakes of TLS with those that connect: bounded in time, in number, and in how many begin in a second.

A handshake costs a millisecond of CPU, and whoever begins one and goes silent costs its place. So they begin at a bounded rate, each
address in its turn; and for one too many the oldest handshake of the address that has the most is given up: a flood from one host
crowds itself out. Knows no protocol that comes after.
"""

import asyncio
import socket
from collections import Counter, deque
from collections.abc import Callable

from quorum_node.server.listener.first_byte import speaks_tls
from quorum_node.server.listener.gate import Gate

_BURST_SECONDS = 0.2
"""What may begin at once after a quiet time, as seconds of the rate."""
_SHUTDOWN_SECONDS = 2.0
"""How long the other side may take to answer that the connection ends."""


class GaveWay(Exception):
    """This handshake took the place of another one."""

    def __init__(self) -> None:
        super().__init__("too many handshakes at a time (quorum.handshakes.max)")


class Handshakes:
    """Of one listener."""

    def __init__(self, gate: Gate, make: Callable[[], asyncio.BaseProtocol]) -> None:
        self._gate = gate
        self._make = make
        self._loop = asyncio.get_running_loop()
        self._running: dict[asyncio.Task[object], str] = {}
        """By address; the oldest first."""
        self._waiting: dict[str, deque[socket.socket]] = {}
        """By address; who has waited longest for its turn comes first."""
        self._burst = max(1.0, gate.handshakes_rate * _BURST_SECONDS)
        self._credit = self._burst
        self._credited_at = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._running) + sum(map(len, self._waiting.values()))

    def begin(self, connection: socket.socket, host: str) -> None:
        """Shake hands with who has connected from `host`, when its turn comes; the protocol's connection is made after that."""
        if len(self) >= self._gate.handshakes_max:
            self._give_up_one()
        self._waiting.setdefault(host, deque()).append(connection)
        if self._timer is None:
            self._begin_some()

    def _begin_some(self) -> None:
        """As many as the rate allows; the next ones later."""
        self._timer = None
        now, rate = self._loop.time(), self._gate.handshakes_rate
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
            if not begun:  # given up before it had its turn: nobody else has the socket
                connection.close()

        task.add_done_callback(ended)

    def close(self) -> None:
        """Give all of them up."""
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
            self._gate.refused(crowded, GaveWay())
            return
        oldest = next(task for task, host in self._running.items() if counts[host] == most)
        self._gate.refused(self._running.pop(oldest), GaveWay())
        oldest.cancel()

    async def _shake(self, connection: socket.socket, host: str, begun: list[bool]) -> None:
        begun.append(True)
        gate = self._gate
        try:
            if gate.takes_clear_text and not await speaks_tls(connection):
                await self._loop.connect_accepted_socket(self._make, connection)
                return
            await self._loop.connect_accepted_socket(
                self._make,
                connection,
                ssl=gate.context,
                ssl_handshake_timeout=gate.handshake_timeout_seconds,
                ssl_shutdown_timeout=_SHUTDOWN_SECONDS,
            )
        except OSError as error:  # of TLS, too
            gate.refused(host, error)
            connection.close()
