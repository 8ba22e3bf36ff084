"""Connections to other replicas: sends requests and reports responses or failures, without ever waiting.

One pool serves all partitions of the process. Requests of several partitions to one peer in one turn of the loop are sent as one request,
and the answer is split again. With a single partition, nothing waits for the end of the turn (K595-31).

Requests that may be parked have connections of their own, so that a vote never queues behind a parked fetch, a read that waits for its
confirmation, or an answer of the active controller after a commit. So have the requests of clients that a broker forwards. A fetch (or
read) of one partition does not queue behind another one either: it uses an idle connection, and there are at most as many as partitions.

Every send ends in exactly one callback: a response, a failure (at once when the connection is refused or closed), or a timeout. A closed
connection indicates that a leader has stopped, so it must be reported at once, and must be distinguishable from a timeout. Handles endpoints,
not replicas.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable, Hashable
from enum import Enum
from functools import partial
from time import perf_counter

from quorum_node.protocol.api import Api
from quorum_node.protocol.apis import ENVELOPE
from quorum_node.protocol.broker_apis import DATA_FETCH
from quorum_node.raft.errors import RaftError
from quorum_node.raft.events import FailureReason
from quorum_node.raft.messages import (
    FetchRequest,
    FetchSnapshotRequest,
    OutboundRequest,
    ReadOffsetRequest,
)
from quorum_node.records.identity import Endpoint
from quorum_node.schema.schema import Message
from quorum_node.server.observing.metrics import Metrics
from quorum_node.server.peers.connection import MAX_RESPONSE_BYTES, PeerConnection
from quorum_node.server.peers.dialling import DialInClearText, Dialling
from quorum_node.server.peers.port import PeerListener
from quorum_node.server.peers.request import (
    AnyRequest,
    NodeRequest,
    Outcomes,
    PartRequest,
    ReplicaRequest,
)
from quorum_node.server.wire.rpcs import rpc_of


class Channel(Enum):
    """The purpose of a connection."""

    FETCH = "fetch"
    READ = "read"
    CONTROL = "control"
    CONTROLLER = "controller"
    FORWARDED = "forwarded"


_APART: dict[type, Channel] = {
    FetchRequest: Channel.FETCH,
    FetchSnapshotRequest: Channel.FETCH,
    ReadOffsetRequest: Channel.READ,
}
_ASKED_APART = {DATA_FETCH: Channel.FETCH, ENVELOPE: Channel.FORWARDED}
"""A node answers the requests of a connection in their order, and a stock one does not read the next one before.

