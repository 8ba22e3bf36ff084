"""Connections to other replicas: requests out, responses or failures back, never a wait.

Two connections per peer, so that a vote never queues behind a parked fetch. Every send ends in
exactly one callback: a response, or at once a failure when the connection is refused or closed, or
a timeout. A closed connection is the hint that a leader is gone, so it must be told at once, and a
timeout must never look like one. Knows endpoints, not replicas.
"""

from collections.abc import Callable
from enum import Enum
from time import perf_counter
from typing import Protocol

from quorum_node.raft.errors import RaftError
from quorum_node.raft.events import FailureReason
from quorum_node.raft.messages import FetchRequest, InboundResponse, OutboundRequest
from quorum_node.records.identity import Endpoint
from quorum_node.server.metrics import Metrics
from quorum_node.server.peer_connection import PeerConnection, PeerRequest


class PeerListener(Protocol):
    """Who is told how a send ended."""

    def response_received(self, correlation: int, response: InboundResponse) -> None:
        """The peer answered."""

    def request_failed(self, correlation: int, reason: FailureReason) -> None:
        """There will be no answer."""


class Channel(Enum):
    """What a connection is for."""

    FETCH = "fetch"
    CONTROL = "control"


class PeerPool:
    """All connections of this node to other replicas."""

    def __init__(
        self,
        client_id: str,
        listener: PeerListener,
        metrics: Metrics,
        *,
        reconnect_backoff_ms: int,
        on_malformed: Callable[[str, str], None],
    ) -> None:
        self._client_id = client_id
        self._listener = listener
        self._metrics = metrics
        self._reconnect_backoff_ms = reconnect_backoff_ms
        self._on_malformed = on_malformed
        self._connections: dict[tuple[str, int, Channel], PeerConnection] = {}

    def send(
        self, correlation: int, destination: Endpoint, request: OutboundRequest, timeout_ms: float
    ) -> None:
        """Send; exactly one callback with this correlation follows, never from within."""
        channel = Channel.FETCH if isinstance(request, FetchRequest) else Channel.CONTROL
        connection = self._connection(destination, channel)
        address = (destination.host, destination.port)
        peer_request = PeerRequest(correlation, request, timeout_ms, address)
        self._metrics.count_labelled("peer_requests", peer_request.api.name)
        self._metrics.count_labelled("outbound_requests", address)
        connection.send(peer_request)

    def warm(self, destination: Endpoint) -> None:
        """Open the control connection now: an election must not wait for handshakes."""
        self._connection(destination, Channel.CONTROL).warm()

    def _connection(self, destination: Endpoint, channel: Channel) -> PeerConnection:
        key = (destination.host, destination.port, channel)
        connection = self._connections.get(key)
        if connection is None:
            connection = self._connections[key] = PeerConnection(
                destination.host,
                destination.port,
                self._client_id,
                self._reconnect_backoff_ms,
                self._ended,
                self._on_malformed,
            )
        return connection

    @property
    def in_flight(self) -> int:
        """Requests without an answer yet."""
        return sum(connection.in_flight for connection in self._connections.values())

    def connected_addresses(self) -> set[tuple[str, int]]:
        """Where a connection is ready for use."""
        return {(host, port) for (host, port, _), c in self._connections.items() if c.is_ready}

    def close(self) -> None:
        """Close everything without callbacks."""
        for connection in self._connections.values():
            connection.shut()
        self._connections.clear()

    def _ended(self, request: PeerRequest, outcome: InboundResponse | FailureReason) -> None:
        metrics = self._metrics
        seconds = perf_counter() - request.sent_at
        metrics.durations_of("peer_request_time_seconds", request.api.name).add(seconds)
        if isinstance(outcome, FailureReason):
            metrics.count_labelled("peer_failures", outcome.value)
            metrics.count_labelled("error_responses", request.address)
            self._listener.request_failed(request.correlation, outcome)
            return
        if outcome.error is not RaftError.NONE:
            metrics.count_labelled("error_responses", request.address)
        self._listener.response_received(request.correlation, outcome)
