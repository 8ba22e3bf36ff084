"""Keys: what listeners that speak TLS present, trust and demand (KIP-651 for PEM), who a certificate stands for, and SASL.

`ssl.*` are texts here: what they say is read and checked together (`security/tls/ssl_settings.py`).
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
    "ssl.keystore.type": (_WORD, "`PEM`", "the form of the keystore"),
    "ssl.keystore.location": (
        _PATH,
        "",
        "a PEM file with the private key, then the certificate, then its issuers. It is read again when it changes",
    ),
    "ssl.keystore.password": ("", "", "refused: PEM has no such password"),
    "ssl.keystore.certificate.chain": (_PEM, "", "the chain itself, instead of a file"),
    "ssl.keystore.key": (_PEM, "", "the private key itself, instead of a file"),
    "ssl.key.password": ("text", "", "of an encrypted private key"),
    "ssl.truststore.type": (_WORD, "`PEM`", "the form of the truststore"),
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
        "ours: a file with the serials of revoked certificates in hexadecimal digits, one a line, or with revocation lists (CRL) in PEM and serials in lines `serial=…` beside them. It is read again when it changes. Who shows one of them is refused, and connections that were let in before end",
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
    "ours: how often the files of certificates are looked at. New connections use what is new; nothing is restarted",
)
HANDSHAKE_TIMEOUT = Key(
    "quorum.handshake.timeout.ms",
    Integer(100, HOUR_MS),
    5000,
    "ours: a handshake of TLS that has not ended by then ends its connection. After it a client of a SASL listener has as long to log in",
)
HANDSHAKES_MAX = Key(
    "quorum.handshakes.max",
    Integer(1, 10_000),
    64,
    "ours: handshakes of a listener at a time, and as many clients that have not logged in. For one more the oldest of the address with the most is given up",
)
HANDSHAKES_RATE = Key(
    "quorum.handshakes.rate",
    Integer(1, MANY),
    100,
    "ours: handshakes of a listener that begin in a second, each address in its turn; each takes a millisecond of the node's time",
)
IDENTITY_BINDING = Key(
    "quorum.identity.binding",
    Boolean(),
    True,
    "ours: certificates of members and brokers name the node id that they may use, `urn:metadataquorum:NAMESPACE:QUORUM:ROLE:ID`; this node's own has to, and so has that of every member it dials",
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
    "how clients log in to listeners with `SASL_PLAINTEXT` or `SASL_SSL`; such a listener needs this key",
    scope=Scope.LISTENER,
    shown="",
)
MAX_REAUTH = Key(
    "connections.max.reauth.ms",
    Integer(0, MANY),
    0,
    "a login by SASL is good for that long: a client that has not logged in again by then is disconnected. 0: as long as its connection",
    scope=Scope.LISTENER,
)
FAILED_LOGIN_DELAY = Key(
    "connection.failed.authentication.delay.ms",
    Integer(0, 4000),
    100,
    "how late a failed login is answered",
)
MAX_LOGIN_BYTES = Key(
    "sasl.server.max.receive.size",
    Integer(1 << 10, 1 << 20),
    64 << 10,
    "a larger request is refused before the login",
    scope=Scope.LISTENER,
    shown="64 KiB",
)
MIGRATION = Key(
    "quorum.tls.migration",
    Choice(("none", "accept", "dial")),
    "none",
    "ours: while a quorum goes from clear text to TLS, one restart of a member at a time. `accept`: the listener that members dial"
    " and an `https` admin port take clear text beside TLS on the same port, the health port serves the whole admin API, and"
    " members are dialled in clear text. `dial`: the same, and members are dialled by TLS. All members need `accept` before the"
    " first one gets `dial`, and `dial` before the first one gets `none`",
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
