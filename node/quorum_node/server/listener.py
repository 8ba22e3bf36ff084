"""The Kafka listener: bytes of a connection into requests, answers back in order.

One asyncio.Protocol per connection, no task per request. Answers leave a connection in the order
of its requests, as Kafka's clients expect; a parked request holds up its own connection only.
Bytes that are no request close that connection and are counted. Knows framing, not meanings.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import cast

from quorum_node.controller.view import Caller
from quorum_node.protocol.frames import (
    Request,
    UnsupportedRequest,
    decode_request,
    encode_response_parts,
)
from quorum_node.schema.schema import MalformedMessage, Message
from quorum_node.server.fail_stop import is_half_a_step
from quorum_node.server.frame_cutter import FrameCutter
from quorum_node.server.metrics import Metrics
from quorum_node.server.request_times import RequestTimes
from quorum_node.server.sockets import prepare_socket

MAX_IN_FLIGHT = 5000
"""Requests of one connection that may wait for answers; beyond it the connection isn't read."""
MAX_FRAMES_PER_TURN = 64
"""Requests of one connection that are handled before others get their turn."""


class InboundRequest:
    """One request and its place in the order of answers."""

    __slots__ = (
        "answered",
        "connection",
        "encoded",
        "on_abandoned",
        "received",
        "request",
        "started",
    )

    def __init__(self, connection: "KafkaConnection", request: Request, received: float) -> None:
        self.connection = connection
        self.request = request
        self.received = received
        self.started = perf_counter()
        self.answered = 0.0
        self.encoded: list[bytes | memoryview] | None = None
        self.on_abandoned: Callable[[], None] | None = None

    @property
    def caller(self) -> Caller:
        """Who asks: nobody has to say who they are on this listener."""
        return Caller("User:ANONYMOUS", self.connection.peer_host, "CONTROLLER")

    def reply(self, body: Message) -> None:
        """Answer; ignored when the connection is gone."""
        self.reply_version(body, self.request.version)

    def reply_version(self, body: Message, version: int) -> None:
        """Answer in another version than the request's (ApiVersions alone does so)."""
        request = self.request
        self.on_abandoned = None
        self.encoded = encode_response_parts(request.api, version, request.correlation_id, body)
        self.answered = perf_counter()
        self.connection.write_ready()


Handler = Callable[[InboundRequest], None]


