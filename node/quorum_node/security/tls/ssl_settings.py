"""`ssl.*` of one listener, in Kafka's names: checked values, and an error message for each invalid
one. PURE.

Owns keys, defaults and exclusions (KIP-651 for PEM). A key applies to every listener,
`listener.name.NAME.KEY` to one. Must not open files. No message and no `repr` contains a secret.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from quorum_node.security.errors import SecuritySettingError
from quorum_node.security.principals.mapping_rules import (
    DEFAULT_RULES,
    MappingRules,
    parse_mapping_rules,
)
from quorum_node.security.tls.cipher_suites import CipherSuites, parse_cipher_suites

_KEYSTORE, _TRUSTSTORE = "ssl.keystore", "ssl.truststore"
_CHAIN, _KEY, _TRUSTED = (
    f"{_KEYSTORE}.certificate.chain",
    f"{_KEYSTORE}.key",
    f"{_TRUSTSTORE}.certificates",
)
_KEY_PASSWORD = "ssl.key.password"
CLIENT_AUTH_KEY = "ssl.client.auth"
_PROTOCOLS, _CIPHERS = "ssl.enabled.protocols", "ssl.cipher.suites"
_RULES = "ssl.principal.mapping.rules"
_HOST_CHECK = "ssl.endpoint.identification.algorithm"
REVOKED_KEY = "quorum.ssl.revoked.location"
"""Ours: Kafka has no key for it."""
SSL_KEYS = (
    f"{_KEYSTORE}.type",
    f"{_KEYSTORE}.location",
    f"{_KEYSTORE}.password",
    _CHAIN,
    _KEY,
    _KEY_PASSWORD,
    f"{_TRUSTSTORE}.type",
    f"{_TRUSTSTORE}.location",
    f"{_TRUSTSTORE}.password",
    _TRUSTED,
    CLIENT_AUTH_KEY,
    _PROTOCOLS,
    _CIPHERS,
    _RULES,
    _HOST_CHECK,
    REVOKED_KEY,
)
SECRET_KEYS = frozenset({_KEY, _KEY_PASSWORD, f"{_KEYSTORE}.password", f"{_TRUSTSTORE}.password"})
"""Keys whose values are never shown."""


class TlsVersion(Enum):
    """Versions that can be enabled."""

    TLS_1_2 = "TLSv1.2"
    TLS_1_3 = "TLSv1.3"


class ClientAuth(Enum):
    """Whether clients need a certificate.

    Kafka's `requested` lets anonymous clients in unnoticed, so it is refused.
    """

    REQUIRED = "required"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class PemFile:
    """A file, to be read again whenever it changes."""

    path: str


@dataclass(frozen=True, slots=True)
class PemText:
    """The text itself, from the configuration."""

    text: str = field(repr=False)


PemSource = PemFile | PemText


@dataclass(frozen=True, slots=True)
class KeystoreSettings:
    """Locations of chain and key: one file, as in Kafka, unless both are in the configuration."""

    chain: PemSource
    key: PemSource
    key_password: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class SslSettings:
    """Certificates, trust and TLS versions of one listener."""

    keystore: KeystoreSettings
    truststore: PemSource | None
    client_auth: ClientAuth
    versions: frozenset[TlsVersion]
    cipher_suites: CipherSuites
    rules: MappingRules
    checks_host: bool
    revoked: PemFile | None = None


class ListenerProperties:
    """The properties of one listener: its own values precede general ones."""

    def __init__(self, properties: Mapping[str, str], listener: str) -> None:
        self._properties = properties
        self._prefix = f"listener.name.{listener.lower()}."

    def key(self, name: str) -> str:
        """The key that the value comes from, for messages."""
        own = self._prefix + name
        return own if self._properties.get(own, "").strip() else name

    def text(self, name: str, default: str = "") -> str:
        """The value without surrounding blanks, or the default."""
        return self._properties.get(self.key(name), "").strip() or default

    def wrong(self, name: str, why: str) -> SecuritySettingError:
        """The error; with the value, unless it is a secret."""
        shown = None if name in SECRET_KEYS or name in (_CHAIN, _TRUSTED) else self.text(name)
        return SecuritySettingError(self.key(name), why, shown or None)


def read_ssl_settings(properties: Mapping[str, str], listener: str) -> SslSettings:
    """The settings of a listener with TLS. Raises SecuritySettingError."""
    seen = ListenerProperties(properties, listener)
    truststore = _truststore(seen)
    client_auth = _client_auth(seen)
    if truststore is None and client_auth is ClientAuth.REQUIRED:
        why = f"not set: listener {listener} requires certificates of clients, but would trust none"
        raise SecuritySettingError(seen.key(f"{_TRUSTSTORE}.location"), why)
    versions = _versions(seen)
    suites = seen.text(_CIPHERS)
    return SslSettings(
        keystore=_keystore(seen, listener),
        truststore=truststore,
        client_auth=client_auth,
        versions=versions,
        cipher_suites=parse_cipher_suites(
            suites, seen.key(_CIPHERS), frozenset(each.value for each in versions)
        ),
        rules=parse_mapping_rules(seen.text(_RULES, DEFAULT_RULES), seen.key(_RULES)),
        checks_host=_checks_host(seen),
        revoked=_revoked(seen),
    )


def _revoked(seen: ListenerProperties) -> PemFile | None:
    path = seen.text(REVOKED_KEY)
    if path and not path.startswith("/"):
        raise seen.wrong(REVOKED_KEY, "must be an absolute path")
    return PemFile(path) if path else None


def _keystore(seen: ListenerProperties, listener: str) -> KeystoreSettings:
    _check_store(seen, _KEYSTORE)
    path, chain, key = (seen.text(name) for name in (f"{_KEYSTORE}.location", _CHAIN, _KEY))
    password = seen.text(_KEY_PASSWORD) or None
    if chain and not key:
        raise seen.wrong(_CHAIN, f"requires {_KEY} as well")
    if key and not chain:
        raise seen.wrong(_KEY, f"requires {_CHAIN} as well")
    if key and path:
        raise seen.wrong(f"{_KEYSTORE}.location", f"can't be combined with {_KEY}: set one of them")
    if key:
        return KeystoreSettings(PemText(chain), PemText(key), password)
    if not path:
        why = f"not set: listener {listener} uses TLS and needs a PEM file with its key, followed by its chain"
        raise SecuritySettingError(seen.key(f"{_KEYSTORE}.location"), why)
    return KeystoreSettings(PemFile(path), PemFile(path), password)


def _truststore(seen: ListenerProperties) -> PemSource | None:
    _check_store(seen, _TRUSTSTORE)
    path, text = seen.text(f"{_TRUSTSTORE}.location"), seen.text(_TRUSTED)
    if path and text:
        raise seen.wrong(
            f"{_TRUSTSTORE}.location", f"can't be combined with {_TRUSTED}: set one of them"
        )
    if text:
        return PemText(text)
    return PemFile(path) if path else None


def _check_store(seen: ListenerProperties, store: str) -> None:
    kind, location = f"{store}.type", f"{store}.location"
    if seen.text(kind, "PEM").upper() != "PEM":
        raise seen.wrong(kind, "must be PEM: Java keystores are not supported")
    if seen.text(f"{store}.password"):
        raise seen.wrong(
            f"{store}.password",
            f"PEM has no store password; for an encrypted key set {_KEY_PASSWORD}",
        )
    if seen.text(location) and not seen.text(location).startswith("/"):
        raise seen.wrong(location, "must be an absolute path")


def _client_auth(seen: ListenerProperties) -> ClientAuth:
    text = seen.text(CLIENT_AUTH_KEY, ClientAuth.REQUIRED.value).lower()
    if text == "requested":
        why = (
            "would let clients in without a certificate, as User:ANONYMOUS: write required, or none"
        )
        raise seen.wrong(CLIENT_AUTH_KEY, why)
    try:
        return ClientAuth(text)
    except ValueError:
        raise seen.wrong(CLIENT_AUTH_KEY, "must be required or none") from None


def _versions(seen: ListenerProperties) -> frozenset[TlsVersion]:
    names = [each.strip() for each in seen.text(_PROTOCOLS, TlsVersion.TLS_1_3.value).split(",")]
    try:
        return frozenset(TlsVersion(name) for name in names)
    except ValueError:
        raise seen.wrong(_PROTOCOLS, "must be TLSv1.3, TLSv1.2 or both, with a comma") from None


def _checks_host(seen: ListenerProperties) -> bool:
    """Kafka disables the check by an empty value, which is easily left by mistake.

    Here the value is `none`.
    """
    name = seen.text(_HOST_CHECK, "https").lower()
    if name not in ("https", "none"):
        raise seen.wrong(_HOST_CHECK, "must be https, or none to accept any name")
    return name == "https"
