"""One connection of Kafka's protocol: bytes into requests, answers back in order.

One asyncio.Protocol per connection, no task per request. Answers are sent in the order of the requests, as Kafka's clients expect; a
parked request delays only its own connection. Invalid bytes close the connection and are counted. Knows framing, not the meaning of
requests, and not the settings of a listener.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from time import perf_counter
from typing import Protocol

from quorum_node.protocol.frames import Request, UnsupportedRequest
from quorum_node.schema.encoder import FieldNotInVersion
from quorum_node.schema.primitives import Buffer
from quorum_node.schema.schema import MalformedMessage
from quorum_node.security.caller import ANONYMOUS, Caller
from quorum_node.server.ending.fail_stop import is_half_a_step
from quorum_node.server.listener import connection_limits as limits
from quorum_node.server.listener.claimed_voters import ClaimedVoters
from quorum_node.server.listener.connection_book import ConnectionBook
from quorum_node.server.listener.fair_turns import FairTurns
from quorum_node.server.listener.large_messages import LargeMessages, may_take_long
from quorum_node.server.listener.large_reads import LARGE_BYTES, LargeReads
from quorum_node.server.listener.logins import Logins
from quorum_node.server.listener.port import Handler, InboundRequest
from quorum_node.server.listener.port_authentication import (
    NOT_YET,
    PeerIdentity,
    PortAuthentication,
)
from quorum_node.server.listener.principal_shares import Share, is_anonymous
from quorum_node.server.observing.request_times import RequestTimes
from quorum_node.server.pieces import is_done
from quorum_node.server.rights.port import Decided
from quorum_node.server.transport.frame_cutter import FrameCutter
from quorum_node.server.transport.sliced_transport import SlicedTransport, in_slices
from quorum_node.server.transport.sockets import address_of, peer_name, prepare_socket


class ConnectionOwner(Protocol):
    """The listener of a connection."""

    authentication: PortAuthentication
    handler: Handler
    decode: Callable[[Buffer], Request]
    times: RequestTimes
    max_request_bytes: int
    loop: asyncio.AbstractEventLoop
    turns: FairTurns
    claimed: ClaimedVoters
    large_reads: LargeReads
    large_messages: LargeMessages
    book: ConnectionBook
    logins: Logins | None

    @property
    def frames_per_turn(self) -> int:
        """Requests that are handled before other connections get their turn."""

    def opened(self, connection: "KafkaConnection") -> None:
        """A connection was opened."""

    def connection_gone(self, connection: "KafkaConnection") -> None:
        """A connection was closed."""

    def share_of(self, caller: Caller) -> Share:
        """The usage that all connections of the principal share."""

    def is_voters(self, connection: "KafkaConnection", request: Request) -> bool:
        """Whether a voter sends this request, to the listener's knowledge."""

    def check_unsent(self) -> None:
        """Called when a client does not read its answers."""

    def malformed(self, why: str, error: MalformedMessage, peer: str) -> None:
        """A connection sent invalid bytes."""