So a fetch without records, which its leader parks, would delay the verification of transactions. Many forwarded requests of clients would
delay the heartbeats of the broker, until it is fenced.
"""

MAX_OLD_USE_SECONDS = 5.0
"""How long a connection with an earlier certificate is used at most while its successor is being opened."""
RENEWAL_PAUSE_SECONDS = 0.1
"""Between two handshakes of a renewal."""

_Key = tuple[str, int, Channel]

_ONE_CONNECTION = (Channel.CONTROL, Channel.CONTROLLER, Channel.FORWARDED)
"""Requests that do not belong to one partition."""


def channel_of(request: OutboundRequest) -> Channel:
    """The channel of a request: requests that may be parked at the peer, or are large, have channels of their own."""
    return _APART.get(type(request), Channel.CONTROL)


class PeerPool:
    """All connections of this node to other replicas."""

    def __init__(
        self,
        client_id: str,
        metrics: Metrics,
        *,
        partitions: int,
        reconnect_backoff_ms: int,
        on_malformed: Callable[[str, str], None],
        dialling: Dialling | None = None,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
    ) -> None:
        self._max_response_bytes = max_response_bytes
        self._client_id = client_id
        self._metrics = metrics
        self._partitions = partitions
        self._reconnect_backoff_ms = reconnect_backoff_ms
        self._on_malformed = on_malformed
        self._dialling = dialling or DialInClearText()
        self._loop = asyncio.get_running_loop()
        self._listeners: dict[int, PeerListener] = {}
        self._connections: dict[_Key, list[PeerConnection]] = {}
        self._gathered: dict[Hashable, tuple[Endpoint, list[PartRequest], float]] = {}
        self._outdated: deque[tuple[_Key, PeerConnection]] = deque()
        """Connections that are used until their successors are ready; the first one's is being opened."""
        self._successor: PeerConnection | None = None
        self._closed = False

    def attach(self, partition: int, listener: PeerListener) -> None:
        """Register the replica of a partition for the outcomes of its sends."""
        self._listeners[partition] = listener

    def send(
        self,
        partition: int,
        correlation: int,
        destination: Endpoint,
        request: OutboundRequest,
        timeout_ms: float,
    ) -> None:
        """Send a request. Exactly one callback with this correlation follows, never before this returns."""
        part = PartRequest(partition, correlation, request)
        shared = None if self._partitions == 1 else rpc_of(request).shared_fields(request)
        if shared is None:
            self._send_now(destination, [part], timeout_ms)
            return
        if not self._gathered:
            self._loop.call_soon(self._send_gathered)
        key = (destination.host, destination.port, timeout_ms, shared)
        parts = self._gathered.setdefault(key, (destination, [], timeout_ms))[1]
        if any(other.partition == partition for other in parts):
            # A message can contain each partition only once.
            self._send_now(destination, [part], timeout_ms)
        else:
            parts.append(part)

    def ask(
        self,
        destination: Endpoint,
        api: Api,
        body: Message,
        done: Callable[[Message | FailureReason], None],
        *,
        timeout_ms: float,
    ) -> None:
        """Send a request to the node at an endpoint, not to a replica. `done` is called once, never before this returns."""

        def ended(request: NodeRequest, outcome: Message | FailureReason) -> None:
            self._count_end(request)
            if isinstance(outcome, FailureReason):
                self._count_failure(request, outcome)
            if not self._closed:
                done(outcome)

        address = (destination.host, destination.port)
        request = NodeRequest(api, body, timeout_ms, address, ended)
        self._count_start(request, parts=1)
        self._idlest(destination, _ASKED_APART.get(api, Channel.CONTROLLER)).send(request)

    def warm(self, destination: Endpoint) -> None:
        """Open the connections that an election needs, unless they are open, so that no handshake delays a new leader.

        Votes use the control connection, and the first record of a new leader uses the one for fetches.
        """
        for channel in (Channel.CONTROL, Channel.FETCH):
            open_ones = self._connections.get((destination.host, destination.port, channel))
            connection = open_ones[0] if open_ones else self._idlest(destination, channel)
            connection.warm()

    @property
    def in_flight(self) -> int:
        """Number of requests without an answer."""
        sent = sum(each.in_flight for pool in self._connections.values() for each in pool)
        return sent + len(self._gathered)

    @property
    def renewing(self) -> int:
        """Number of connections that are used until their successors are ready."""
        return len(self._outdated)

    def ready_connections(self, destination: Endpoint) -> int:
        """Number of connections that are ready, of all channels."""
        address = (destination.host, destination.port)
        return sum(
            connection.is_ready
            for (host, port, _), pool in self._connections.items()
            if (host, port) == address
            for connection in pool
        )

    def connected_addresses(self) -> set[tuple[str, int]]:
        """Addresses with a connection that is ready."""
        return {
            (host, port)
            for (host, port, _), pool in self._connections.items()
            if any(connection.is_ready for connection in pool)
        }

    def close(self) -> None:
        """Close all connections without callbacks."""
        self._closed = True
        self._gathered.clear()
        self._forget_successor()
        for pool in self._connections.values():
            for connection in pool:
                connection.shut()
        self._connections.clear()

    def renew(self, *, proven_before: float = math.inf) -> None:
        """Replace the connections whose peers are authenticated until `proven_before` at most, in seconds since 1970.

        The old ones are closed when everything on them is answered. By default all are replaced: this node's certificate, or its trusted
        authorities, have changed. Each then is used until its successor is ready, so that no request waits for a handshake; and they are
        replaced one by one with pauses, so that the handshakes do not add up.
        """
        everything = [(key, each) for key, pool in self._connections.items() for each in pool]
        if proven_before == math.inf:
            self._forget_successor()
            self._outdated = deque(everything)
            self._renew_first()
            return
        for key, each in everything:
            if each.proven_until <= proven_before:
                self._replace(key, each)

    def _renew_first(self) -> None:
        while self._outdated:
            key, old = self._outdated[0]
            if old.is_ready and old in self._connections.get(key, ()):
                host, port, _ = key
                self._successor = fresh = self._made(host, port)
                settled = partial(self._settled, fresh)
                self._loop.call_later(MAX_OLD_USE_SECONDS, settled)
                fresh.warm(settled)
                return
            self._outdated.popleft()
            self._replace(key, old)

    def _settled(self, fresh: PeerConnection) -> None:
        """It is ready, or the attempt has failed, or takes too long."""
        if self._successor is fresh:
            self._successor = None
            key, old = self._outdated.popleft()
            if old in self._connections.get(key, ()):
                self._replace(key, old, fresh)
            else:
                fresh.shut()
            self._loop.call_later(RENEWAL_PAUSE_SECONDS, self._renew_next)

    def _renew_next(self) -> None:
        if self._successor is None:  # else there was another renewal in the meantime
            self._renew_first()

    def _forget_successor(self) -> None:
        self._outdated.clear()
        if self._successor is not None:
            self._successor.shut()
            self._successor = None

    def _replace(self, key: _Key, old: PeerConnection, fresh: PeerConnection | None = None) -> None:
        """Without a successor the next request opens a new connection."""
        host, port, channel = key
        self._connections[key] = [each for each in self._connections.get(key, ()) if each != old]
        if fresh is not None:
            self._connections[key].append(fresh)
        elif channel in _ONE_CONNECTION and old.is_ready:
            self._idlest(Endpoint("", host, port), channel).warm()
        old.retire()

    def _send_gathered(self) -> None:
        gathered, self._gathered = self._gathered, {}
        for destination, parts, timeout_ms in gathered.values():
            self._send_now(destination, parts, timeout_ms)

    def _send_now(self, destination: Endpoint, parts: list[PartRequest], timeout_ms: float) -> None:
        address = (destination.host, destination.port)
        request = ReplicaRequest(parts, timeout_ms, address, self._ended)
        self._count_start(request, len(parts))
        self._idlest(destination, channel_of(parts[0].request)).send(request)

    def _idlest(self, destination: Endpoint, channel: Channel) -> PeerConnection:
        """A connection without a request, a new one if allowed, or the one with the fewest requests."""
        key = (destination.host, destination.port, channel)
        pool = self._connections.setdefault(key, [])
        limit = 1 if channel in _ONE_CONNECTION else self._partitions
        best = min(pool, key=lambda each: each.in_flight, default=None)
        if best is None or (best.in_flight and len(pool) < limit):
            best = self._made(destination.host, destination.port)
            pool.append(best)
        return best

    def _made(self, host: str, port: int) -> PeerConnection:
        return PeerConnection(
            host,
            port,
            self._client_id,
            self._reconnect_backoff_ms,
            self._on_malformed,
            self._dialling,
            self._max_response_bytes,
        )

    def _ended(self, request: ReplicaRequest, outcome: Outcomes | FailureReason) -> None:
        self._count_end(request)
        for index, part in enumerate(request.parts):
            if self._closed:
                return
            listener = self._listeners[part.partition]
            if isinstance(outcome, FailureReason):
                self._count_failure(request, outcome)
                listener.request_failed(part.correlation, outcome)
                continue
            response = outcome[index]
            if response.error is not RaftError.NONE:
                self._metrics.count_labelled("error_responses", request.address)
            listener.response_received(part.correlation, response)

    def _count_start(self, request: AnyRequest, parts: int) -> None:
        self._metrics.count_labelled("peer_requests", request.api.name)
        self._metrics.count_labelled("peer_request_parts", request.api.name, parts)
        self._metrics.count_labelled("outbound_requests", request.address)

    def _count_end(self, request: AnyRequest) -> None:
        seconds = perf_counter() - request.sent_at
        self._metrics.durations_of("peer_request_time_seconds", request.api.name).add(seconds)

    def _count_failure(self, request: AnyRequest, reason: FailureReason) -> None:
        self._metrics.count_labelled("peer_failures", reason.value)
        self._metrics.count_labelled("error_responses", request.address)
