"""Keys: where the node listens, and what each listener allows."""

from collections.abc import Mapping
from typing import Any

from quorum_node.configuration.addresses import ListenerAddress
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
from quorum_node.security.tls.listener_security import SecurityProtocol

CONTROLLER_LISTENER = "CONTROLLER"
ADMIN_LISTENER = "ADMIN"
LISTENERS = ("controller", "admin")
"""Those that every node has, as they stand in `listener.name.NAME.KEY`."""


def _limit(
    name: str,
    kind: Integer,
    default: int,
    doc: str,
    *,
    admin: int | None = None,
    shown: str | None = None,
) -> Key[int]:
    """Of a listener; `admin`: another default for the admin port."""
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
    "where others reach the Kafka ports; needed if `listeners` has no host",
    Owner.OPERATOR,
)
CONTROLLER_LISTENER_NAMES: Key[tuple[str, ...] | None] = Key(
    "controller.listener.names",
    Names(CONTROLLER_LISTENER),
    None,
    "the names in `listeners`, all of them: a node has the controller's role alone. Members dial the first one",
    shown="`CONTROLLER`",
)
PROTOCOL_MAP: Key[Mapping[str, SecurityProtocol]] = Key(
    "listener.security.protocol.map",
    ProtocolMap(),
    {},
    "what each listener speaks: `PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`; without this key all speak `PLAINTEXT`. A listener that a map forgets is refused. Members dial each other by the first one, which has no SASL",
    shown="",
)
ADMIN = Key(
    "admin.listener",
    Url(("http", "https")),
    ListenerAddress("http", "0.0.0.0", 8080),
    "the admin port; with `https` it shows the certificate of `listener.name.admin.ssl.*`, else that of `CONTROLLER`",
    Owner.OPERATOR,
)
ADMIN_ADVERTISED: Key[ListenerAddress | None] = Key(
    "admin.advertised.listener",
    Url(("http", "https")),
    None,
    "where others reach the admin port; needed if `admin.listener` has no host",
    Owner.OPERATOR,
)
HEALTH: Key[ListenerAddress | None] = Key(
    "health.listener",
    Url(("http",)),
    None,
    "ours: one more port, in clear text, with `/livez`, `/readyz` and `/metrics` alone, for a kubelet that shows no certificate",
)

MAX_CONNECTIONS = _limit(
    "max.connections",
    Integer(16, MANY),
    1000,
    "the idlest connection is closed for the new one",
    admin=400,
)
MAX_PER_ADDRESS = _limit(
    "max.connections.per.ip",
    Integer(1, MANY),
    256,
    "the same among the connections of that address",
    admin=100,
)
PER_ADDRESS: Key[Mapping[str, int]] = Key(
    "max.connections.per.ip.overrides",
    CountsByAddress(),
    {},
    "what holds for an address instead",
    scope=Scope.LISTENER,
    shown="",
)
CREATION_RATE = _limit(
    "max.connection.creation.rate",
    Integer(1, MANY),
    500,
    "new connections a second; further ones wait in the backlog of the socket",
    admin=200,
)
MAX_IDLE = _limit(
    "connections.max.idle.ms",
    Integer(1000, MANY),
    600_000,
    "a connection on which nothing happens is closed",
)
QUEUED_BYTES = _limit(
    "queued.max.request.bytes",
    Integer(1 << 20, 1 << 40),
    64 << 20,
    "bytes of requests that are not complete, in all: the connection whose large request began first is closed",
    shown="64 MiB",
)
PRINCIPAL_CONNECTIONS = _limit(
    "quorum.principal.max.connections",
    Integer(1, MANY),
    64,
    "ours: of one principal, known by its certificate or its login; its idlest connection is closed for the new one",
    admin=32,
)
PRINCIPAL_REQUESTS = _limit(
    "quorum.principal.queued.max.requests",
    Integer(1, MANY),
    1024,
    "ours: requests of one principal that are not answered, on all its connections; beyond it they are not read",
)
PRINCIPAL_PERCENTAGE = _limit(
    "quorum.principal.request.percentage",
    Integer(1, 100),
    25,
    "ours, after Kafka's client quota `request_percentage`: the part of the node's time that requests of one principal may take while others need the node, too; beyond it they are not read for a while. Members, administrators and the operator have no such limit (admin port: a fifth for all others together, fixed)",
)
PRINCIPAL_QUEUED_BYTES = _limit(
    "quorum.principal.queued.max.request.bytes",
    Integer(64 << 10, 1 << 40),
    16 << 20,
    "ours: bytes of requests of one principal that are not complete, and at least one request of the largest size: its connection whose large request began first is closed",
    shown="16 MiB",
)
RECEIVE_TIMEOUT = _limit(
    "quorum.request.receive.timeout.ms",
    Integer(1000, HOUR_MS),
    30_000,
    "ours: a request that began to arrive and is not complete by then ends its connection",
)
MAX_REQUEST_BYTES = Key(
    "socket.request.max.bytes",
    Integer(1 << 10, 1 << 30),
    8 << 20,
    "a larger request is refused before it is read (admin port: 16 MiB, fixed)",
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