class KafkaConnection(asyncio.Protocol):
    """One client or peer."""

    def __init__(self, server: "KafkaListener") -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._frames = FrameCutter(server.max_request_bytes)
        self._received = 0.0
        self._waiting: deque[InboundRequest] = deque()
        self._reading_paused = False
        self._writing_paused = False
        self._turn_scheduled = False
        self._collecting = False
        self._closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        # uvloop's transports are no subclasses of asyncio.Transport.
        self._transport = cast(asyncio.Transport, transport)
        prepare_socket(self._transport)
        self._server.connections.add(self)

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        self._received = perf_counter()
        self._frames.feed(data)
        if not self._turn_scheduled:
            self._take_turn()

    def _take_turn(self) -> None:
        """Handle some whole frames; more than one turn's worth waits, so that others get theirs."""
        self._turn_scheduled = False
        if self._closed:
            return
        self._collecting = True
        try:
            more = self._handle_frames()
        except MalformedMessage as error:
            if is_half_a_step(error):
                raise
            why = "unsupported" if isinstance(error, UnsupportedRequest) else "malformed"
            self._refuse(why, error)
            return
        finally:
            self._collecting = False
        self.write_ready()
        self._throttle(more)

    def _handle_frames(self) -> bool:
        """Handle whole frames, up to a turn's worth; True if there may be more."""
        server, frames = self._server, self._frames
        handled = 0
        while not self._closed and (frame := frames.next()) is not None:
            request = decode_request(frame)
            inbound = InboundRequest(self, request, self._received)
            self._waiting.append(inbound)
            server.times.arrived(request)
            server.handler(inbound)
            handled += 1
            if handled == MAX_FRAMES_PER_TURN:
                return frames.has_more
        return False

    def _throttle(self, more: bool) -> None:
        """Read only from a peer that reads, has little in flight, and waits for its turn."""
        if self._transport is None or self._closed:
            return
        blocked = self._writing_paused or len(self._waiting) > MAX_IN_FLIGHT
        if more and not blocked and not self._turn_scheduled:
            self._turn_scheduled = True
            self._server.loop.call_soon(self._take_turn)
        pause = blocked or more
        if pause and not self._reading_paused:
            self._transport.pause_reading()
        if not pause and self._reading_paused:
            self._transport.resume_reading()
        self._reading_paused = pause

    def write_ready(self) -> None:
        """Write every answer whose turn has come, as one write."""
        waiting = self._waiting
        # While the frames of a turn are handled their answers are collected.
        if self._collecting or not waiting or waiting[0].encoded is None:
            return
        parts: list[bytes | memoryview] = []
        now, left = perf_counter(), self._server.times.left
        while waiting and (encoded := waiting[0].encoded) is not None:
            parts += encoded
            done = waiting.popleft()
            left(done.request.api, done.received, done.started, done.answered, now)
        if self._transport is not None and not self._closed:
            self._transport.write(b"".join(parts))
        if self._reading_paused and not self._turn_scheduled:
            self._throttle(more=self._frames.has_more)

    def pause_writing(self) -> None:
        """Called by the loop: the peer doesn't read its answers, so don't read its requests."""
        self._writing_paused = True
        self._throttle(more=False)

    def resume_writing(self) -> None:
        """Called by the loop."""
        self._writing_paused = False
        self._throttle(more=self._frames.has_more)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop: nobody waits for these answers any more."""
        self._closed = True
        self._server.connection_gone(self)
        waiting, self._waiting = self._waiting, deque()
        for inbound in waiting:
            if inbound.on_abandoned is not None:
                inbound.on_abandoned()

    def close(self) -> None:
        """Stop reading; answers already written still leave."""
        self._closed = True
        if self._transport is not None:
            self._transport.close()

    @property
    def in_flight(self) -> int:
        """Requests that wait for their answer."""
        return len(self._waiting)

    @property
    def peer_host(self) -> str:
        """Address of the other side."""
        peer = self._transport.get_extra_info("peername") if self._transport else None
        return str(peer[0]) if peer else ""

    def _refuse(self, why: str, error: MalformedMessage) -> None:
        self._server.metrics.count_labelled("malformed_requests", "controller")
        self._server.on_malformed(why, str(error), self._peer_name())
        self._frames.clear()
        self.close()

    def _peer_name(self) -> str:
        peer = self._transport.get_extra_info("peername") if self._transport else None
        return f"{peer[0]}:{peer[1]}" if peer else "unknown"


class KafkaListener:
    """The listening socket and its connections."""

    def __init__(
        self,
        handler: Handler,
        metrics: Metrics,
        max_request_bytes: int,
        on_malformed: Callable[[str, str, str], None],
    ) -> None:
        self.handler = handler
        self.metrics = metrics
        self.times = RequestTimes(metrics)
        self.max_request_bytes = max_request_bytes
        self.on_malformed = on_malformed
        self.connections: set[KafkaConnection] = set()
        self.loop = asyncio.get_running_loop()
        self._server: asyncio.Server | None = None
        self._closing = False
        self._all_gone = asyncio.Event()

    async def start(self, host: str, port: int) -> None:
        """Bind and listen. Raises OSError."""
        self._server = await self.loop.create_server(
            lambda: KafkaConnection(self), host, port, backlog=1024, reuse_address=True
        )

    async def close(self, timeout_seconds: float) -> None:
        """Take no more connections; what is answered already may leave until the timeout."""
        if self._server is not None:
            self._server.close()
        self._closing = True
        for connection in list(self.connections):
            connection.close()
        if self.connections:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._all_gone.wait(), timeout_seconds)

    def connection_gone(self, connection: KafkaConnection) -> None:
        """A connection is closed."""
        self.connections.discard(connection)
        if self._closing and not self.connections:
            self._all_gone.set()

    @property
    def requests_in_flight(self) -> int:
        """Requests received and not answered yet."""
        return sum(connection.in_flight for connection in self.connections)
