"""Whether a connection that once was let in may go on. PURE.

Owns the rule: a handshake proves something about its own moment only, and connections between members live for weeks. So the
certificate of a peer is asked again whenever trust changes, and as time goes by.
"""

from collections.abc import Sequence
from datetime import datetime

from cryptography import x509

from quorum_node.security.tls.certificates import check_time, name_of, trusted_issuer
from quorum_node.security.tls.key_pairs import TrustBundle
from quorum_node.security.tls.problems import CertificateProblem, ProblemKind
from quorum_node.security.tls.revocation import RevokedCertificates


def why_close(
    peer: x509.Certificate,
    trust: TrustBundle,
    revoked: RevokedCertificates,
    now: datetime,
    what: str,
    intermediates: Sequence[x509.Certificate] = (),
) -> CertificateProblem | None:
    """Why the connection has to end, None if it may go on. `what`: the peer's address, for the log.

    `intermediates`: what the peer sent beside its own certificate, where the TLS library tells. Without them only an issuer
    that is in the bundle itself counts.
    """
    try:
        check_time(peer, now, what)
    except CertificateProblem as problem:
        return problem
    if revoked.holds(peer):
        return _revoked(peer, what)
    if trusted_issuer((peer, *intermediates), trust.certificates, now) is None:
        text = f"shows {name_of(peer)}, whose issuer is trusted no more"
        return CertificateProblem(ProblemKind.UNTRUSTED, what, text)
    return None


def check_revoked(certificate: x509.Certificate, revoked: RevokedCertificates, what: str) -> None:
    """Of a handshake that is done: OpenSSL was not asked. Raises CertificateProblem."""
    if revoked.holds(certificate):
        raise _revoked(certificate, what)


def _revoked(certificate: x509.Certificate, what: str) -> CertificateProblem:
    serial = f"{certificate.serial_number:x}"
    text = f"shows {name_of(certificate)} with the serial {serial}, which is revoked"
    return CertificateProblem(ProblemKind.REVOKED, what, text)


def next_expiry(peers: Sequence[x509.Certificate]) -> datetime | None:
    """When the first of these certificates ends, so that nobody has to ask before; None without any."""
    return min((each.not_valid_after_utc for each in peers), default=None)
