"""A listening socket: accepts new connections, at a bounded rate.

Other connections wait in the backlog of the socket. Must not know what a connection carries; one acceptor belongs to one listener.
"""

import asyncio
import socket
from collections.abc import Callable

from quorum_node.server.listener.handshakes import Handshakes
from quorum_node.server.listener.rate_limit import RateLimit

BACKLOG = 1024
_AT_ONCE = 16
"""Maximum number of connections that are accepted in one turn of the loop, so that open connections are served as well."""
_NO_FILES_PAUSE_SECONDS = 0.2


class Acceptor:
    """`make`: creates the protocol of a new connection. `rate`: connections a second. `on_failure`: called with the error when accepting
    fails.

    `handshakes`: if given, it creates the connection after a TLS handshake.
    """

    def __init__(
        self,
        sock: socket.socket,
        make: Callable[[], asyncio.BaseProtocol],
        rate: int,
        on_failure: Callable[[OSError], None] = lambda error: None,
        handshakes: Handshakes | None = None,
    ) -> None:
        self._socket = sock
        self._make = make
        self._on_failure = on_failure
        self._handshakes = handshakes
        self._loop = asyncio.get_running_loop()
        self._limit = RateLimit(rate, rate, self._loop.time())
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[object]] = set()
        self._closed = False

    def start(self) -> None:
        """Listen on the socket, which is bound. Raises OSError."""
        self._socket.setblocking(False)
        self._socket.listen(BACKLOG)
        self._loop.add_reader(self._socket.fileno(), self._accept)

    def close(self) -> None:
        """Stop accepting connections."""
        if self._closed:
            return
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        # Connections that are being made are not cancelled: uvloop would close them without telling their protocols, which may have been
        # connected and have received a request. It takes one more turn of the loop, and whoever made them knows that it is closing.
        if self._handshakes is not None:
            self._handshakes.close()

    def _accept(self) -> None:
        now = self._loop.time()
        for _ in range(_AT_ONCE):
            pause_seconds = self._limit.pause_seconds(now)
            if pause_seconds:
                self._pause(pause_seconds)
                return
            try:
                connection, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # no file descriptor, no memory
                self._on_failure(error)
                self._pause(_NO_FILES_PAUSE_SECONDS)
                return
            self._limit.take()
            connection.setblocking(False)
            if self._handshakes is not None:
                self._handshakes.begin(connection, str(address[0]))
                continue
            task = self._loop.create_task(self._connect(connection))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _connect(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._make, connection)
        except OSError:  # reset before anything was read
            connection.close()

    def _pause(self, seconds: float) -> None:
        self._loop.remove_reader(self._socket.fileno())
        self._timer = self._loop.call_later(seconds, self._resume)

    def _resume(self) -> None:
        if not self._closed:
            self._loop.add_reader(self._socket.fileno(), self._accept)
            self._accept()
