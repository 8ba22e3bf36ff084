"""A recording HTTP proxy: all calls of the operator pass through it, and it can hold them.

Owns the forwarding of requests to the API server and (as a forward proxy) to the nodes' admin API, the list of mutating
calls, and the hold: a call is stopped before it is forwarded, or after it was executed and before the caller gets the
response. Must not know the purpose of a call.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import urlsplit

import h11
import httpx

from support.envtest.http_connection import HOP_BY_HOP, Connection
from support.envtest.kube_api import Access

_MUTATING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_PLAIN = {"Accept-Encoding": "identity"}
_UNAVAILABLE = {
    "kind": "Status",
    "apiVersion": "v1",
    "status": "Failure",
    "reason": "ServiceUnavailable",
    "message": "the proxy of the test refuses this call",
    "code": 503,
}


class Moment(StrEnum):
    """The moment at which a held call stops."""

    BEFORE = "before"
    """The server has not seen the call."""
    AFTER = "after"
    """The server has carried it out; the caller does not know."""


@dataclass(frozen=True, slots=True)
class Call:
    """One mutating request. `target` is the host:port of a node, or empty for the API server."""

    index: int
    method: str
    target: str
    path: str
    query: str
    body: bytes


@dataclass(slots=True)
class Hold:
    """Stops the first call that `wanted` selects. `reached` is set when a call is stopped."""

    wanted: Callable[[Call], bool]
    moment: Moment
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    let_go: asyncio.Event = field(default_factory=asyncio.Event)
    abandoned: bool = False
    call: Call | None = None

    def release(self) -> None:
        self.let_go.set()

    def abandon(self) -> None:
        """The caller was killed: the call is not forwarded any more, and not answered."""
        self.abandoned = True
        self.let_go.set()


class _AbandonedCall(Exception):
    """The connection of a held call has to be closed without a response."""


class RecordingProxy:
    """Listens on a port of 127.0.0.1.

    `refused` are the host:port of nodes that can't be reached; `acting_as` are headers that make the
    API server treat the caller as someone else (impersonation), so that its rights are the real ones.
    """

    def __init__(self, access: Access, acting_as: Sequence[tuple[str, str]] = ()) -> None:
        self.calls: list[Call] = []
        self.to_api: list[tuple[Call, int]] = []
        """Every call to the API server, reads and watches too, with the status of its answer."""
        self.refused: set[str] = set()
        self.unavailable: Callable[[Call], bool] = lambda call: False
        """Calls to the API server that are answered 503 in its place."""
        self.delay_s = 0.0
        """How long every call to the API server takes longer."""
        self.port = 0
        self._impersonate = [(name.encode(), text.encode()) for name, text in acting_as]
        self._holds: list[Hold] = []
        self._numbers = itertools.count()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._to_server = httpx.AsyncClient(
            base_url=access.url,
            verify=access.tls if access.tls is not None else True,
            headers={**_PLAIN, **access.headers},
            timeout=httpx.Timeout(30, read=None),
            limits=httpx.Limits(max_connections=200),
            trust_env=False,
        )
        self._to_nodes = httpx.AsyncClient(
            headers=_PLAIN,
            timeout=httpx.Timeout(60, connect=2),
            trust_env=False,
            verify=False,  # the nodes use plain HTTP
        )

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        assert self._server is not None
        self.disarm()
        self._server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._to_server.aclose()
        await self._to_nodes.aclose()

    def hold(self, wanted: Callable[[Call], bool], moment: Moment) -> Hold:
        """Activate a hold. Each hold stops one call."""
        hold = Hold(wanted, moment)
        self._holds.append(hold)
        return hold

    def disarm(self) -> None:
        """Remove all holds; stopped calls continue."""
        for hold in self._holds:
            hold.release()
        self._holds.clear()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._serve(Connection(reader, writer))
        except (_AbandonedCall, ConnectionError, h11.ProtocolError, httpx.HTTPError):
            pass
        except asyncio.CancelledError:
            pass  # the proxy is closing; asyncio's stream callback must not see a cancelled task
        finally:
            self._connections.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _serve(self, connection: Connection) -> None:
        while True:
            received = await connection.request()
            if received is None:
                return
            request, body = received
            await self._relay(connection, request, body)
            if not connection.next_cycle():
                return

    async def _relay(self, connection: Connection, request: h11.Request, body: bytes) -> None:
        call = self._record(request, body)
        hold = self._matching(call)
        if hold is not None and hold.moment is Moment.BEFORE:
            await _hold_calls(hold)
        if call.target in self.refused:
            raise _AbandonedCall
        if not call.target:
            await asyncio.sleep(self.delay_s)
            if self.unavailable(call):
                await self._refuse(connection)
                return
        client, upstream = self._upstream(call, request)
        answer = await client.send(upstream, stream=True)
        if not call.target:
            self.to_api.append((call, answer.status_code))
        try:
            if hold is not None and hold.moment is Moment.AFTER:
                await self._answer_later(connection, answer, hold)
            else:
                await self._answer(connection, answer)
        finally:
            await answer.aclose()

    @staticmethod
    async def _answer(connection: Connection, answer: httpx.Response) -> None:
        """Forward the response as it arrives; a watch ends when its caller closes the connection."""

        async def pump() -> None:
            await connection.begin(answer, None)
            async for part in answer.aiter_raw():
                await connection.data(part)
            await connection.end()

        work, gone = asyncio.create_task(pump()), asyncio.create_task(connection.closed())
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise _AbandonedCall
            work.result()
        finally:
            for task in (work, gone):
                task.cancel()
            await asyncio.gather(work, gone, return_exceptions=True)

    @staticmethod
    async def _refuse(connection: Connection) -> None:
        answer = httpx.Response(503, json=_UNAVAILABLE)
        await connection.begin(answer, len(answer.content))
        await connection.data(answer.content)
        await connection.end()

    @staticmethod
    async def _answer_later(connection: Connection, answer: httpx.Response, hold: Hold) -> None:
        content = b"".join([part async for part in answer.aiter_raw()])
        await _hold_calls(hold)
        await connection.begin(answer, len(content))
        await connection.data(content)
        await connection.end()

    def _record(self, request: h11.Request, body: bytes) -> Call:
        method = request.method.decode()
        url = urlsplit(request.target.decode())
        number = next(self._numbers) if method in _MUTATING else -1
        call = Call(number, method, url.netloc, url.path, url.query, body)
        if method in _MUTATING:
            self.calls.append(call)
        return call

    def _matching(self, call: Call) -> Hold | None:
        if call.index < 0:
            return None
        hold = next((each for each in self._holds if each.wanted(call)), None)
        if hold is not None:
            self._holds.remove(hold)
            hold.call = call
        return hold

    def _upstream(
        self, call: Call, request: h11.Request
    ) -> tuple[httpx.AsyncClient, httpx.Request]:
        headers = [(k, v) for k, v in request.headers if k.lower() not in HOP_BY_HOP]
        path = f"{call.path}?{call.query}" if call.query else call.path
        if call.target:
            client, url = self._to_nodes, f"http://{call.target}{path}"
        else:
            client, url = self._to_server, path
            headers += self._impersonate
        return client, client.build_request(call.method, url, headers=headers, content=call.body)


async def _hold_calls(hold: Hold) -> None:
    hold.reached.set()
    await hold.let_go.wait()
    if hold.abandoned:
        raise _AbandonedCall
