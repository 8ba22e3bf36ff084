"""The Kafka listener: bytes of a connection into requests, answers back in order.

One asyncio.Protocol per connection, no task per request. Answers leave a connection in the order
of its requests, as Kafka's clients expect; a parked request holds up its own connection only.
Bytes that are no request close that connection and are counted. What a connection may cost is bounded: see
`connection_book` for connections and bytes, `fair_turns` and `large_reads` for time. Knows framing, not meanings.
"""

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import Callable, Collection
from time import perf_counter
from typing import cast

from quorum_node.configuration.limits import ConnectionLimits
from quorum_node.protocol.frames import (
    Request,
    UnsupportedRequest,
    decode_request,
)
from quorum_node.schema.schema import MalformedMessage
from quorum_node.server.ending.fail_stop import is_half_a_step
from quorum_node.server.listener.acceptor import Acceptor
from quorum_node.server.listener.connection_book import ConnectionBook
from quorum_node.server.listener.fair_turns import FairTurns
from quorum_node.server.listener.large_reads import LARGE_BYTES, LargeReads
from quorum_node.server.listener.port import Handler, InboundRequest
from quorum_node.server.listener.voter_requests import voter_of
from quorum_node.server.observing.metrics import Metrics
from quorum_node.server.observing.request_times import RequestTimes
from quorum_node.server.transport.frame_cutter import FrameCutter
from quorum_node.server.transport.sockets import address_of, bind, prepare_socket

