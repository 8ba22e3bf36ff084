"""Checks whether an existing connection may continue. PURE.

Owns the rule: a handshake is valid for its own time only, and connections between members last for
weeks. So the certificate of a peer is checked again whenever trust changes, and when certificates
expire.
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
    """Why the connection has to be closed, None if it may continue. `what`: the peer's address, for
    the log.

    `intermediates`: the authorities between its certificate and a trusted one. Without them the issuer
    itself has to be in the bundle.
    """
    try:
        check_time(peer, now, what)
        check_revoked(peer, revoked, what, intermediates)
    except CertificateProblem as problem:
        return problem
    if trusted_issuer((peer, *intermediates), trust.certificates, now) is None:
        text = f"shows {name_of(peer)}, whose issuer is not trusted any more"
        return CertificateProblem(ProblemKind.UNTRUSTED, what, text)
    return None


def check_revoked(
    certificate: x509.Certificate,
    revoked: RevokedCertificates,
    what: str,
    intermediates: Sequence[x509.Certificate] = (),
) -> None:
    """Check revocation after a handshake: OpenSSL does not. `intermediates`: see `why_close`. Raises CertificateProblem."""
    for each in (certificate, *intermediates):
        if revoked.holds(each):
            raise _revoked(each, what)


def _revoked(certificate: x509.Certificate, what: str) -> CertificateProblem:
    serial = f"{certificate.serial_number:x}"
    text = f"shows {name_of(certificate)} with the serial {serial}, which is revoked"
    return CertificateProblem(ProblemKind.REVOKED, what, text)


def next_expiry(peers: Sequence[x509.Certificate]) -> datetime | None:
    """Earliest expiry of these certificates, the time of the next check; None without any."""
    return min((each.not_valid_after_utc for each in peers), default=None)