class KafkaConnection(asyncio.Protocol):
    """The connection of one client or peer."""

    def __init__(self, server: ConnectionOwner) -> None:
        self._server = server
        self._transport: asyncio.Transport | SlicedTransport | None = None
        self._frames = FrameCutter(server.max_request_bytes)
        self._received = 0.0
        self._waiting: deque[InboundRequest] = deque()
        self._reading_paused = False
        self._writing_paused = False
        self._turn_scheduled = False
        self._read_in_turns = False
        self._collecting = False
        self._is_decoding = False
        self._work: Iterator[object] | None = None
        self._closed = False
        self._is_voters = False
        self._was_slow = False
        self._was_short = True
        self._queued_bytes = self._held_bytes = 0
        self.address = ""
        self.identity: PeerIdentity = NOT_YET
        self.caller = NOT_YET.caller
        self.decided: Decided = {}
        self._decode = server.decode
        self._handler = server.handler
        self._standing_of_client = 1
        self._is_retiring = False
        self.standing = 0
        self.active_at = 0.0
        self.unfinished_since: float | None = None
        self.unfinished_bytes = 0
        self._share = server.share_of(ANONYMOUS)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = in_slices(transport, self._server.loop, self._server.large_reads)
        prepare_socket(transport)
        self.address = address_of(transport)
        identity = self._server.authentication.authenticate(transport, self.address)
        if identity is None:
            self.drop("certificate")
            return
        self.identity, self.caller = identity, identity.caller
        self.active_at = perf_counter()
        if self._server.logins is not None:
            self._await_login(self._server.logins)
        self._server.opened(self)
        self._is_of(self.caller)

    def _is_of(self, caller: Caller) -> None:
        """Set the principal, whose connections are counted together. An anonymous caller has a separate share for each connection."""
        if is_anonymous(caller) or self._closed:
            return
        self._share.answered(len(self._waiting))
        self._share = self._server.share_of(caller)
        self._share.received(len(self._waiting))
        self._server.book.identified(self, caller.principal)

    @property
    def _is_proven(self) -> bool:
        """Whether a certificate proves that it is a voter's. In clear text voters are claimed, so their costs are limited like those of others."""
        return self._is_voters and self._server.authentication.binds_ids

    @property
    def served_until(self) -> float:
        """See `fair_turns.Worker`: the virtual clock of its principal."""
        return self._share.served_until

    def may_read_again(self) -> None:
        """See `principal_shares.Reader`."""
        self._throttle(more=self._frames.has_more)

    def _await_login(self, logins: Logins) -> None:
        login = logins.begin(self)
        self._decode, self._handler = login.decode, login.handle
        self._frames.allow(login.max_request_bytes)
        self._standing_of_client = 0

    def logged_in(self, caller: Caller) -> None:
        """See `logins.LoginConnection`."""
        self.caller, self.decided = caller, {}
        self._decode = self._server.decode
        self._frames.allow(self._server.max_request_bytes)
        self._standing_of_client = 2
        self._is_of(caller)

    def unwatched(self, handler: Handler) -> None:
        """See `logins.LoginConnection`."""
        self._handler = handler

    def end_after_answers(self) -> None:
        """See `logins.LoginConnection`."""
        self._frames.clear()
        self.retire()

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        self._received = self.active_at = perf_counter()
        self._frames.feed(data)
        if self._turn_scheduled or self._is_decoding or self._work is not None:
            # The client may send more while it waits. Most have one request in flight: pausing those costs more than it saves.
            self._pause_reading()
            return
        if self._is_proven:
            self._take_turn()
        elif self._is_voters and self._server.claimed.may_go_on(self._frames.waiting_bytes):
            self._server.claimed.do(self._take_turn)
        elif self._server.turns.may_go_on(self):
            self.take_turn()
        else:
            self._wait_for_turn()

    def take_turn(self) -> None:
        """Work of a connection that shares the loop's time with others."""
        share, turns = self._share, self._server.turns
        # What has begun goes on: otherwise its own request, unanswered, might use the share up for ever.
        if share.is_used_up and self._work is None:
            self._turn_scheduled = False
            self._throttle(more=True)
            return
        began = perf_counter()
        self._take_turn()
        seconds = perf_counter() - began
        self._was_slow = seconds > turns.slow_seconds
        self._was_short = seconds < turns.short_seconds
        share = self._share  # another one after a login
        share.spent(seconds)
        share.move_to(turns.spent(share.served_until, seconds))

    @property
    def is_heavy(self) -> bool:
        """Whether the waiting requests may take longer than a turn. A piece of work never does."""
        if self._work is not None:
            return False
        # A voter's request is slow only if the machine is.
        was_slow = self._was_slow and not self._is_voters
        return was_slow or self._frames.waiting_bytes > limits.HEAVY_BYTES

    @property
    def is_light(self) -> bool:
        """Whether it has exactly one request, and that one is short."""
        return (
            self._was_short
            and not self._waiting
            and self._frames.waiting_bytes <= limits.LIGHT_BYTES
        )

    def _wait_for_turn(self) -> None:
        self._turn_scheduled = True
        self._server.turns.add(self)

    def _take_turn(self) -> None:
        """Handle some complete frames. If there are more than for one turn, the connection is queued again."""
        self._turn_scheduled = False
        if not self._closed:
            self._handle_and_answer(self._handle_frames)

    def _handle_and_answer(self, handle: Callable[[], bool]) -> None:
        self._collecting = True
        try:
            more = handle()
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
                is_encrypted = isinstance(self._transport, SlicedTransport)
                self._server.large_reads.has_read(self, piece_bytes, is_encrypted=is_encrypted)

    def stop_reading(self) -> None:
        """The next piece of its large request has to wait for its turn."""
        self._read_in_turns = True
        self._pause_reading()

    def read_on(self) -> None:
        """Read the next piece of its large request."""
        self._read_in_turns = False
        self._throttle(more=self._frames.has_more)

    def _handle_frames(self) -> bool:
        """Handle complete frames, up to a turn's worth; True if there may be more."""
        if self._go_on():
            return True
        server, frames = self._server, self._frames
        handled = answer_bytes = 0
        limit, ends_at = limits.MAX_FRAMES_PER_TURN, math.inf
        while not self._closed and (frame := frames.next()) is not None:
            self.unfinished_since = None
            self.standing = self._standing_of_client
            if not self._is_proven and may_take_long(frame, of_voter=self._is_voters):
                self._decode_on_thread(frame)
                return frames.has_more
            inbound = self._handle(self._decode(frame), len(frame))
            handled += 1
            if self._work is not None:
                return True
            answer_bytes += inbound.answer_bytes
            if not frames.has_more:
                break
            if handled == 1 and not self._is_proven:
                limit = server.frames_per_turn
                ends_at = inbound.started + server.turns.turn_seconds
            if handled >= limit or answer_bytes > limits.MAX_ANSWER_BYTES_PER_TURN:
                return True
            if perf_counter() > ends_at or self._queued_bytes > limits.MAX_QUEUED_BYTES_OF_CLIENTS:
                return True
        return False

    def _handle(
        self, request: Request, size_bytes: int, *, takes_long: bool = False
    ) -> InboundRequest:
        if not self._is_voters:
            self._is_voters = self._server.is_voters(self, request)
        thread = self._server.large_messages
        inbound = InboundRequest(
            self, request, self._received, size_bytes, thread, takes_long=takes_long
        )
        self._queued_bytes += size_bytes
        self._waiting.append(inbound)
        self._share.received(1)
        self._server.times.arrived(request)
        inbound.pass_to(self._handler)
        return inbound

    def _decode_on_thread(self, frame: Buffer) -> None:
        """Until it is decoded, the requests after it wait."""
        self._is_decoding = True
        decode, size_bytes = self._decode, len(frame)

        def done(made: "Future[Request]", seconds: float) -> None:
            self._is_decoding = False
            self.spent(seconds)
            if not self._closed:
                self._handle_and_answer(lambda: self._handle_decoded(made, size_bytes))

        self._server.large_messages.run(self._share, lambda: decode(frame), done)

    def _handle_decoded(self, made: "Future[Request]", size_bytes: int) -> bool:
        began = perf_counter()
        self._handle(made.result(), size_bytes, takes_long=True)
        self.spent(perf_counter() - began)
        return self._work is not None or self._frames.has_more

    def in_pieces(self, work: Iterator[object]) -> None:
        """See `Answering`. The first piece is done at once, the others in turns of this connection."""
        assert self._collecting, "only while a request is handled"
        self._work = work
        self._go_on()

    def _go_on(self) -> bool:
        """Do a piece of the work for the latest request; True if there is more."""
        if self._work is not None and is_done(self._work, self._server.turns.turn_seconds):
            self._work = None
        return self._work is not None

    @property
    def owner(self) -> Share:
        """See `Answering`."""
        return self._share

    def spent(self, seconds: float) -> None:
        """See `Answering`."""
        self._share.spent(seconds)
        self._share.move_to(self._share.served_until + seconds)

    def _throttle(self, more: bool) -> None:
        """Read only from a client that reads its answers, has few requests in flight, and is not waiting for its turn."""
        if self._transport is None or self._closed:
            return
        limit = limits.MAX_IN_FLIGHT if self._is_proven else limits.MAX_IN_FLIGHT_OF_CLIENTS
        blocked = self._writing_paused or self._read_in_turns or len(self._waiting) > limit
        blocked = blocked or self._is_decoding
        is_working = self._work is not None
        if self._is_retiring:
            blocked = True
            if not self.in_flight:
                self.close()
                return
        if not self._is_proven:
            blocked = blocked or self._queued_bytes > limits.MAX_QUEUED_BYTES_OF_CLIENTS
            blocked = blocked or self._held_bytes > limits.MAX_HELD_BYTES
            if self._share.is_used_up:
                self._share.wait(self)
                blocked = True
        if (is_working or (more and not blocked)) and not self._turn_scheduled:
            self._turn_scheduled = True
            if self._is_proven:
                self._server.loop.call_soon(self._take_turn)
            else:
                self._server.turns.add(self)
        if blocked or more or is_working:
            self._pause_reading()
        elif self._reading_paused:
            self._transport.resume_reading()
            self._reading_paused = False

    def _pause_reading(self) -> None:
        if not self._reading_paused and self._transport is not None:
            self._transport.pause_reading()
            self._reading_paused = True

    def write_ready(self, added_bytes: int = 0) -> None:
        """Write all answers that are next in order, as one write."""
        waiting = self._waiting
        self._held_bytes += added_bytes
        # During a turn, answers are collected.
        if self._collecting or not waiting or waiting[0].encoded is None:
            if self._held_bytes > limits.MAX_HELD_BYTES and not self._collecting:
                self._server.check_unsent()
            return
        parts: list[bytes | memoryview] = []
        now, left, before = perf_counter(), self._server.times.left, len(waiting)
        ends = False
        while waiting and not ends and (encoded := waiting[0].encoded) is not None:
            parts += encoded
            done = waiting.popleft()
            ends = done.ends_connection
            self._queued_bytes -= done.size_bytes
            self._held_bytes -= done.answer_bytes
            left(done.request.api, done.received, done.started, done.answered, now)
        self._share.answered(before - len(waiting))
        if self._transport is not None and not self._closed:
            self.active_at = now
            if sum(map(len, parts)) <= limits.JOINED_BYTES:
                self._transport.write(b"".join(parts))
            else:
                self._transport.writelines(parts)
        if ends:
            self.close()
        elif self._reading_paused and not self._turn_scheduled:
            self._throttle(more=self._frames.has_more)

    def retire(self) -> None:
        """Accept no more requests. Close when the received ones are answered, or after a timeout."""
        if self._is_retiring or self._closed:
            return
        self._is_retiring = True
        self.identity = NOT_YET  # a closing connection is not authenticated again
        self._server.loop.call_later(limits.RETIRED_AFTER_SECONDS, self.drop, "retired")
        self._throttle(more=False)

    def pause_writing(self) -> None:
        """Called by the loop: the client does not read its answers, so its requests are not read."""
        self._writing_paused = True
        self._throttle(more=False)
        self._server.check_unsent()

    def resume_writing(self) -> None:
        """Called by the loop."""
        self._writing_paused = False
        self._throttle(more=self._frames.has_more)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop: the answers in flight are not needed any more."""
        self._closed = True
        self._work = None
        self._server.connection_gone(self)
        waiting, self._waiting = self._waiting, deque()
        self._queued_bytes = self._held_bytes = 0
        self._share.answered(len(waiting))
        for inbound in waiting:
            inbound.abandon()

    def close(self) -> None:
        """Stop reading; answers that are written already are still sent."""
        self._closed = True
        if self._transport is not None:
            self._transport.close()

    def drop(self, why: str) -> None:
        """Close at once; unsent bytes are dropped."""
        self._closed = True
        self._frames.clear()
        if self._transport is not None:
            self._transport.abort()

    @property
    def in_flight(self) -> int:
        """Number of unanswered requests."""
        return len(self._waiting) + self._is_decoding

    @property
    def unsent_bytes(self) -> int:
        """Bytes of answers that the other side has not received yet."""
        transport = self._transport
        return self._held_bytes + (0 if transport is None else transport.get_write_buffer_size())

    def unencodable(self, request: Request, error: FieldNotInVersion) -> None:
        """See `Answering`."""
        text = f"{request.api.name} version {request.version}: the answer can't be encoded, a bug of this node: {error}"
        self._server.malformed("unanswered", MalformedMessage(text), peer_name(self._transport))

    def _refuse(self, why: str, error: MalformedMessage) -> None:
        self._server.malformed(why, error, peer_name(self._transport))
        self._frames.clear()
        self.close()
