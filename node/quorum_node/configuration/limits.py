"""Limits of a listener: connections, times, and bytes.

The key names are Kafka's where Kafka has one. The defaults are not, as most of Kafka's are
unlimited, and this process must survive any client that reaches its port. A key applies to every
listener, and `listener.name.NAME.KEY` to one, as in Kafka. Must not know sockets.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from quorum_node.configuration.keys import listeners
from quorum_node.configuration.properties import ConfigError, Properties


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of one listener."""

    max_connections: int = listeners.MAX_CONNECTIONS.default_of()
    """Above this number a new connection replaces the one that has been idle for longest."""
    max_per_address: int = listeners.MAX_PER_ADDRESS.default_of()
    """The same limit for connections from one address."""
    per_address: Mapping[str, int] = field(default_factory=dict)
    """Address → a different limit."""
    creation_rate: int = listeners.CREATION_RATE.default_of()
    """New connections per second; further ones wait in the backlog of the socket."""
    max_idle_ms: int = listeners.MAX_IDLE.default_of()
    """Idle time after which a connection is closed."""
    queued_bytes: int = listeners.QUEUED_BYTES.default_of()
    """Received bytes of incomplete requests on all connections."""
    principal_connections: int = listeners.PRINCIPAL_CONNECTIONS.default_of()
    """Connections of one principal; above this number a new one replaces the one that has been idle
    for longest.
    """
    principal_requests: int = listeners.PRINCIPAL_REQUESTS.default_of()
    """Pending requests of one principal."""
    principal_percentage: int = listeners.PRINCIPAL_PERCENTAGE.default_of()
    """Share of the event loop's time for requests of one principal."""
    principal_queued_bytes: int = listeners.PRINCIPAL_QUEUED_BYTES.default_of()
    """Received bytes of incomplete requests of one principal."""
    receive_timeout_ms: int = listeners.RECEIVE_TIMEOUT.default_of()
    """Time limit for receiving a request."""

    def allowed_from(self, address: str) -> int:
        """Number of connections permitted from this address."""
        return self.per_address.get(address, self.max_per_address)


def read_limits(properties: Properties, listener: str) -> ConnectionLimits:
    """Limits of a listener; `listener` in lower case. Raises ConfigError."""
    return ConnectionLimits(
        max_connections=properties.get_for(listeners.MAX_CONNECTIONS, listener),
        max_per_address=properties.get_for(listeners.MAX_PER_ADDRESS, listener),
        per_address=properties.get_for(listeners.PER_ADDRESS, listener),
        creation_rate=properties.get_for(listeners.CREATION_RATE, listener),
        max_idle_ms=properties.get_for(listeners.MAX_IDLE, listener),
        queued_bytes=properties.get_for(listeners.QUEUED_BYTES, listener),
        principal_connections=properties.get_for(listeners.PRINCIPAL_CONNECTIONS, listener),
        principal_requests=properties.get_for(listeners.PRINCIPAL_REQUESTS, listener),
        principal_percentage=properties.get_for(listeners.PRINCIPAL_PERCENTAGE, listener),
        principal_queued_bytes=max(
            properties.get_for(listeners.PRINCIPAL_QUEUED_BYTES, listener),
            properties.get(listeners.MAX_REQUEST_BYTES),
        ),
        receive_timeout_ms=properties.get_for(listeners.RECEIVE_TIMEOUT, listener),
    )


def check_limits(limits: ConnectionLimits, max_request_bytes: int) -> None:
    """Check the rules between keys. Raises ConfigError."""
    if limits.queued_bytes < max_request_bytes:
        raise ConfigError(
            f"{listeners.QUEUED_BYTES.name}={limits.queued_bytes} is below"
            f" {listeners.MAX_REQUEST_BYTES.name}={max_request_bytes}:"
            " a single request of the allowed size would never be read"
        )
