"""The listeners of a node, each with its own settings.

Owns the configuration of a listener: any number of Kafka's protocol, each with the security
protocol of `listener.security.protocol.map`, and the admin port. Must not know sockets.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from quorum_node.configuration.key import Key
from quorum_node.configuration.keys import broker, listeners, node, security
from quorum_node.configuration.limits import ConnectionLimits, check_limits, read_limits
from quorum_node.configuration.properties import ConfigError, Properties
from quorum_node.configuration.value_kinds import WILDCARDS
from quorum_node.host_port import HostPort, ListenerAddress
from quorum_node.security.errors import SecuritySettingError
from quorum_node.security.principals.mapping_rules import MappingRules
from quorum_node.security.scram.mechanism import ScramMechanism
from quorum_node.security.tls.listener_security import (
    ListenerSecurity,
    SecurityProtocol,
    read_listeners,
)
from quorum_node.security.tls.ssl_settings import SSL_KEYS, SslSettings, read_ssl_settings

HTTPS = "https"
_CLIENT_AUTH = "ssl.client.auth"


@dataclass(frozen=True, slots=True)
class SaslConfig:
    """SASL settings of a listener.

    `max_reauth_ms`: lifetime of a login, 0: that of its connection. `max_request_bytes`: size of a
    request before the login. `timeout_ms`, `logins_max`: time limit and maximum number of
    concurrent logins. `logins_rate`: clients per second whose login may begin, where no TLS
    handshake limits them.
    """

    mechanisms: tuple[ScramMechanism, ...]
    max_reauth_ms: int = security.MAX_REAUTH.default_of()
    failed_delay_ms: int = security.FAILED_LOGIN_DELAY.default_of()
    max_request_bytes: int = security.MAX_LOGIN_BYTES.default_of()
    timeout_ms: int = security.HANDSHAKE_TIMEOUT.default_of()
    logins_max: int = security.HANDSHAKES_MAX.default_of()
    logins_rate: int = security.HANDSHAKES_RATE.default_of()


@dataclass(frozen=True, slots=True)
class ListenerConfig:
    """One listener: `address` to bind, `advertised` for others, and its limits.

    `ssl`: set if it uses TLS. `sasl`: set if clients log in.
    """

    address: ListenerAddress
    advertised: HostPort
    limits: ConnectionLimits
    max_request_bytes: int
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    ssl: SslSettings | None = None
    sasl: SaslConfig | None = None

    @property
    def name(self) -> str:
        """Name of the listener as in `listeners`, in upper case."""
        return self.address.name


@dataclass(frozen=True, slots=True)
class AdminConfig:
    """The admin port. `ssl`: set with `https`.

    `needs_certificate`: otherwise the admin token is sufficient.
    """

    address: ListenerAddress
    advertised: HostPort
    limits: ConnectionLimits
    ssl: SslSettings | None = None
    needs_certificate: bool = False


class Migration(StrEnum):
    """Step of a migration from clear text to TLS."""

    NONE = "none"
    """No migration: listeners use their configured protocols only."""
    ACCEPT = "accept"
    """Accept clear text as well as TLS; connect in clear text."""
    DIAL = "dial"
    """Accept clear text as well as TLS; connect by TLS."""


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """TLS settings that apply to all listeners."""

    files_poll_ms: int = security.FILES_POLL.default_of()
    handshake_timeout_ms: int = security.HANDSHAKE_TIMEOUT.default_of()
    handshakes_max: int = security.HANDSHAKES_MAX.default_of()
    handshakes_rate: int = security.HANDSHAKES_RATE.default_of()
    binding: bool = security.IDENTITY_BINDING.default_of()
    role_rules: MappingRules | None = None
    migration: Migration = Migration.NONE


def read_kafka_listeners(properties: Properties) -> tuple[ListenerConfig, ...]:
    """Listeners of Kafka's protocol: those of the controller in the order of `controller.listener.names`, then those of the
    broker, the one between brokers first. Raises ConfigError.
    """
    addresses = {each.name: each for each in properties.get(_listener_key(properties))}
    if has_both_roles(properties):
        names = _names_of_both(properties, addresses)
    elif is_broker(properties):
        names = _names_of_broker(properties, addresses)
    else:
        names = _names(properties, addresses)
    secured = _secured(properties, names)
    max_request_bytes = properties.get(listeners.MAX_REQUEST_BYTES)
    found = []
    for name, security_ in zip(names, secured, strict=True):
        limits = read_limits(properties, name.lower())
        check_limits(limits, max_request_bytes)
        found.append(
            ListenerConfig(
                addresses[name],
                _advertised(properties, name, addresses[name]),
                limits,
                max_request_bytes,
                security_.protocol,
                security_.ssl,
                _sasl(properties, security_),
            )
        )
    return tuple(found)


def read_admin(properties: Properties, dialled: str) -> AdminConfig:
    """The admin port. With `https` it presents the certificate of the listener `dialled`, unless
    another one is configured.
    """
    address = properties.get(listeners.ADMIN)
    told = properties.get(listeners.ADMIN_ADVERTISED)
    if told is not None and told.name != address.name:
        why = f"admin.listener uses {address.name}"
        raise properties.wrong(listeners.ADMIN_ADVERTISED, why)
    advertised = _first_reachable(properties, told, address)
    limits = read_limits(properties, "admin")
    if address.name != HTTPS:
        return AdminConfig(address, advertised, limits)
    seen = _seen_by_admin(properties.raw, dialled)
    try:
        ssl = read_ssl_settings(seen, "admin")
    except SecuritySettingError as error:
        raise ConfigError(f"{listeners.ADMIN.name}={address}: {error}") from None
    if ssl.truststore is None:
        raise ConfigError(
            f"{listeners.ADMIN.name}={address}: ssl.truststore.location is not set, so no certificate of a client"
            " could be accepted"
        )
    needs = seen.get(f"listener.name.admin.{_CLIENT_AUTH}", "").strip().lower() == "required"
    return AdminConfig(address, advertised, limits, ssl, needs)


def read_tls(properties: Properties, dialled: ListenerConfig) -> TlsConfig:
    """TLS settings of all listeners. Raises ConfigError."""
    migration = Migration(properties.get(security.MIGRATION))
    if migration is not Migration.NONE and dialled.ssl is None:
        why = (
            f"listener {dialled.name} uses {dialled.protocol.value}, which is clear text already. For a migration to TLS write"
            f" {dialled.name}:SSL into {listeners.PROTOCOL_MAP.name} and set its ssl.* keys"
        )
        raise properties.wrong(security.MIGRATION, why)
    return TlsConfig(
        files_poll_ms=properties.get(security.FILES_POLL),
        handshake_timeout_ms=properties.get(security.HANDSHAKE_TIMEOUT),
        handshakes_max=properties.get(security.HANDSHAKES_MAX),
        handshakes_rate=properties.get(security.HANDSHAKES_RATE),
        binding=properties.get(security.IDENTITY_BINDING),
        role_rules=properties.get(security.ROLE_RULES),
        migration=migration,
    )


def names_of_listeners(properties: Properties) -> tuple[str, ...]:
    """Names of all listeners in lower case, as in `listener.name.NAME.KEY`. Raises ConfigError."""
    named = (each.name.lower() for each in properties.get(_listener_key(properties)))
    return tuple(dict.fromkeys((*listeners.LISTENERS, *named)))


def is_broker(properties: Properties) -> bool:
    """Whether broker is one of `process.roles`. Raises ConfigError for an unknown role."""
    return properties.get(node.PROCESS_ROLES) != node.CONTROLLER_ROLE


def has_both_roles(properties: Properties) -> bool:
    """Whether one process is a member of the quorum and a broker. Raises ConfigError for an unknown role."""
    return properties.get(node.PROCESS_ROLES) in node.BOTH_ROLES


def _listener_key(properties: Properties) -> Key[tuple[ListenerAddress, ...]]:
    return broker.LISTENER if is_broker(properties) else listeners.LISTENER


def _names_of_broker(
    properties: Properties, addresses: Mapping[str, ListenerAddress]
) -> tuple[str, ...]:
    """Names of a broker's listeners, the one between brokers first. KIP-631: it has no controller listener."""
    for name in controller_listener_names(properties):
        if name in addresses:
            why = f"a broker can't have listener {name}: it belongs to the controllers"
            raise properties.wrong(broker.LISTENER, why)
    return _between_first(properties, addresses)


