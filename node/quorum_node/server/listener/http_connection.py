"""One HTTP connection of the admin listener: uvicorn's protocol, with bounded costs.

Until its caller has shown the admin token, or an administrator's certificate, all work for a connection (parsing, routing, answering) is
done in turns that share a part of the loop's time. The same holds for reads that need no token (probes, metrics, descriptions), so a
flood of them delays only itself. Must not know the routes.
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, cast

from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from quorum_node.configuration.keys.listeners import ADMIN_LISTENER
from quorum_node.security.caller import ANONYMOUS
from quorum_node.server.ending.fail_stop import is_half_a_step
from quorum_node.server.listener import connection_limits as limits
from quorum_node.server.listener.connection_book import ConnectionBook
from quorum_node.server.listener.fair_turns import FairTurns
from quorum_node.server.listener.large_reads import LargeReads
from quorum_node.server.listener.port import CALLER, ON_AUTHORIZED, UNREAD
from quorum_node.server.listener.port_authentication import (
    NOT_YET,
    ClearText,
    PeerIdentity,
    PortAuthentication,
)
from quorum_node.server.listener.principal_shares import PrincipalShares, is_anonymous
from quorum_node.server.observing.metrics import Metrics
from quorum_node.server.transport.sliced_transport import in_slices
from quorum_node.server.transport.sockets import address_of

SHARE = 0.2
"""Part of the loop's time for all callers without the token."""
BURST_SECONDS = 0.2
MAX_HEADER_BYTES = 16 << 10
MAX_HEADER_LINES = 256
"""Each takes a few µs to parse, all of them at once. Clients and proxies send some dozens."""
MAX_UNREAD_BYTES = 128 << 20
"""In bytes: unread answers of all connections; beyond it the connection that was asked first is closed."""
PIECE_BYTES = 2 << 10
"""Bytes that are parsed at once for a caller without the token: few enough for hundreds of chunks of one byte each."""


@dataclass(slots=True, eq=False)
class HttpListener:
    """The state that the connections of one listener share."""

    config: Config
    state: ServerState
    book: ConnectionBook
    turns: FairTurns
    metrics: Metrics
    principals: PrincipalShares
    authentication: PortAuthentication = field(default_factory=lambda: ClearText(ADMIN_LISTENER))
    reads: LargeReads = field(default_factory=lambda: LargeReads(asyncio.get_running_loop()))

    def make(self) -> "HttpConnection":
        """Create the protocol of a new connection."""
        return HttpConnection(self)

    def check_unread(self) -> None:
        """Close connections whose clients don't read while there are too many bytes in all, but never the only one."""
        while True:
            found = [each for each in self.book if isinstance(each, HttpConnection)]
            slow = [each for each in found if each.unread_bytes]
            if len(slow) < 2 or sum(each.unread_bytes for each in slow) <= MAX_UNREAD_BYTES:
                return
            first = min(slow, key=lambda each: each.asked_at)
            self.metrics.count_labelled("connections_closed", "admin unsent")
            self.book.lost(first)
            first.drop("unsent")


