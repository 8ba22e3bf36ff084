"""Checks the certificate of a connection's peer: its identity, and until when it is valid.

Called after OpenSSL has verified the chain; makes the checks that OpenSSL does not. Must not know rights.
"""

import asyncio
import math
import ssl
from dataclasses import dataclass
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from quorum_node.security.caller import Caller
from quorum_node.security.certificate_identity import (
    ROLES_WITH_ID,
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
from quorum_node.security.tls.key_pairs import TrustBundle
from quorum_node.security.tls.peers import check_revoked
from quorum_node.security.tls.problems import CertificateProblem
from quorum_node.security.tls.unreadable import UNREADABLE, read_certificate
from quorum_node.server.transport.tls_files import TlsFiles
from quorum_node.server.transport.verified_chain import authorities


class PeerRejected(Exception):
    """The connection has to be closed. The message is for the log: the peer, and the problem."""


@dataclass(frozen=True, slots=True)
class PeerIdentity:
    """`not_after`: when the first certificate of its chain expires, in seconds since 1970."""

    caller: Caller
    certificate: x509.Certificate | None = None
    not_after: float = math.inf
    intermediates: tuple[x509.Certificate, ...] = ()


@dataclass(frozen=True, slots=True)
class ShownChain:
    """What a peer has proved in the handshake. `intermediates`: the authorities between its certificate and a trusted one.

    `trusted`: the authorities of the chain that this node trusts.
    """

    certificate: x509.Certificate
    intermediates: tuple[x509.Certificate, ...] = ()
    trusted: tuple[x509.Certificate, ...] = ()

    @property
    def not_after(self) -> float:
        """When the first of them expires, in seconds since 1970. A certificate may outlive its issuer."""
        every = (self.certificate, *self.intermediates, *self.trusted)
        return min(each.not_valid_after_utc.timestamp() for each in every)


def peer_chain(transport: asyncio.BaseTransport, trust: TrustBundle | None) -> ShownChain | None:
    """The peer's certificates; None without a certificate, or without TLS. Raises PeerRejected."""
    ssl_object = transport.get_extra_info("ssl_object")
    return None if ssl_object is None else chain_of(ssl_object, trust)


def chain_of(
    connection: ssl.SSLObject | ssl.SSLSocket, trust: TrustBundle | None
) -> ShownChain | None:
    """The same for a connection after its handshake. Raises PeerRejected."""
    certificate = certificate_in(connection.getpeercert(binary_form=True))
    if certificate is None:
        return None
    anchors = () if trust is None else trust.certificates
    try:
        above = authorities(connection)
    except UNREADABLE as error:
        text = f"shows a chain that can't be read ({type(error).__name__})"
        raise PeerRejected(text) from None
    between = tuple(each for each in above if each not in anchors)
    return ShownChain(certificate, between, tuple(each for each in above if each in anchors))


def certificate_in(der: bytes | None) -> x509.Certificate | None:
    """The certificate of a completed handshake, from its DER form. Raises PeerRejected."""
    if not der:
        return None
    try:
        return read_certificate(der)
    except UNREADABLE as error:
        text = f"shows a certificate that can't be read ({type(error).__name__})"
        raise PeerRejected(text) from None


def client_identity(
    transport: asyncio.BaseTransport,
    address: str,
    files: TlsFiles,
    listener: str,
    role_rules: MappingRules | None,
    now: datetime,
) -> PeerIdentity:
    """The identity of a client. Raises PeerRejected."""
    shown = peer_chain(transport, files.trust)
    if shown is None:
        anonymous = principal_of(None, files.settings.rules)
        return PeerIdentity(Caller(anonymous, address, listener))
    certificate = shown.certificate
    try:
        # A resumed session is only as valid as its original certificate.
        check_time(certificate, now, "")
        check_revoked(certificate, files.material.revoked, "", shown.intermediates)
        principal = principal_of(certificate.public_bytes(Encoding.DER), files.settings.rules)
        identity = identity_of(certificate, files.identity, role_rules)
    except (NoRuleFits, MalformedDer, WrongIdentity) as error:
        raise PeerRejected(f"shows {name_of(certificate)}: {error}") from None
    except CertificateProblem as problem:
        raise PeerRejected(str(problem).strip().replace("holds", "shows", 1)) from None
    except UNREADABLE as error:
        raise unreadable(certificate, error) from None
    caller = Caller(principal, address, listener, identity)
    return PeerIdentity(caller, certificate, shown.not_after, shown.intermediates)


def identity_of(
    certificate: x509.Certificate,
    own: CertificateIdentity | None,
    role_rules: MappingRules | None,
) -> CertificateIdentity | None:
    """The identity of a certificate in this node's quorum: by its name, else by the mapping rules. Raises WrongIdentity.

    Rules give no role of a node: a broker without an id could act for any user in an Envelope.
    """
    named = None
    if own is not None:
        named = identity_in(alternative_uris(certificate), own.namespace, own.quorum)
    if named is not None or role_rules is None:
        return named
    try:
        role = Role(role_rules.name_of(subject_text(certificate.public_bytes(Encoding.DER))))
    except (NoRuleFits, ValueError):
        return None
    if role in ROLES_WITH_ID:
        return None
    return CertificateIdentity(own.namespace, own.quorum, role) if own else _by_rule(role)


def _by_rule(role: Role) -> CertificateIdentity:
    """The identity if this node's certificate does not name its quorum: a role without namespace and quorum."""
    return CertificateIdentity("", "", role)


def check_dialled(
    shown: ShownChain | None,
    host: str,
    node_id: int | None,
    files: TlsFiles,
    now: datetime,
    role: Role = Role.MEMBER,
) -> float:
    """Check that the expected node answers. Returns when its certificates expire, in seconds since 1970. Raises PeerRejected.

    `node_id`: the expected node; None if any node of that role is accepted, because only an address is known.
    """
    if shown is None:
        raise PeerRejected("shows no certificate")
    certificate = shown.certificate
    try:
        check_time(certificate, now, "")
        check_revoked(certificate, files.material.revoked, "", shown.intermediates)
        if files.settings.checks_host:
            check_host(certificate, host, "")
        own = files.identity
        if own is not None:
            found = identity_in(alternative_uris(certificate), own.namespace, own.quorum)
            why = _why_not_expected(found, node_id, role)
            if why is not None:
                raise PeerRejected(f"is not the expected node: {why}")
    except WrongIdentity as error:
        raise PeerRejected(f"shows {name_of(certificate)}: {error}") from None
    except CertificateProblem as problem:
        raise PeerRejected(str(problem).strip().replace("holds", "shows", 1)) from None
    except UNREADABLE as error:
        raise unreadable(certificate, error) from None
    return shown.not_after


def unreadable(certificate: x509.Certificate, error: Exception) -> PeerRejected:
    """One of UNREADABLE, which is raised only when a part of the certificate is needed, such as the name of its issuer."""
    text = f"shows {name_of(certificate)}, which can't be read completely ({type(error).__name__})"
    return PeerRejected(text)


def _why_not_expected(
    found: CertificateIdentity | None, node_id: int | None, role: Role
) -> str | None:
    if node_id is not None:
        return why_not_dialled(found, node_id, role)
    if found is None:
        return f"it shows no certificate of a {role.value}"
    return None if found.role is role else f"it shows the certificate {found.uri()}"
