"""The limits of one listener: how many connections, for how long, and how many bytes of theirs.

The key names are Kafka's where Kafka has one; the defaults are not: Kafka's are without a limit, and this
process must survive anybody who reaches its port. A key holds for every listener, and
`listener.name.NAME.KEY` for one, as in Kafka. Knows no sockets.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from quorum_node.configuration.keys import listeners
from quorum_node.configuration.properties import ConfigError, Properties


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What one listener allows."""

    max_connections: int = listeners.MAX_CONNECTIONS.default_of()
    """Beyond it the connection that has been idle for longest gives way to a new one."""
    max_per_address: int = listeners.MAX_PER_ADDRESS.default_of()
    """Likewise, of the connections from one address."""
    per_address: Mapping[str, int] = field(default_factory=dict)
    """Address → what holds for it instead."""
    creation_rate: int = listeners.CREATION_RATE.default_of()
    """New connections a second; further ones wait in the backlog of the socket."""
    max_idle_ms: int = listeners.MAX_IDLE.default_of()
    """A connection on which nothing was received or sent for as long is closed."""
    queued_bytes: int = listeners.QUEUED_BYTES.default_of()
    """Received bytes of requests that are not complete, of all connections."""
    principal_connections: int = listeners.PRINCIPAL_CONNECTIONS.default_of()
    """Connections of one principal; beyond it its idlest one gives way."""
    principal_requests: int = listeners.PRINCIPAL_REQUESTS.default_of()
    """Requests of one principal that are not answered."""
    principal_percentage: int = listeners.PRINCIPAL_PERCENTAGE.default_of()
    """Of the loop's time, for requests of one principal."""
    principal_queued_bytes: int = listeners.PRINCIPAL_QUEUED_BYTES.default_of()
    """Received bytes of requests that are not complete, of one principal."""
    receive_timeout_ms: int = listeners.RECEIVE_TIMEOUT.default_of()
    """A request that has begun to arrive has to be there after that time."""

    def allowed_from(self, address: str) -> int:
        """How many connections this address may have."""
        return self.per_address.get(address, self.max_per_address)


def read_limits(properties: Properties, listener: str) -> ConnectionLimits:
    """The limits of a listener, `listener` in small letters. Raises ConfigError."""
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
    """The rules between keys. Raises ConfigError."""
    if limits.queued_bytes < max_request_bytes:
        raise ConfigError(
            f"{listeners.QUEUED_BYTES.name}={limits.queued_bytes} is below"
            f" {listeners.MAX_REQUEST_BYTES.name}={max_request_bytes}:"
            " a single request of the allowed size would never be read"
        )