class HttpConnection(H11Protocol):
    """See the module. One request at a time: further requests on the connection wait, unread."""

    def __init__(self, listener: HttpListener) -> None:
        super().__init__(listener.config, listener.state, {})
        self._listener = listener
        self._inner = self.app
        self.app = cast(Any, self._serve)
        self._received = bytearray()
        self._is_waiting = False
        self._is_parsing = False
        self._is_paused = False
        self._is_gone = False
        self._is_refused = False
        self._is_trusted = False
        self._header_lines = 0
        self._held_bytes = 0
        self.asked_at = 0.0
        """Time in seconds when the latest request began."""
        self.address = ""
        self.identity: PeerIdentity = NOT_YET
        self.caller = NOT_YET.caller
        self.standing = 0
        self.active_at = 0.0
        self.unfinished_since: float | None = None
        self.unfinished_bytes = 0
        self._share = listener.principals.of(ANONYMOUS)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Called by the loop."""
        # Answers of many MiB would be encrypted at once.
        sliced = in_slices(transport, self.loop, self._listener.reads)
        super().connection_made(cast(asyncio.Transport, sliced))
        self.address = address_of(transport)
        identity = self._listener.authentication.authenticate(transport, self.address)
        if identity is None:
            self.drop("certificate")
            return
        self.identity, self.caller = identity, identity.caller
        self.active_at = self.unfinished_since = perf_counter()
        self._listener.book.opened(self)
        if not is_anonymous(self.caller) and not self._is_gone:
            self._share = self._listener.principals.of(self.caller)
            self._listener.book.identified(self, self.caller.principal)

    @property
    def served_until(self) -> float:
        """See `fair_turns.Worker`: the virtual clock of its principal."""
        return self._share.served_until

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        self._is_gone = True
        self._received.clear()
        self._listener.book.lost(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        self.active_at = perf_counter()
        if self.unfinished_since is None and self._is_between_requests:
            self.unfinished_since = self.active_at
        if self._is_trusted and not self._is_waiting:
            self._parse(data)
            return
        self._received += data
        self._listener.book.has_unfinished(self, len(self._received))
        if self._is_waiting:
            # uvicorn resumes reading after an answer; bytes that wait here come first.
            if not self.transport.is_closing():
                self.transport.pause_reading()
            return
        if self._listener.turns.may_go_on(self) and len(self._received) <= PIECE_BYTES:
            self.take_turn()
        else:
            self._wait_for_turn()

    def take_turn(self) -> None:
        """Parse a piece of the received bytes, or begin the next request among those that are parsed."""
        self._is_waiting = False
        if self._is_gone:
            return
        began = perf_counter()
        size = len(self._received) if self._is_trusted else PIECE_BYTES
        piece = bytes(self._received[:size])
        del self._received[:size]
        self._listener.book.has_unfinished(self, len(self._received))
        self._parse(piece)
        seconds = perf_counter() - began
        self._share.spent(seconds)
        self._share.move_to(self._listener.turns.spent(self.served_until, seconds))
        if self._received:
            self._wait_for_turn()
        elif self._is_paused:
            self._is_paused = False
            if not self.flow.read_paused and not self._is_gone:
                self.transport.resume_reading()

    def _parse(self, data: bytes) -> None:
        if self._is_gone or self.transport.is_closing():
            self._received.clear()
            return
        if self._has_too_many_lines(data):
            self._listener.metrics.count_labelled("malformed_requests", "admin")
            self.drop("malformed")
            return
        self._is_parsing = True
        try:
            if data:
                super().data_received(data)
            else:
                super().handle_events()
        except Exception as error:  # of the parser: the bytes are not valid HTTP
            if is_half_a_step(error):
                raise
            self._listener.metrics.count_labelled("malformed_requests", "admin")
            self.drop("malformed")
        finally:
            self._is_parsing = False

    def _has_too_many_lines(self, data: bytes) -> bool:
        """Whether the header of the next request has too many lines, without parsing it."""
        if self._is_trusted or not self._is_between_requests:
            return False
        self._header_lines += data.partition(b"\r\n\r\n")[0].count(b"\n")
        return self._header_lines > MAX_HEADER_LINES

    def handle_events(self) -> None:
        """Called by uvicorn when bytes were received, and after each answer: the client may have sent further requests already.

        Such a request waits for its turn. Otherwise a hundred of them in one piece would be answered at once.
        """
        if self._is_parsing or self._is_trusted:
            super().handle_events()
        elif self.conn.trailing_data[0] and not (self._is_waiting or self._is_gone):
            self._wait_for_turn()

    def send_400_response(self, msg: str) -> None:
        """The bytes are not valid HTTP, or the header is too large."""
        self._listener.metrics.count_labelled("malformed_requests", "admin")
        self._is_refused = True
        super().send_400_response(msg)

    @property
    def unread_bytes(self) -> int:
        """Bytes of the answer that the client has not read."""
        return 0 if self._is_gone else self._held_bytes + self.transport.get_write_buffer_size()

    def pause_writing(self) -> None:
        """Called by the loop: the client does not read its answer."""
        super().pause_writing()
        self._listener.check_unread()

    def _hold(self, size_bytes: int) -> None:
        grown = size_bytes > self._held_bytes
        self._held_bytes = size_bytes
        if grown:
            self._listener.check_unread()

    def drop(self, why: str) -> None:
        """Close at once; unsent bytes are dropped."""
        self._is_gone = True
        self._received.clear()
        if self.transport is not None:
            self.transport.abort()

    def retire(self) -> None:
        """Close after the answer to the current request, if there is one, or after a timeout."""
        self.identity = NOT_YET  # a closing connection is not authenticated again
        self.loop.call_later(limits.RETIRED_AFTER_SECONDS, self.drop, "retired")
        if not (self._is_gone or self.transport.is_closing()):
            self.shutdown()

    @property
    def is_light(self) -> bool:
        """HTTP requests are never classified as light."""
        return False

    @property
    def is_heavy(self) -> bool:
        """Never heavy: it works in small pieces only."""
        return False

    @property
    def in_flight(self) -> int:
        """See `is_heavy`."""
        return 0

    @property
    def _is_between_requests(self) -> bool:
        cycle = cast(Any, self.cycle)  # None before the first request
        return cycle is None or bool(cycle.response_complete)

    def _wait_for_turn(self) -> None:
        self._is_waiting = True
        if not self._is_paused:
            self._is_paused = True
            self.transport.pause_reading()
        self._listener.turns.add(self)

    async def _serve(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle one request: count its costs, and end its time limit when it has arrived completely."""

        async def received() -> Any:
            event = await receive()
            if not event.get("more_body", False):
                self.unfinished_since = None
            return event

        async def answered(event: Any) -> None:
            if self._is_refused or self._is_gone:
                # Another answer was sent for the bytes after this request. The connection is being closed.
                while (await receive())["type"] != "http.disconnect":
                    continue
            await send(event)

        self.asked_at, self._header_lines = perf_counter(), 0
        if _has_no_body(scope):
            self.unfinished_since = None
        elif self.unfinished_since is None:  # it was sent before the answer to the previous request
            self.unfinished_since = self.asked_at
        scope[ON_AUTHORIZED] = self._trust
        scope[UNREAD] = self._hold
        scope[CALLER] = self.caller
        answering: Coroutine[Any, Any, None] = self._inner(scope, received, answered)
        await _Counted(answering, self._count)
        self.active_at = perf_counter()
        self.standing = max(self.standing, 1)
        if not cast(Any, self.cycle).more_body:
            self.unfinished_since = None

    def _trust(self) -> None:
        self._is_trusted = True
        self.standing = 2

    def _count(self, seconds: float) -> None:
        self._share.spent(seconds)
        if not self._is_trusted:
            self._share.move_to(self._listener.turns.spent(self.served_until, seconds))


class _Counted:
    """Awaits a coroutine and measures the time between its awaits."""

    def __init__(self, inner: Coroutine[Any, Any, None], count: Callable[[float], None]) -> None:
        self._inner = inner
        self._count = count

    def __await__(self) -> Generator[Any, Any, None]:
        steps = self._inner.__await__()
        sent: Any = None
        thrown: BaseException | None = None
        while True:
            began = perf_counter()
            try:
                waited = steps.send(sent) if thrown is None else steps.throw(thrown)
            except StopIteration:
                return
            finally:
                self._count(perf_counter() - began)
            try:
                sent, thrown = (yield waited), None
            except BaseException as error:  # cancelled, or a failed future: passed to the coroutine
                thrown = error


def _has_no_body(scope: Any) -> bool:
    for name, value in scope["headers"]:
        if name in (b"content-length", b"transfer-encoding") and value != b"0":
            return False
    return True
