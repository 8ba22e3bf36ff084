"""Serves short answers to GET requests of anybody in the cluster, with bounded memory, time and logs.

Owns the connections: each of them carries one request, has a deadline from its first to its last byte, and a limit of
bytes. The operator's memory limit is small and its event loop does everything else, so that neither slow nor many clients may
hold either. Must not know what is served, or who may read it.
"""

import asyncio
import math
import struct
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from socket import SO_LINGER, SOL_SOCKET
from typing import Any, Generic, TypeVar, cast

import structlog
from aiohttp import web
from aiohttp.web_protocol import RequestHandler

MOST_CONNECTIONS = 64
"""Maximum number of open connections. A further one closes the oldest one of the address that has most of them, so that
a flood of one address closes no probe of another one.
"""
DEADLINE_S = 10.0
"""Time for a whole connection: Prometheus gives up a scrape after 10 s, the kubelet a probe after 5 s."""
MOST_REQUEST_BYTES = 16 << 10
"""Received bytes after which a connection is closed. Requests have no content."""
REUSED_S = 1.0
"""Age up to which an answer is sent again instead of being computed: 45 ms of CPU for the metrics of 100 quorums."""
_STOP_S = 0.5
_SERVER = {"Server": "metadataquorum-operator"}
"""Instead of the versions of Python and of the library."""
_FIRST_SERVER_ERROR = 500
_RESET = struct.pack("ii", 1, 0)
"""struct linger, socket(7): reset the connection when it is closed."""

T = TypeVar("T")
Handler = Callable[[web.BaseRequest], Awaitable[web.Response]]

_log = structlog.get_logger("quorum_operator")


class Reused(Generic[T]):
    """The result of `make`, for REUSED_S. Many requests then cost no more than one a second."""

    def __init__(self, make: Callable[[], T], clock: Callable[[], float] = time.monotonic) -> None:
        self._make, self._clock = make, clock
        self._until = -math.inf
        self._made: T | None = None

    def __call__(self) -> T:
        """The result."""
        made, now = self._made, self._clock()
        if made is None or now >= self._until:
            made = self._made = self._make()
            self._until = now + REUSED_S
        return made


class HttpEndpoint:
    """One port. `routes`: handlers by path; everything else is answered with 404 or 405."""

    def __init__(self, routes: Mapping[str, Handler], deadline_s: float = DEADLINE_S) -> None:
        self._routes = dict(routes)
        self.deadline_s = deadline_s
        self._open: dict[_Connection, str] = {}
        """Address of each open connection, in the order in which they were accepted."""
        self._server: asyncio.Server | None = None
        self._requests: _Requests | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen, and return the port. Raises OSError if the address can't be used."""
        loop = asyncio.get_running_loop()
        self._requests = _Requests(self, self._answer)
        self._server = await loop.create_server(self._requests, host, port)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def stop(self) -> None:
        """Close the port and all connections."""
        server, self._server = self._server, None
        if server is None or self._requests is None:
            return
        server.close()
        for each in tuple(self._open):
            each.abort()
        await self._requests.shutdown(_STOP_S)

    def opened(self, connection: "_Connection", address: str) -> None:
        """Count a connection, and close another one if there are too many."""
        self._open[connection] = address
        if len(self._open) > MOST_CONNECTIONS:
            ((busiest, _),) = Counter(self._open.values()).most_common(1)
            oldest = next(each for each, whose in self._open.items() if whose == busiest)
            self.closed(oldest)
            oldest.abort()

    def closed(self, connection: "_Connection") -> None:
        """Forget a connection."""
        self._open.pop(connection, None)

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        handler = self._routes.get(request.path)
        if handler is None:
            answer = web.Response(status=404, text="not found\n")
        elif request.method not in ("GET", "HEAD"):
            answer = web.Response(status=405, text="read only\n", headers={"Allow": "GET, HEAD"})
        else:
            answer = await handler(request)
        return _last(answer)


class _Requests(web.Server):
    """aiohttp's server, which creates the connections."""

    def __init__(self, endpoint: HttpEndpoint, handler: Handler) -> None:
        super().__init__(handler)
        self._endpoint = endpoint

    def __call__(self) -> "_Connection":
        return _Connection(self, self._endpoint)


class _Connection(RequestHandler):
    """aiohttp's parser and writer, with limits."""

    __slots__ = ("_deadline", "_endpoint", "_received", "_socket")

    def __init__(self, requests: _Requests, endpoint: HttpEndpoint) -> None:
        quiet: dict[str, Any] = {"access_log": None, "lingering_time": 0.0}
        super().__init__(requests, loop=asyncio.get_running_loop(), **quiet)
        self._endpoint = endpoint
        self._received = 0
        self._socket: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count it, and start its deadline."""
        # uvloop's transports are no subclasses of asyncio's.
        self._socket = cast(asyncio.Transport, transport)
        self._deadline = self._loop.call_later(self._endpoint.deadline_s, self.abort)
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        self._endpoint.opened(self, str(peer[0]) if peer else "")

    def connection_lost(self, exc: BaseException | None) -> None:
        """Forget it."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._socket = None
        self._endpoint.closed(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse, up to a limit."""
        self._received += len(data)
        if self._received > MOST_REQUEST_BYTES:
            self.abort()
            return
        super().data_received(data)

    def abort(self) -> None:
        """Close it at once, and drop what is not sent, even by the kernel, whose buffers count as the pod's memory."""
        if self._socket is None:
            return
        with suppress(OSError):
            self._socket.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, _RESET)
        self._socket.abort()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer with the status. Only own errors are logged: anybody can send invalid requests."""
        if status < _FIRST_SERVER_ERROR:
            return _last(web.Response(status=status, text="invalid request\n"))
        _log.error("an HTTP request failed", path=request.path, exc_info=exc)
        return _last(web.Response(status=status, text="internal error, see the operator's log\n"))


def _last(answer: web.Response) -> web.Response:
    """The only answer of its connection."""
    answer.headers.update(_SERVER)
    answer.force_close()
    return answer