def _names_of_both(
    properties: Properties, addresses: Mapping[str, ListenerAddress]
) -> tuple[str, ...]:
    """Names of the listeners of a process with both roles: the controller's, then the broker's. It needs both."""
    names = controller_listener_names(properties)
    for name in names:
        if name not in addresses:
            why = f"the controller's listener {name} is missing; add {name}://HOST:PORT"
            raise properties.wrong(broker.LISTENER, why)
    others = {name: each for name, each in addresses.items() if name not in names}
    if not others:
        why = f"the broker has no listener: all of them are in {listeners.CONTROLLER_LISTENER_NAMES.name}"
        raise properties.wrong(broker.LISTENER, why)
    return (*names, *_between_first(properties, others))


def controller_listener_names(properties: Properties) -> tuple[str, ...]:
    """`controller.listener.names`, or its default. Raises ConfigError."""
    return properties.get(listeners.CONTROLLER_LISTENER_NAMES) or (listeners.CONTROLLER_LISTENER,)


def _between_first(
    properties: Properties, addresses: Mapping[str, ListenerAddress]
) -> tuple[str, ...]:
    """Names of a broker's listeners, the one between brokers first."""
    between = properties.get(broker.BETWEEN_BROKERS)
    if between is None:
        return tuple(addresses)
    if between not in addresses:
        why = f"{between} is not in {broker.LISTENER.name}"
        raise properties.wrong(broker.BETWEEN_BROKERS, why)
    return (between, *(name for name in addresses if name != between))


