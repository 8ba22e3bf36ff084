"""Security of each listener, from `listener.security.protocol.map`, `ssl.*` and `sasl.*`. PURE.

Owns which combinations are valid. Members connect to the first of `controller.listener.names`,
which never uses SASL: credentials are stored in the log, so after a full stop no member could log
in, and no leader could be elected.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from quorum_node.security.errors import SecuritySettingError
from quorum_node.security.scram.mechanism import MECHANISMS, ScramMechanism
from quorum_node.security.tls.ssl_settings import (
    CLIENT_AUTH_KEY,
    SSL_KEYS,
    ClientAuth,
    ListenerProperties,
    SslSettings,
    read_ssl_settings,
)

PROTOCOL_MAP = "listener.security.protocol.map"
MECHANISMS_KEY = "sasl.enabled.mechanisms"
LISTENER_KEYS = (*SSL_KEYS, MECHANISMS_KEY)
"""Keys that can have the prefix `listener.name.NAME.`."""


class SecurityProtocol(Enum):
    """Kafka's four protocols."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def id(self) -> int:
        """The code in records and requests."""
        return tuple(SecurityProtocol).index(self)

    @property
    def has_tls(self) -> bool:
        """Whether there is a handshake of TLS."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        """Whether clients log in."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


@dataclass(frozen=True, slots=True)
class ListenerSecurity:
    """One listener. `mechanisms`: in the order in which clients get them; empty without SASL."""

    name: str
    protocol: SecurityProtocol
    ssl: SslSettings | None = None
    mechanisms: tuple[ScramMechanism, ...] = ()


def read_listeners(
    properties: Mapping[str, str], names: Iterable[str], dialled: str
) -> tuple[ListenerSecurity, ...]:
    """Settings of these listeners.

    `dialled`: the one to which members connect. Raises SecuritySettingError.
    """
    protocols = parse_protocol_map(properties.get(PROTOCOL_MAP, ""))
    found = tuple(_listener(properties, name.upper(), protocols) for name in names)
    for each in found:
        if each.name == dialled.upper() and each.protocol.has_sasl:
            why = f"members connect to {each.name}, which can't use SASL: after a stop of all members none could log in. Put a listener with SSL first in controller.listener.names"
            raise SecuritySettingError(PROTOCOL_MAP, why, properties.get(PROTOCOL_MAP, ""))
    return found


def parse_protocol_map(text: str) -> dict[str, SecurityProtocol]:
    """By listener. Raises SecuritySettingError."""
    found: dict[str, SecurityProtocol] = {}
    for item in (each.strip() for each in text.split(",") if each.strip()):
        name, colon, protocol = (part.strip().upper() for part in item.partition(":"))
        if not colon or not name:
            raise SecuritySettingError(PROTOCOL_MAP, f"{item!r} is not LISTENER:PROTOCOL", text)
        if protocol not in SecurityProtocol.__members__:
            known = ", ".join(SecurityProtocol.__members__)
            raise SecuritySettingError(PROTOCOL_MAP, f"{protocol!r} is none of {known}", text)
        if name in found:
            raise SecuritySettingError(PROTOCOL_MAP, f"{name} is listed twice", text)
        found[name] = SecurityProtocol[protocol]
    return found


def _listener(
    properties: Mapping[str, str], name: str, protocols: Mapping[str, SecurityProtocol]
) -> ListenerSecurity:
    """A listener with the name of a protocol uses it. Other listeners without an entry use PLAINTEXT.

    As in Kafka, that applies only without a map: a listener that was forgotten in a map must not be
    open.
    """
    protocol = protocols.get(name) or SecurityProtocol.__members__.get(name)
    if protocol is None and protocols:
        raise SecuritySettingError(
            PROTOCOL_MAP, f"has no entry for listener {name}", properties[PROTOCOL_MAP]
        )
    protocol = protocol or SecurityProtocol.PLAINTEXT
    return ListenerSecurity(
        name,
        protocol,
        _ssl(properties, name, protocol) if protocol.has_tls else None,
        _mechanisms(properties, name) if protocol.has_sasl else (),
    )


def _ssl(properties: Mapping[str, str], listener: str, protocol: SecurityProtocol) -> SslSettings:
    """As in Kafka, clients that log in need a certificate only if this very listener requires one."""
    own = f"listener.name.{listener.lower()}.{CLIENT_AUTH_KEY}"
    if protocol.has_sasl and not properties.get(own, "").strip():
        properties = {**properties, own: ClientAuth.NONE.value}
    return read_ssl_settings(properties, listener)


def _mechanisms(properties: Mapping[str, str], listener: str) -> tuple[ScramMechanism, ...]:
    seen = ListenerProperties(properties, listener)
    names = [each.strip() for each in seen.text(MECHANISMS_KEY).split(",") if each.strip()]
    if not names:
        why = f"not set: listener {listener} has SASL and needs one of {', '.join(MECHANISMS)}"
        raise SecuritySettingError(seen.key(MECHANISMS_KEY), why)
    for name in names:
        if name not in MECHANISMS:
            why = f"{name} is not supported; supported are {', '.join(MECHANISMS)}"
            raise seen.wrong(MECHANISMS_KEY, why)
    return tuple(dict.fromkeys(MECHANISMS[name] for name in names))
