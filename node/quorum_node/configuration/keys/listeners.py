"""Keys of listeners: addresses, protocols and limits."""

from collections.abc import Mapping
from typing import Any

from quorum_node.configuration.key import Key, Owner, Scope
from quorum_node.configuration.value_kinds import (
    HOUR_MS,
    MANY,
    CountsByAddress,
    Integer,
    Listeners,
    Names,
    ProtocolMap,
    Url,
)
from quorum_node.host_port import ListenerAddress
from quorum_node.security.tls.listener_security import SecurityProtocol

CONTROLLER_LISTENER = "CONTROLLER"
ADMIN_LISTENER = "ADMIN"
LISTENERS = ("controller", "admin")
"""Names of the listeners that every node has, as in `listener.name.NAME.KEY`."""


def _limit(
    name: str,
    kind: Integer,
    default: int,
    doc: str,
    *,
    admin: int | None = None,
    shown: str | None = None,
) -> Key[int]:
    """A limit of a listener. `admin`: the default for the admin port, if it differs."""
    own = {} if admin is None else {"admin": admin}
    return Key(name, kind, default, doc, scope=Scope.LISTENER, listener_defaults=own, shown=shown)


LISTENER: Key[tuple[ListenerAddress, ...]] = Key(
    "listeners",
    Listeners(CONTROLLER_LISTENER),
    (ListenerAddress(CONTROLLER_LISTENER, "0.0.0.0", 9093),),
    "the Kafka ports: `CONTROLLER`, which members dial, and others by any name",
    Owner.OPERATOR,
    shown="`CONTROLLER://0.0.0.0:9093`",
)
ADVERTISED: Key[tuple[ListenerAddress, ...] | None] = Key(
    "advertised.listeners",
    Listeners(CONTROLLER_LISTENER),
    None,
    "addresses under which other nodes and clients reach the Kafka ports; required if `listeners` has no host",
    Owner.OPERATOR,
)
CONTROLLER_LISTENER_NAMES: Key[tuple[str, ...] | None] = Key(
    "controller.listener.names",
    Names(CONTROLLER_LISTENER),
    None,
    "names of the listeners of the controllers. Of a controller: all names in `listeners` (with `process.roles=broker,controller`: those of the controller's part); members connect to the first one. Of a broker: the first one is the listener name under which it connects to the controllers; it is not in `listeners`",
    shown="`CONTROLLER`",
)
PROTOCOL_MAP: Key[Mapping[str, SecurityProtocol]] = Key(
    "listener.security.protocol.map",
    ProtocolMap(),
    {},
    "protocol of each listener: `PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`. Without this key all use `PLAINTEXT`; with it every listener needs an entry. Members connect to the first listener, which can't use SASL",
    shown="",
)
ADMIN = Key(
    "admin.listener",
    Url(("http", "https")),
    ListenerAddress("http", "0.0.0.0", 8080),
    "the admin port; with `https` it presents the certificate of `listener.name.admin.ssl.*`, or else that of `CONTROLLER`",
    Owner.OPERATOR,
)
ADMIN_ADVERTISED: Key[ListenerAddress | None] = Key(
    "admin.advertised.listener",
    Url(("http", "https")),
    None,
    "address under which clients reach the admin port; required if `admin.listener` has no host",
    Owner.OPERATOR,
)
HEALTH: Key[ListenerAddress | None] = Key(
    "health.listener",
    Url(("http",)),
    None,
    "ours: an additional port in clear text with `/livez`, `/readyz` and `/metrics` only, for a kubelet, which has no certificate",
)

MAX_CONNECTIONS = _limit(
    "max.connections",
    Integer(16, MANY),
    1000,
    "maximum number of connections; above it a new one replaces the one that has been idle for longest",
    admin=400,
)
MAX_PER_ADDRESS = _limit(
    "max.connections.per.ip",
    Integer(1, MANY),
    256,
    "the same limit for connections from one address",
    admin=100,
)
PER_ADDRESS: Key[Mapping[str, int]] = Key(
    "max.connections.per.ip.overrides",
    CountsByAddress(),
    {},
    "a different limit for individual addresses",
    scope=Scope.LISTENER,
    shown="",
)
CREATION_RATE = _limit(
    "max.connection.creation.rate",
    Integer(1, MANY),
    500,
    "maximum number of new connections per second; further ones wait in the backlog of the socket",
    admin=200,
)
MAX_IDLE = _limit(
    "connections.max.idle.ms",
    Integer(1000, MANY),
    600_000,
    "idle time after which a connection is closed",
)
QUEUED_BYTES = _limit(
    "queued.max.request.bytes",
    Integer(1 << 20, 1 << 40),
    64 << 20,
    "maximum bytes of incomplete requests in total; above it the connection whose large request began first is closed",
    shown="64 MiB",
)
PRINCIPAL_CONNECTIONS = _limit(
    "quorum.principal.max.connections",
    Integer(1, MANY),
    64,
    "ours: maximum number of connections of one principal, identified by certificate or login; above it a new one replaces the one that has been idle for longest",
    admin=32,
)
PRINCIPAL_REQUESTS = _limit(
    "quorum.principal.queued.max.requests",
    Integer(1, MANY),
    1024,
    "ours: maximum number of pending requests of one principal on all its connections; further ones are not read",
)
PRINCIPAL_PERCENTAGE = _limit(
    "quorum.principal.request.percentage",
    Integer(1, 100),
    25,
    "ours, after Kafka's client quota `request_percentage`: maximum share of the node's time for requests of one principal while other requests are waiting; above it they are not read for a while. Members, administrators and the operator have no such limit (admin port: a fifth for all others together, fixed)",
)
PRINCIPAL_QUEUED_BYTES = _limit(
    "quorum.principal.queued.max.request.bytes",
    Integer(64 << 10, 1 << 40),
    16 << 20,
    "ours: maximum bytes of incomplete requests of one principal, at least one request of the largest size; above it the connection whose large request began first is closed",
    shown="16 MiB",
)
RECEIVE_TIMEOUT = _limit(
    "quorum.request.receive.timeout.ms",
    Integer(1000, HOUR_MS),
    30_000,
    "ours: time limit for receiving a request; after it the connection is closed",
)
MAX_REQUEST_BYTES = Key(
    "socket.request.max.bytes",
    Integer(1 << 10, 1 << 30),
    8 << 20,
    "maximum size of a request; a larger one is refused before it is read (admin port: 16 MiB, fixed)",
    shown="8 MiB",
)

SECTIONS: Mapping[str, tuple[Key[Any], ...]] = {
    "Listeners": (
        LISTENER,
        ADVERTISED,
        CONTROLLER_LISTENER_NAMES,
        PROTOCOL_MAP,
        ADMIN,
        ADMIN_ADVERTISED,
        HEALTH,
    ),
    "Limits of a listener": (
        MAX_CONNECTIONS,
        MAX_PER_ADDRESS,
        PER_ADDRESS,
        CREATION_RATE,
        MAX_IDLE,
        QUEUED_BYTES,
        PRINCIPAL_CONNECTIONS,
        PRINCIPAL_REQUESTS,
        PRINCIPAL_PERCENTAGE,
        PRINCIPAL_QUEUED_BYTES,
        RECEIVE_TIMEOUT,
        MAX_REQUEST_BYTES,
    ),
}