MAX_IN_FLIGHT = 5000
"""Requests of one connection that may wait for answers; beyond it the connection isn't read."""
MAX_IN_FLIGHT_OF_STRANGERS = 256
"""The same for connections that no voter speaks on."""
MAX_QUEUED_BYTES_OF_STRANGERS = 256 << 10
"""Requests of such a connection that wait for answers; one more may be on top of it."""
MAX_FRAMES_PER_TURN = 64
"""Requests of one connection that are handled before others get their turn."""
MAX_ANSWER_BYTES_PER_TURN = 1 << 20
"""Answers of that size end the turn of a connection: its client has to read them first."""
LIGHT_BYTES = 4 << 10
"""Requests of that size are short, if those before them were."""
HEAVY_BYTES = 256 << 10
"""Requests of that size may take long."""
MAX_UNSENT_BYTES = 128 << 20
"""Answers that clients do not read, of all connections; beyond it the one with the most is closed."""
_SWEEP_SECONDS = 1.0


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
        self._read_in_turns = False
        self._collecting = False
        self._closed = False
        self._is_voters = False
        self._was_slow = False
        self._was_short = True
        self._queued_bytes = 0
        self.address = ""
        self.standing = 0
        self.active_at = 0.0
        self.unfinished_since: float | None = None
        self.unfinished_bytes = 0
        self.served_until = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        # uvloop's transports are no subclasses of asyncio.Transport.
        self._transport = cast(asyncio.Transport, transport)
        prepare_socket(self._transport)
        self.address = address_of(self._transport)
        self.active_at = perf_counter()
        self._server.opened(self)

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        self._received = self.active_at = perf_counter()
        self._frames.feed(data)
        if self._turn_scheduled:
            # It sends on while it waits. Most have one request in flight: stopping those costs more than it spares.
            self._pause_reading()
            return
        if self._is_voters:
            self._take_turn()
        elif self._server.turns.may_go_on(self):
            self.take_turn()
        else:
            self._wait_for_turn()

    def take_turn(self) -> None:
        """A turn of a connection that shares the loop's time with others."""
        began = perf_counter()
        self._take_turn()
        seconds = perf_counter() - began
        turns = self._server.turns
        self._was_slow, self._was_short = turns.is_slow(seconds), turns.is_short(seconds)
        self.served_until = turns.spent(self, seconds)

    @property
    def is_heavy(self) -> bool:
        """Whether what waits here may take longer than a turn."""
        return self._was_slow or self._frames.waiting_bytes > HEAVY_BYTES

    @property
    def is_light(self) -> bool:
        """Whether it has but one request, and that one is short."""
        return self._was_short and not self._waiting and self._frames.waiting_bytes <= LIGHT_BYTES

    def _wait_for_turn(self) -> None:
        self._turn_scheduled = True
        self._server.turns.add(self)

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
        self._note_unfinished()
        self.write_ready()
        self._throttle(more)

    def _note_unfinished(self) -> None:
        size_bytes, known = self._frames.unfinished_bytes, self.unfinished_bytes
        if not size_bytes:
            self.unfinished_since = None
        elif self.unfinished_since is None:
            self.unfinished_since = self._received
        if size_bytes != known:
            self.unfinished_bytes = size_bytes
            self._server.book.has_unfinished(self, size_bytes)
            if size_bytes >= LARGE_BYTES and not (self._closed or self._read_in_turns):
                piece_bytes = size_bytes - known if size_bytes > known else size_bytes
                self._server.large_reads.has_read(self, piece_bytes)

    def stop_reading(self) -> None:
        """Its large request has to wait for its next place."""
        self._read_in_turns = True
        self._pause_reading()

    def read_on(self) -> None:
        """The next piece of its large request may come."""
        self._read_in_turns = False
        self._throttle(more=self._frames.has_more)

    def _handle_frames(self) -> bool:
        """Handle whole frames, up to a turn's worth; True if there may be more."""
        server, frames = self._server, self._frames
        handled = answer_bytes = 0
        ends_at = math.inf if self._is_voters else perf_counter() + server.turns.turn_seconds
        limit = MAX_FRAMES_PER_TURN if self._is_voters else server.frames_per_turn
        while not self._closed and (frame := frames.next()) is not None:
            self.unfinished_since = None
            self.standing = 1
            request = decode_request(frame)
            if not self._is_voters:
                self._is_voters = server.is_voters(self, request)
            size_bytes = len(frame)
            inbound = InboundRequest(self, request, self._received, size_bytes)
            self._queued_bytes += size_bytes
            self._waiting.append(inbound)
            server.times.arrived(request)
            server.handler(inbound)
            handled += 1
            if inbound.encoded is not None:
                answer_bytes += sum(map(len, inbound.encoded))
            if not frames.has_more:
                break
            if handled >= limit or answer_bytes > MAX_ANSWER_BYTES_PER_TURN:
                return True
            if perf_counter() > ends_at or self._queued_bytes > MAX_QUEUED_BYTES_OF_STRANGERS:
                return True
        return False

    def _throttle(self, more: bool) -> None:
        """Read only from a peer that reads, has little in flight, and waits for its turn."""
        if self._transport is None or self._closed:
            return
        limit = MAX_IN_FLIGHT if self._is_voters else MAX_IN_FLIGHT_OF_STRANGERS
        blocked = self._writing_paused or self._read_in_turns or len(self._waiting) > limit
        if self._queued_bytes > MAX_QUEUED_BYTES_OF_STRANGERS and not self._is_voters:
            blocked = True
        if more and not blocked and not self._turn_scheduled:
            self._turn_scheduled = True
            if self._is_voters:
                self._server.loop.call_soon(self._take_turn)
            else:
                self._server.turns.add(self)
        if blocked or more:
            self._pause_reading()
        elif self._reading_paused:
            self._transport.resume_reading()
            self._reading_paused = False

    def _pause_reading(self) -> None:
        if not self._reading_paused and self._transport is not None:
            self._transport.pause_reading()
            self._reading_paused = True

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
            self._queued_bytes -= done.size_bytes
            left(done.request.api, done.received, done.started, done.answered, now)
        if self._transport is not None and not self._closed:
            self.active_at = now
            self._transport.write(b"".join(parts))
        if self._reading_paused and not self._turn_scheduled:
            self._throttle(more=self._frames.has_more)

    def pause_writing(self) -> None:
        """Called by the loop: the peer doesn't read its answers, so don't read its requests."""
        self._writing_paused = True
        self._throttle(more=False)
        self._server.check_unsent()

    def resume_writing(self) -> None:
        """Called by the loop."""
        self._writing_paused = False
        self._throttle(more=self._frames.has_more)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop: nobody waits for these answers any more."""
        self._closed = True
        self._server.connection_gone(self)
        waiting, self._waiting = self._waiting, deque()
        self._queued_bytes = 0
        for inbound in waiting:
            inbound.abandon()

    def close(self) -> None:
        """Stop reading; answers already written still leave."""
        self._closed = True
        if self._transport is not None:
            self._transport.close()

    def drop(self, why: str) -> None:
        """Close at once, with what was not sent."""
        self._closed = True
        self._frames.clear()
        if self._transport is not None:
            self._transport.abort()

    @property
    def in_flight(self) -> int:
        """Requests that wait for their answer."""
        return len(self._waiting)

    @property
    def unsent_bytes(self) -> int:
        """Answers that the other side has not taken yet."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    @property
    def peer_host(self) -> str:
        """Address of the other side."""
        return self.address

    def _refuse(self, why: str, error: MalformedMessage) -> None:
        self._server.metrics.count_labelled("malformed_requests", "controller")
        self._server.on_malformed(why, str(error), self._peer_name())
        self._frames.clear()
        self.close()

    def _peer_name(self) -> str:
        peer = self._transport.get_extra_info("peername") if self._transport else None
        return f"{peer[0]}:{peer[1]}" if peer else "unknown"


