"""Credentials of a client of a quorum: the `sasl.*` keys of Kafka's `--command-config`. PURE.

Owns which values are accepted. No message contains any part of a password. Must not know the
exchange (`security/scram`).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from quorum_node.security.scram.mechanism import MECHANISMS, ScramMechanism

MECHANISM, JAAS = "sasl.mechanism", "sasl.jaas.config"
USER, PASSWORD = "sasl.username", "sasl.password"
SASL_KEYS = frozenset({MECHANISM, JAAS, USER, PASSWORD})
_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_OPTION = re.compile(
    r"""\s*([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))"""
)


class ClientSaslError(ValueError):
    """Settings that can't be used."""


@dataclass(frozen=True, slots=True)
class ClientSasl:
    """A user of SCRAM."""

    mechanism: ScramMechanism
    user: str
    password: str = field(repr=False)


def sasl_of(told: Mapping[str, str]) -> ClientSasl:
    """SASL settings of a client's properties. Raises ClientSaslError."""
    for key in told:
        if key.startswith("sasl.") and key not in SASL_KEYS:
            raise ClientSaslError(
                f"{key} is not supported; supported keys: {', '.join(sorted(SASL_KEYS))}"
            )
    name = told.get(MECHANISM, "").strip().upper()
    mechanism = MECHANISMS.get(name)
    if mechanism is None:
        raise ClientSaslError(f"{MECHANISM}={name}: write one of {', '.join(MECHANISMS)}")
    user, password = told.get(USER, ""), told.get(PASSWORD, "")
    if told.get(JAAS):
        if user or password:
            raise ClientSaslError(
                f"{JAAS} can't be combined with {USER} and {PASSWORD}: set one or the other"
            )
        options = _options(told[JAAS])
        user, password = options.get("username", ""), options.get("password", "")
    if not user or not password:
        raise ClientSaslError(
            f"the user or the password is missing: set {USER} and {PASSWORD}, or {JAAS}"
        )
    return ClientSasl(mechanism, user, password)


def _options(text: str) -> dict[str, str]:
    """Options of a JAAS line: `MODULE required name="value" …;`."""
    module, flag, rest = (*text.split(None, 2), "", "", "")[:3]
    if module != _MODULE or flag.lower() != "required" or not rest.rstrip().endswith(";"):
        raise ClientSaslError(f'{JAAS}: write {_MODULE} required username="…" password="…";')
    rest, found = rest.rstrip()[:-1], dict[str, str]()
    while rest.strip():
        option = _OPTION.match(rest)
        if option is None:
            raise ClientSaslError(f'{JAAS}: an option is not name="value"')
        quoted = option[2] if option[2] is not None else option[3]
        value = option[4] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        found[option[1]] = value
        rest = rest[option.end() :]
    return found
