"""Handshakes of TLS with those that connect: bounded in time and in number.

A handshake costs a millisecond of CPU, and whoever begins one and goes silent costs its place. So for one too many the
oldest handshake of the address that has the most is given up: a flood from one host crowds itself out. Knows no protocol
that comes after.
"""

import asyncio
import socket
from collections import Counter
from collections.abc import Callable

from quorum_node.server.listener.first_byte import speaks_tls
from quorum_node.server.listener.gate import Gate

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

    def __len__(self) -> int:
        return len(self._running)

    def begin(self, connection: socket.socket, host: str) -> None:
        """Shake hands with who has connected from `host`; the protocol's connection is made when that is done."""
        if len(self._running) >= self._gate.handshakes_max:
            self._give_up_one()
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
        for task in self._running:
            task.cancel()

    def _give_up_one(self) -> None:
        counts = Counter(self._running.values())
        most = max(counts.values())
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