class KafkaListener:
    """One listening socket, its connections and its limits.

    `voter_ids`: ids of the latest voters, whose connections do not give way to others.
    """

    def __init__(
        self,
        handler: Handler,
        metrics: Metrics,
        max_request_bytes: int,
        on_malformed: Callable[[str, str, str], None],
        limits: ConnectionLimits | None = None,
        voter_ids: Callable[[], Collection[int]] = tuple,
    ) -> None:
        self.handler = handler
        self.metrics = metrics
        self.times = RequestTimes(metrics)
        self.max_request_bytes = max_request_bytes
        self.on_malformed = on_malformed
        self.limits = limits or ConnectionLimits()
        self.connections: set[KafkaConnection] = set()
        self.loop = asyncio.get_running_loop()
        self.turns = FairTurns(self.loop)
        self.large_reads = LargeReads(self.loop)
        self.book = ConnectionBook(self.limits, perf_counter, self._count_closed)
        self._voter_ids = voter_ids
        self._acceptor: Acceptor | None = None
        self._sweeping: asyncio.TimerHandle | None = None
        self._closing = False
        self._all_gone = asyncio.Event()

    async def start(self, host: str, port: int) -> None:
        """Bind and listen. Raises OSError."""
        self._acceptor = Acceptor(
            bind(host, port),
            lambda: KafkaConnection(self),
            self.limits.creation_rate,
            lambda error: self._count_closed("accept"),
        )
        self._acceptor.start()
        self._sweep()

    async def close(self, timeout_seconds: float) -> None:
        """Take no more connections; what is answered already may leave until the timeout."""
        if self._acceptor is not None:
            self._acceptor.close()
        if self._sweeping is not None:
            self._sweeping.cancel()
        self._closing = True
        for connection in list(self.connections):
            connection.close()
        if self.connections:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._all_gone.wait(), timeout_seconds)

    def opened(self, connection: KafkaConnection) -> None:
        """A connection is there."""
        self.connections.add(connection)
        self.book.opened(connection)

    def connection_gone(self, connection: KafkaConnection) -> None:
        """A connection is closed."""
        self.book.lost(connection)
        self.connections.discard(connection)
        if self._closing and not self.connections:
            self._all_gone.set()

    def is_voters(self, connection: KafkaConnection, request: Request) -> bool:
        """Whether a voter sends this request, as it says: nobody has to prove it on this listener."""
        sender = voter_of(request.body)
        if sender is None or sender not in self._voter_ids():
            return False
        return self.book.belongs_to_voter(connection, sender)

    @property
    def frames_per_turn(self) -> int:
        """Fewer while others wait."""
        return MAX_FRAMES_PER_TURN // 8 if self.turns.waiting else MAX_FRAMES_PER_TURN

    def check_unsent(self) -> None:
        """Close the connection with the most unread answers while there are too many in all."""
        while True:
            sizes = {each: each.unsent_bytes for each in self.connections}
            if sum(sizes.values()) <= MAX_UNSENT_BYTES:
                return
            most = max(sizes, key=lambda each: (not self.book.is_voters(each), sizes[each]))
            self._count_closed("unsent")
            self.connection_gone(most)
            most.drop("unsent")

    @property
    def requests_in_flight(self) -> int:
        """Requests received and not answered yet."""
        return sum(connection.in_flight for connection in self.connections)

    def _sweep(self) -> None:
        self._sweeping = self.loop.call_later(_SWEEP_SECONDS, self._sweep)
        self.book.sweep()

    def _count_closed(self, why: str) -> None:
        self.metrics.count_labelled("connections_closed", f"controller {why}")
