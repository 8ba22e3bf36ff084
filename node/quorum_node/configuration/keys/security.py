"""Keys of TLS and SASL on listeners (KIP-651 for PEM), and of identities in certificates.

`ssl.*` values are texts here: they are parsed and checked together
(`security/tls/ssl_settings.py`).
"""

from collections.abc import Mapping
from typing import Any

from quorum_node.configuration.key import Key, Scope
from quorum_node.configuration.value_kinds import (
    HOUR_MS,
    MANY,
    Boolean,
    Choice,
    Integer,
    RoleRules,
    Text,
)
from quorum_node.security.principals.mapping_rules import MappingRules
from quorum_node.security.tls.listener_security import MECHANISMS_KEY
from quorum_node.security.tls.ssl_settings import REVOKED_KEY, SSL_KEYS

_PATH, _WORD, _PEM = "absolute path", "`PEM`", "PEM"
_DOCS: Mapping[str, tuple[str, str, str]] = {
    "ssl.keystore.type": (_WORD, "`PEM`", "format of the keystore"),
    "ssl.keystore.location": (
        _PATH,
        "",
        "a PEM file with the private key, then the certificate, then its issuers. It is read again when it changes",
    ),
    "ssl.keystore.password": ("", "", "refused: PEM has no such password"),
    "ssl.keystore.certificate.chain": (_PEM, "", "the chain itself, instead of a file"),
    "ssl.keystore.key": (_PEM, "", "the private key itself, instead of a file"),
    "ssl.key.password": ("text", "", "of an encrypted private key"),
    "ssl.truststore.type": (_WORD, "`PEM`", "format of the truststore"),
    "ssl.truststore.location": (
        _PATH,
        "",
        "a PEM file with the authorities whose certificates are accepted. It is read again when it changes",
    ),
    "ssl.truststore.password": ("", "", "refused: PEM has no such password"),
    "ssl.truststore.certificates": (_PEM, "", "the authorities themselves, instead of a file"),
    "ssl.client.auth": (
        "`required`, `none`",
        "`required`",
        "whether a client has to show a certificate; `requested` is refused. Without this key the admin port takes a certificate, or the admin token. For a listener with `SASL_SSL` the key counts with the listener's name alone, and without it no certificate is asked for, as in Kafka",
    ),
    "ssl.enabled.protocols": ("`TLSv1.3`, `TLSv1.2`", "`TLSv1.3`", "the versions of TLS"),
    "ssl.cipher.suites": ("names of suites, with commas", "OpenSSL's", "for TLS 1.2 alone"),
    "ssl.principal.mapping.rules": (
        "Kafka's rules",
        "`DEFAULT`",
        "from the subject of a certificate to the name of its principal",
    ),
    "ssl.endpoint.identification.algorithm": (
        "`https`, `none`",
        "`https`",
        "whether the certificate of a member that is dialled has to name its host",
    ),
    REVOKED_KEY: (
        _PATH,
        "",
        "ours: a file with the serial numbers of revoked certificates in hexadecimal digits, one per line, or with revocation lists (CRL) in PEM and serial numbers in lines `serial=…` beside them. It is read again when it changes. New connections with such a certificate are refused, and existing ones are closed",
    ),
}
"""Value, default and meaning."""

SSL: Mapping[str, Key[str]] = {
    name: Key(
        name,
        Text(_DOCS[name][0]),
        "",
        _DOCS[name][2],
        scope=Scope.LISTENER,
        shown=_DOCS[name][1],
    )
    for name in SSL_KEYS
}

FILES_POLL = Key(
    "quorum.files.poll.ms",
    Integer(100, HOUR_MS),
    5000,
    "ours: interval of the check of certificate files for changes. New connections use new certificates without a restart",
)
HANDSHAKE_TIMEOUT = Key(
    "quorum.handshake.timeout.ms",
    Integer(100, HOUR_MS),
    5000,
    "ours: time limit of a TLS handshake; after it the connection is closed. A client of a SASL listener then has the same time to log in",
)
HANDSHAKES_MAX = Key(
    "quorum.handshakes.max",
    Integer(1, 10_000),
    64,
    "ours: maximum number of concurrent handshakes of a listener, and of clients that have not logged in. Above it the oldest one of the address with the most is closed",
)
HANDSHAKES_RATE = Key(
    "quorum.handshakes.rate",
    Integer(1, MANY),
    100,
    "ours: maximum number of handshakes of a listener per second, and of logins that begin at a listener with `SASL_PLAINTEXT`, with addresses in turn; each takes about a millisecond of CPU time",
)
IDENTITY_BINDING = Key(
    "quorum.identity.binding",
    Boolean(),
    True,
    "ours: whether certificates of members and brokers have to contain their node id as `urn:metadataquorum:NAMESPACE:QUORUM:ROLE:ID`. This applies to the node's own certificate and to those of all members to which it connects",
)
ROLE_RULES: Key[MappingRules | None] = Key(
    "quorum.role.mapping.rules",
    RoleRules("quorum.role.mapping.rules"),
    None,
    "ours: from the subject of a certificate without such a name to one of the roles `operator`, `admin`, `reader`, `archiver`",
)

MECHANISMS = Key(
    MECHANISMS_KEY,
    Text("`SCRAM-SHA-512`, `SCRAM-SHA-256`"),
    "",
    "SASL mechanisms of listeners with `SASL_PLAINTEXT` or `SASL_SSL`; required for such a listener",
    scope=Scope.LISTENER,
    shown="",
)
MAX_REAUTH = Key(
    "connections.max.reauth.ms",
    Integer(0, MANY),
    0,
    "lifetime of a SASL login: a client that has not logged in again by then is disconnected. 0: lifetime of the connection",
    scope=Scope.LISTENER,
)
FAILED_LOGIN_DELAY = Key(
    "connection.failed.authentication.delay.ms",
    Integer(0, 4000),
    100,
    "delay of the response to a failed login",
)
MAX_LOGIN_BYTES = Key(
    "sasl.server.max.receive.size",
    Integer(1 << 10, 1 << 20),
    64 << 10,
    "maximum size of a request before the login",
    scope=Scope.LISTENER,
    shown="64 KiB",
)
MIGRATION = Key(
    "quorum.tls.migration",
    Choice(("none", "accept", "dial")),
    "none",
    "ours: steps of a migration of a quorum from clear text to TLS by rolling restarts. `accept`: the members' listener and an `https` admin port accept clear text as well as TLS, the health port serves the whole admin API, and connections to members use clear text. `dial`: the same, but connections to members use TLS. All members need `accept` before the first one gets `dial`, and `dial` before the first one gets `none`",
)

SECTIONS: Mapping[str, tuple[Key[Any], ...]] = {
    "Security": (
        *SSL.values(),
        FILES_POLL,
        HANDSHAKE_TIMEOUT,
        HANDSHAKES_MAX,
        HANDSHAKES_RATE,
        IDENTITY_BINDING,
        ROLE_RULES,
        MECHANISMS,
        MAX_REAUTH,
        FAILED_LOGIN_DELAY,
        MAX_LOGIN_BYTES,
        MIGRATION,
    ),
}
