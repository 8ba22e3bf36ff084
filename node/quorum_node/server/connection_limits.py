"""The limits of one listener: how many connections, for how long, and how many bytes of theirs.

The key names are Kafka's where Kafka has one; the defaults are not: Kafka's are without a limit, and this
process must survive anybody who reaches its port. A key holds for every listener, and
`listener.name.NAME.KEY` for one, as in Kafka. Knows no sockets.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address

from quorum_node.server.config_values import ConfigError, Pairs

MAX_CONNECTIONS = "max.connections"
MAX_PER_ADDRESS = "max.connections.per.ip"
OVERRIDES = "max.connections.per.ip.overrides"
CREATION_RATE = "max.connection.creation.rate"
MAX_IDLE = "connections.max.idle.ms"
QUEUED_BYTES = "queued.max.request.bytes"
REQUEST_TIMEOUT = "quorum.request.receive.timeout.ms"

_KEYS = (
    MAX_CONNECTIONS,
    MAX_PER_ADDRESS,
    OVERRIDES,
    CREATION_RATE,
    MAX_IDLE,
    QUEUED_BYTES,
    REQUEST_TIMEOUT,
)
LISTENERS = ("controller", "admin")
LIMIT_KEYS = frozenset(_KEYS) | {
    f"listener.name.{name}.{key}" for name in LISTENERS for key in _KEYS
}
_MANY = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What one listener allows."""

    max_connections: int = 1000
    """Beyond it the connection that has been idle for longest gives way to a new one."""
    max_per_address: int = 256
    """Likewise, of the connections from one address."""
    per_address: Mapping[str, int] = field(default_factory=dict)
    """Address → what holds for it instead."""
    creation_rate: int = 500
    """New connections a second; further ones wait in the backlog of the socket."""
    max_idle_ms: int = 600_000
    """A connection on which nothing was received or sent for as long is closed."""
    queued_bytes: int = 64 << 20
    """Received bytes of requests that are not complete, of all connections."""
    receive_timeout_ms: int = 30_000
    """A request that has begun to arrive has to be there after that time."""

    def allowed_from(self, address: str) -> int:
        """How many connections this address may have."""
        return self.per_address.get(address, self.max_per_address)


def read_limits(pairs: Pairs, listener: str, defaults: ConnectionLimits) -> ConnectionLimits:
    """The limits of a listener, `listener` in small letters. Raises ConfigError."""

    def name_of(key: str) -> str:
        own = f"listener.name.{listener}.{key}"
        return own if pairs.has(own) else key

    def number(key: str, default: int, minimum: int, maximum: int = _MANY) -> int:
        return pairs.integer(name_of(key), default, minimum=minimum, maximum=maximum)

    return ConnectionLimits(
        max_connections=number(MAX_CONNECTIONS, defaults.max_connections, 16),
        max_per_address=number(MAX_PER_ADDRESS, defaults.max_per_address, 1),
        per_address=_overrides(pairs, name_of(OVERRIDES)),
        creation_rate=number(CREATION_RATE, defaults.creation_rate, 1),
        max_idle_ms=number(MAX_IDLE, defaults.max_idle_ms, 1000),
        queued_bytes=number(QUEUED_BYTES, defaults.queued_bytes, 1 << 20, 1 << 40),
        receive_timeout_ms=number(REQUEST_TIMEOUT, defaults.receive_timeout_ms, 1000, 3_600_000),
    )


def _overrides(pairs: Pairs, key: str) -> dict[str, int]:
    """Kafka's form: ADDRESS:COUNT, separated by commas; an IPv6 address may stand in brackets."""
    if not pairs.has(key):
        return {}
    found: dict[str, int] = {}
    for item in pairs.text(key).split(","):
        address, _, count = item.strip().rpartition(":")
        try:
            name = str(ip_address(address.strip("[]")))
        except ValueError:
            raise pairs.wrong(key, f"{item.strip()!r} is not IP-ADDRESS:COUNT") from None
        if not count.isdigit():
            raise pairs.wrong(key, f"{count!r} in {item.strip()!r} is no number of connections")
        found[name] = int(count)
    return found


def check_limits(limits: ConnectionLimits, max_request_bytes: int) -> None:
    """The rules between keys. Raises ConfigError."""
    if limits.queued_bytes < max_request_bytes:
        raise ConfigError(
            f"{QUEUED_BYTES}={limits.queued_bytes} is below socket.request.max.bytes={max_request_bytes}:"
            " a single request of the allowed size would never be read"
        )
