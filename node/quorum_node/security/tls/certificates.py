"""Checks of certificates: validity, issuer, host names, and their summary for logs. PURE."""

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding

from quorum_node.security.principals.der import MalformedDer
from quorum_node.security.principals.x500 import subject_text
from quorum_node.security.tls.problems import CertificateProblem, ProblemKind

MAX_PATH = 10


def name_of(certificate: x509.Certificate) -> str:
    """The subject in the form of rules and entries, for messages."""
    try:
        return subject_text(certificate.public_bytes(Encoding.DER)) or "(no subject)"
    except MalformedDer:
        return "(a subject that can't be read)"


def check_time(certificate: x509.Certificate, now: datetime, what: str) -> None:
    """Check the validity period. Raises CertificateProblem; its message has the time, as the clock may be wrong."""
    name, clock = name_of(certificate), f"; the clock of this host says {_time(now)}"
    if now < certificate.not_valid_before_utc:
        since = _time(certificate.not_valid_before_utc)
        text = f"holds {name}, valid from {since} on"
        raise CertificateProblem(ProblemKind.NOT_YET_VALID, what, text, clock)
    if now > certificate.not_valid_after_utc:
        until = _time(certificate.not_valid_after_utc)
        text = f"holds {name}, which expired at {until}"
        raise CertificateProblem(ProblemKind.EXPIRED, what, text, clock)


def trusted_issuer(
    chain: Sequence[x509.Certificate],
    trusted: Iterable[x509.Certificate],
    now: datetime | None,
) -> x509.Certificate | None:
    """The trusted certificate at the end of a chain, by signatures; None if there is none.

    With a time, every certificate of the chain has to be valid then. Used for messages and for the
    order of a chain only: OpenSSL decides on connections.
    """
    anchors = tuple(trusted)
    current = chain[0]
    for _ in range(MAX_PATH):
        for anchor in anchors:
            if anchor == current or _signed(current, anchor, now):
                return anchor
        issuer = next((each for each in chain[1:] if _signed(current, each, now)), None)
        if issuer is None or issuer == current:
            return None
        current = issuer
    return None


def check_host(certificate: x509.Certificate, host: str, what: str) -> None:
    """Check that it is valid for this DNS name or address (RFC 6125: subject alternative names only).

    Raises CertificateProblem.
    """
    names, addresses = alternative_names(certificate)
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        fits = any(_is_name(pattern, host) for pattern in names)
    else:
        fits = address in addresses
    if not fits:
        has = ", ".join((*names, *map(str, addresses))) or "no host"
        text = f"shows {name_of(certificate)}, a certificate for {has}, not for {host}"
        raise CertificateProblem(ProblemKind.WRONG_HOST, what, text)


def alternative_names(
    certificate: x509.Certificate,
) -> tuple[tuple[str, ...], tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, ...]]:
    """DNS names, and addresses."""
    found = _alternatives(certificate)
    if found is None:
        return (), ()
    addresses = found.get_values_for_type(x509.IPAddress)
    return tuple(found.get_values_for_type(x509.DNSName)), tuple(
        each
        for each in addresses
        if isinstance(each, ipaddress.IPv4Address | ipaddress.IPv6Address)
    )


def alternative_uris(certificate: x509.Certificate) -> tuple[str, ...]:
    """URIs, which contain the identity of a node (`certificate_identity.py`)."""
    found = _alternatives(certificate)
    return () if found is None else tuple(found.get_values_for_type(x509.UniformResourceIdentifier))


@dataclass(frozen=True, slots=True)
class CertificateSummary:
    """Description of a certificate for logs, metrics and `GET /v1/node`. Contains no secret."""

    subject: str
    serial: str
    sha256: str
    not_before: datetime
    not_after: datetime


def summary(certificate: x509.Certificate) -> CertificateSummary:
    """The summary of a certificate."""
    return CertificateSummary(
        name_of(certificate),
        f"{certificate.serial_number:x}",
        certificate.fingerprint(SHA256()).hex(),
        certificate.not_valid_before_utc,
        certificate.not_valid_after_utc,
    )


def _alternatives(certificate: x509.Certificate) -> x509.SubjectAlternativeName | None:
    try:
        return certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return None


def _is_name(pattern: str, host: str) -> bool:
    """Match a DNS name. A star stands for the whole first label of a name with at least two more."""
    pattern, host = pattern.lower().rstrip("."), host.lower().rstrip(".")
    if pattern == host:
        return bool(host)
    star, _, rest = pattern.partition(".")
    label, _, parent = host.partition(".")
    return star == "*" and bool(label) and "." in rest and rest == parent


def _signed(certificate: x509.Certificate, issuer: x509.Certificate, now: datetime | None) -> bool:
    if now is not None and not issuer.not_valid_before_utc <= now <= issuer.not_valid_after_utc:
        return False
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")
