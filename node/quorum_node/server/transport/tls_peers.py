"""The certificate at the other end of a connection: who it stands for, and how long it may stay.

Owns what a handshake proves. OpenSSL has verified the chain by then; what it does not know is asked here. Must not know
rights.
"""

import asyncio
import math
from dataclasses import dataclass
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from quorum_node.security.caller import Caller
from quorum_node.security.certificate_identity import (
    CertificateIdentity,
    Role,
    WrongIdentity,
    identity_in,
)
from quorum_node.security.principals.certificate_principal import principal_of
from quorum_node.security.principals.der import MalformedDer
from quorum_node.security.principals.mapping_rules import MappingRules, NoRuleFits
from quorum_node.security.principals.x500 import subject_text
from quorum_node.security.rights.claims import why_not_dialled
from quorum_node.security.tls.certificates import alternative_uris, check_host, check_time, name_of
from quorum_node.security.tls.peers import check_revoked
from quorum_node.security.tls.problems import CertificateProblem
from quorum_node.server.transport.tls_files import TlsFiles


class Unwelcome(Exception):
    """The connection has to end. The message is for the log: who came, and what is wrong."""


@dataclass(frozen=True, slots=True)
class Proven:
    """`not_after`: when the certificate ends, in seconds since 1970."""

    caller: Caller
    certificate: x509.Certificate | None = None
    not_after: float = math.inf


def peer_certificate(transport: asyncio.BaseTransport) -> x509.Certificate | None:
    """What the other side has shown; None without a certificate, or without TLS. Raises Unwelcome."""
    ssl_object = transport.get_extra_info("ssl_object")
    return None if ssl_object is None else certificate_in(ssl_object.getpeercert(binary_form=True))


def certificate_in(der: bytes | None) -> x509.Certificate | None:
    """Of a handshake that is done. Raises Unwelcome."""
    if not der:
        return None
    try:
        return x509.load_der_x509_certificate(der)
    except ValueError:
        raise Unwelcome("shows a certificate that can't be read") from None


def client_proven(
    transport: asyncio.BaseTransport,
    address: str,
    files: TlsFiles,
    listener: str,
    role_rules: MappingRules | None,
    now: datetime,
) -> Proven:
    """Who has connected. Raises Unwelcome."""
    certificate = peer_certificate(transport)
    try:
        if certificate is None:
            anonymous = principal_of(None, files.settings.rules)
            return Proven(Caller(anonymous, address, listener))
        # A session that was resumed is as old as the certificate that it began with.
        check_time(certificate, now, "")
        check_revoked(certificate, files.material.revoked, "")
        principal = principal_of(certificate.public_bytes(Encoding.DER), files.settings.rules)
        identity = identity_of(certificate, files.identity, role_rules)
    except (NoRuleFits, MalformedDer, WrongIdentity) as error:
        shown = "no certificate" if certificate is None else name_of(certificate)
        raise Unwelcome(f"shows {shown}: {error}") from None
    except CertificateProblem as problem:
        raise Unwelcome(str(problem).strip().replace("holds", "shows", 1)) from None
    caller = Caller(principal, address, listener, identity)
    return Proven(caller, certificate, certificate.not_valid_after_utc.timestamp())


def identity_of(
    certificate: x509.Certificate,
    own: CertificateIdentity | None,
    role_rules: MappingRules | None,
) -> CertificateIdentity | None:
    """What a certificate is in the quorum of this node: by its name there, else by the rules. Raises WrongIdentity."""
    named = None
    if own is not None:
        named = identity_in(alternative_uris(certificate), own.namespace, own.quorum)
    if named is not None or role_rules is None:
        return named
    try:
        role = Role(role_rules.name_of(subject_text(certificate.public_bytes(Encoding.DER))))
    except (NoRuleFits, ValueError):
        return None
    return CertificateIdentity(own.namespace, own.quorum, role) if own else _by_rule(role)


def _by_rule(role: Role) -> CertificateIdentity:
    """Without `quorum.identity.binding` a node does not know how its quorum is called."""
    return CertificateIdentity("", "", role)


def check_dialled(
    certificate: x509.Certificate | None,
    host: str,
    node_id: int | None,
    files: TlsFiles,
    now: datetime,
    role: Role = Role.MEMBER,
) -> float:
    """Whether the right one answers; until when its certificate is good, in seconds since 1970. Raises Unwelcome.

    `node_id`: who it has to be, None where any node of that role will do, since only an address is known.
    """
    if certificate is None:
        raise Unwelcome("shows no certificate")
    try:
        check_time(certificate, now, "")
        check_revoked(certificate, files.material.revoked, "")
        if files.settings.checks_host:
            check_host(certificate, host, "")
        own = files.identity
        if own is not None:
            found = identity_in(alternative_uris(certificate), own.namespace, own.quorum)
            why = _why_not_expected(found, node_id, role)
            if why is not None:
                raise Unwelcome(f"is not who was dialled: {why}")
    except WrongIdentity as error:
        raise Unwelcome(f"shows {name_of(certificate)}: {error}") from None
    except CertificateProblem as problem:
        raise Unwelcome(str(problem).strip().replace("holds", "shows", 1)) from None
    return certificate.not_valid_after_utc.timestamp()


def _why_not_expected(
    found: CertificateIdentity | None, node_id: int | None, role: Role
) -> str | None:
    if node_id is not None:
        return why_not_dialled(found, node_id, role)
    if found is None:
        return f"it shows no certificate of a {role.value}"
    return None if found.role is role else f"it shows the certificate {found.uri()}"