def _names(properties: Properties, addresses: Mapping[str, ListenerAddress]) -> tuple[str, ...]:
    """Names of a controller's listeners. KIP-631: without the role of broker it has no other listeners."""
    names = properties.get(listeners.CONTROLLER_LISTENER_NAMES)
    if names is None:
        first = listeners.CONTROLLER_LISTENER
        return (first, *(name for name in addresses if name != first))
    for name in names:
        if name not in addresses:
            why = f"{name} is not in {listeners.LISTENER.name}"
            raise properties.wrong(listeners.CONTROLLER_LISTENER_NAMES, why)
    for name in addresses:
        if name not in names:
            why = f"{name} is not in {listeners.CONTROLLER_LISTENER_NAMES.name}"
            raise properties.wrong(listeners.LISTENER, why)
    return names


def _secured(properties: Properties, names: tuple[str, ...]) -> tuple[ListenerSecurity, ...]:
    try:
        return read_listeners(properties.raw, names, names[0])
    except SecuritySettingError as error:
        raise ConfigError(str(error)) from None


def _sasl(properties: Properties, found: ListenerSecurity) -> SaslConfig | None:
    if not found.protocol.has_sasl:
        return None
    name = found.name.lower()
    return SaslConfig(
        mechanisms=found.mechanisms,
        max_reauth_ms=properties.get_for(security.MAX_REAUTH, name),
        failed_delay_ms=properties.get(security.FAILED_LOGIN_DELAY),
        max_request_bytes=properties.get_for(security.MAX_LOGIN_BYTES, name),
        timeout_ms=properties.get(security.HANDSHAKE_TIMEOUT),
        logins_max=properties.get(security.HANDSHAKES_MAX),
        logins_rate=properties.get(security.HANDSHAKES_RATE),
    )


def _seen_by_admin(raw: Mapping[str, str], dialled: str) -> dict[str, str]:
    """The properties, with the TLS settings of the listener `dialled` as defaults of the admin port.

    Exception: whether clients need a certificate is not copied, as HTTP clients can use the admin token instead.
    """
    seen = dict(raw)
    for name in SSL_KEYS:
        own = f"listener.name.admin.{name}"
        theirs = raw.get(f"listener.name.{dialled.lower()}.{name}", "")
        if name != _CLIENT_AUTH and not raw.get(own, "").strip() and theirs.strip():
            seen[own] = theirs
    return seen


def _advertised(properties: Properties, name: str, address: ListenerAddress) -> HostPort:
    """Address of a listener for others: the advertised one, else the bound one."""
    told = properties.get(_advertised_key(properties))
    if told is None:
        return _reachable(
            properties, listeners.LISTENER, address, f"; set {listeners.ADVERTISED.name}"
        )
    bound = {each.name for each in properties.get(_listener_key(properties))}
    for each in told:
        if each.name not in bound:
            why = f"{each.name} is not in {listeners.LISTENER.name}"
            raise properties.wrong(listeners.ADVERTISED, why)
    for each in told:
        if each.name == name:
            return _reachable(properties, listeners.ADVERTISED, each, "")
    return _reachable(
        properties, listeners.LISTENER, address, f"; add {name} to {listeners.ADVERTISED.name}"
    )


def _advertised_key(properties: Properties) -> Key[tuple[ListenerAddress, ...] | None]:
    return broker.ADVERTISED if is_broker(properties) else listeners.ADVERTISED


def _first_reachable(
    properties: Properties, told: ListenerAddress | None, bound: ListenerAddress
) -> HostPort:
    if told is not None:
        return _reachable(properties, listeners.ADMIN_ADVERTISED, told, "")
    hint = f"; set {listeners.ADMIN_ADVERTISED.name}"
    return _reachable(properties, listeners.ADMIN, bound, hint)


def _reachable(
    properties: Properties, key: Key[Any], address: ListenerAddress, hint: str
) -> HostPort:
    if address.host in WILDCARDS:
        why = f"{address.host} is not an address that others can reach{hint}"
        if not properties.has(key):
            raise ConfigError(f"{key.name} is not set, and its default can't be used: {why}")
        raise properties.wrong(key, why)
    return HostPort(address.host.strip("[]"), address.port)
