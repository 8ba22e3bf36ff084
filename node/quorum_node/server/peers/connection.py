"""One connection to a peer: connect, negotiate versions, pipeline requests, reconnect.

States: idle → connecting → negotiating → ready → idle. Requests that arrive before it is ready wait for it, each with its own timeout.
The requests are in `request.py`; `pool.py` describes what a failure means.
"""

import asyncio
import math
import ssl
from collections.abc import Callable
from typing import cast

from quorum_node.host_port import HostPort
from quorum_node.protocol.api import Api
from quorum_node.protocol.api_versions import ApiVersionsResponse
from quorum_node.protocol.apis import API_VERSIONS
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.frames import (
    decode_response,
    encode_request,
    response_correlation_id,
)
from quorum_node.raft.events import FailureReason
from quorum_node.schema.primitives import Buffer
from quorum_node.schema.schema import MalformedMessage
from quorum_node.server.ending.fail_stop import is_half_a_step, watch_task
from quorum_node.server.peers.dialling import ClosedEarly, DialInClearText, Dialling, WrongPeer
from quorum_node.server.peers.request import AnyRequest
from quorum_node.server.transport.frame_cutter import FrameCutter
from quorum_node.server.transport.sockets import prepare_socket
from quorum_node.server.wire.rpcs import api_versions_request

_CLEAR_TEXT = DialInClearText()
MAX_RESPONSE_BYTES = 48 << 20
"""In bytes: a fetch answer has up to 8 MiB, or one batch of each partition if those are larger."""
LARGEST_RESPONSE_BYTES = (1 << 31) - 1
"""For brokers: an answer has at least one batch of a producer, whose size `max.message.bytes` and `socket.request.max.bytes` limit, also
those of an Apache Kafka leader. Without it the follower would fetch nothing more from this leader, of no partition.
"""
_NEGOTIATION = 0
"""Correlation id of the ApiVersions request that opens a connection."""
_MAX_BACKOFF_DOUBLINGS = 4
_REPORTED_AFTER = 3
"""A stopping peer may close a connection before its first answer. When this happens repeatedly, it is reported."""


class _Link(asyncio.Protocol):
    """One TCP connection. After it was given up, its late callbacks are ignored."""

    def __init__(self, owner: "PeerConnection", max_response_bytes: int) -> None:
        self._owner = owner
        self._frames = FrameCutter(max_response_bytes)
        self.transport: asyncio.Transport | None = None
        self.wrong: WrongPeer | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        # uvloop's transports are no subclasses of asyncio.Transport.
        self.transport = cast(asyncio.Transport, transport)
        prepare_socket(self.transport)
        self._owner.connected(self)

    def data_received(self, data: bytes) -> None:
        """Called by the loop; cuts frames."""
        frames = self._frames
        frames.feed(data)
        try:
            while (frame := frames.next()) is not None:
                self._owner.frame_received(self, frame)
        except MalformedMessage as error:
            if is_half_a_step(error):
                raise
            self._owner.malformed(error)
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        self._owner.disconnected(self, exc)

    def give_up(self, error: WrongPeer) -> None:
        """The peer is not the expected one: fail the connection attempt."""
        self.wrong = error
        self.abort()

    def abort(self) -> None:
        """Close without sending what is buffered."""
        if self.transport is not None:
            self.transport.abort()


class PeerConnection:
    """See the module. All methods run on the loop's thread."""

    def __init__(
        self,
        host: str,
        port: int,
        client_id: str,
        backoff_ms: int,
        on_malformed: Callable[[str, str], None],
        dialling: Dialling = _CLEAR_TEXT,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
    ) -> None:
        self._host, self._port, self._client_id = host, port, client_id
        self._max_response_bytes = max_response_bytes
        self._backoff_ms = backoff_ms
        self._on_malformed = on_malformed
        self._dialling = dialling
        self.proven_until = math.inf
        """When the peer has to authenticate again, in seconds since 1970."""
        self._is_retiring = False
        self._settled: Callable[[], None] | None = None
        self._loop = asyncio.get_running_loop()
        self._link: _Link | None = None
        self._versions: dict[int, tuple[int, int]] | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._queued: list[AnyRequest] = []
        self._sent: dict[int, tuple[AnyRequest, int]] = {}
        """Requests that were sent, with the version of each."""
        self._timers: dict[AnyRequest, asyncio.TimerHandle] = {}
        self._next_id = _NEGOTIATION + 1
        self._failures = 0
        self._connect_after = 0.0
        self._shut = False

    @property
    def in_flight(self) -> int:
        """Number of requests without an outcome."""
        return len(self._queued) + len(self._sent)

    @property
    def is_ready(self) -> bool:
        """Whether it is connected and the versions are negotiated."""
        return self._versions is not None

    def send(self, request: AnyRequest) -> None:
        """Send now, or as soon as the connection is ready."""
        delay = request.timeout_ms / 1000
        self._timers[request] = self._loop.call_later(delay, self._timed_out, request)
        if self._versions is not None:
            self._write(request)
            return
        self._queued.append(request)
        self._connect_if_idle()

    def warm(self, settled: Callable[[], None] | None = None) -> None:
        """Connect without a request, so that the first one needs no handshake; best effort.

        `settled`: called once, when the connection is ready or the attempt has failed.
        """
        self._settled = settled
        if self._loop.time() >= self._connect_after:
            self._connect_if_idle()

    def _connect_if_idle(self) -> None:
        if self._connecting is None and self._link is None and not self._shut:
            self._connecting = self._loop.create_task(self._connect())
            watch_task(self._connecting)

    def shut(self) -> None:
        """Close for good, without callbacks."""
        self._shut = True
        self._drop(FailureReason.CLOSED)

    def retire(self) -> None:
        """No more requests will be sent: close once everything is answered."""
        self._is_retiring = True
        if not self.in_flight:
            self.shut()

    async def _connect(self) -> None:
        try:
            wait_seconds = self._connect_after - self._loop.time()
            if wait_seconds > 0:
                await asyncio.sleep(wait_seconds)
            dialling = self._dialling
            context = dialling.context
            _, link = await self._loop.create_connection(
                lambda: _Link(self, self._max_response_bytes),
                self._host,
                self._port,
                ssl=context,
                ssl_handshake_timeout=dialling.handshake_timeout_seconds,
            )
            if link.wrong is not None:
                raise link.wrong
        except (
            OSError,
            ValueError,
        ) as error:  # ValueError: an invalid host name, received from a peer
            dialling.failed(self._host, self._port, error)
            self._connecting = None
            self._back_off()
            self._drop(FailureReason.REFUSED)
        else:
            self._connecting = None

    def _back_off(self) -> None:
        doublings = min(self._failures, _MAX_BACKOFF_DOUBLINGS)
        self._failures += 1
        self._connect_after = self._loop.time() + self._backoff_ms * 2**doublings / 1000

    def connected(self, link: _Link) -> None:
        """The connection to the expected peer is established: ask for its versions first."""
        if self._shut or link.transport is None:
            link.abort()
            return
        try:
            self.proven_until = self._dialling.check(link.transport, self._host, self._port)
        except WrongPeer as error:
            link.give_up(error)
            return
        self._link = link
        link.transport.write(
            encode_request(
                API_VERSIONS,
                API_VERSIONS.max_version,
                _NEGOTIATION,
                self._client_id,
                api_versions_request(),
            )
        )

    def disconnected(self, link: _Link, error: Exception | None) -> None:
        """All requests on the connection fail at once."""
        if link is self._link:
            if self._versions is None:
                self._back_off()
                if isinstance(error, ssl.SSLError):
                    self._dialling.failed(self._host, self._port, error)
                elif self._failures >= _REPORTED_AFTER:
                    self._dialling.failed(self._host, self._port, ClosedEarly())
            self._drop(FailureReason.CLOSED)

    def malformed(self, error: MalformedMessage) -> None:
        """The peer sent bytes that are not a valid answer; the connection is closed."""
        self._on_malformed(str(HostPort(self._host, self._port)), str(error))

    def frame_received(self, link: _Link, frame: Buffer) -> None:
        """One response. Raises MalformedMessage."""
        if link is not self._link:
            return
        wire_id = response_correlation_id(frame)
        if self._versions is None:
            if wire_id != _NEGOTIATION:
                raise MalformedMessage(
                    f"correlation id {wire_id} before the versions are negotiated"
                )
            self._negotiated(frame)
            return
        sent = self._sent.get(wire_id)
        if sent is None:
            raise MalformedMessage(f"a response without a request: correlation id {wire_id}")
        request, version = sent
        body = decode_response(request.api, version, frame)
        answer = request.read(body)
        del self._sent[wire_id]
        self._end(request, answer)

    def _negotiated(self, frame: Buffer) -> None:
        version = API_VERSIONS.max_version
        if frame[4:6] == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big"):
            version = 0  # KIP-511: the error is sent in version 0, with the supported versions
        body = decode_response(API_VERSIONS, version, frame)
        assert isinstance(body, ApiVersionsResponse)
        self._versions = {api.api_key: (api.min_version, api.max_version) for api in body.api_keys}
        self._failures = 0
        queued, self._queued = self._queued, []
        for request in queued:
            self._write(request)
        self._settle()

    def _settle(self) -> None:
        settled, self._settled = self._settled, None
        if settled is not None and not self._shut:
            settled()

    def _write(self, request: AnyRequest) -> None:
        api = request.api
        version = self._version_of(api)
        body = None if version is None else request.message(version)
        if version is None or body is None:
            self._loop.call_soon(self._end, request, FailureReason.UNSUPPORTED)
            return
        assert self._link is not None
        assert self._link.transport is not None
        wire_id = self._next_id
        self._next_id = wire_id + 1 if wire_id < 0x7FFFFFFF else _NEGOTIATION + 1
        self._sent[wire_id] = request, version
        frame = encode_request(api, version, wire_id, self._client_id, body)
        self._link.transport.write(frame)

    def _version_of(self, api: Api) -> int | None:
        low, high = (self._versions or {}).get(api.key, (1, 0))
        version = min(high, api.max_version)
        return version if version >= max(low, api.min_version) else None

    def _timed_out(self, request: AnyRequest) -> None:
        """A late answer would delay the next request, so a new connection is opened."""
        del self._timers[request]
        self._drop(FailureReason.TIMEOUT)

    def _drop(self, reason: FailureReason) -> None:
        """Close the connection; every request on it fails with `reason`."""
        link, self._link = self._link, None
        self._versions = None
        if self._connecting is not None and reason is not FailureReason.REFUSED:
            self._connecting.cancel()
            self._connecting = None
        failed = [*(request for request, _ in self._sent.values()), *self._queued]
        self._sent, self._queued = {}, []
        if link is not None:
            link.abort()
        for request in failed:
            self._end(request, reason)
        self._settle()

    def _end(self, request: AnyRequest, outcome: object) -> None:
        timer = self._timers.pop(request, None)
        if timer is not None:
            timer.cancel()
        if not self._shut:
            request.end(outcome)
        if self._is_retiring and not self.in_flight:
            self._loop.call_soon(self.shut)  # other connections may end in the same turn
