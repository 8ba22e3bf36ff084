"""The TLS part of `GET /v1/node`. It contains no secrets."""

import hashlib
from datetime import datetime

from cryptography import x509

from quorum_node.api import CertificateModel, TlsDescription
from quorum_node.security.tls.certificates import summary, trusted_issuer
from quorum_node.security.tls.material import Material


def tls_document(material: Material) -> TlsDescription:
    """Describe the material in use."""
    chain, trust = material.pair.chain, material.trust
    authorities = () if trust is None else trust.certificates
    issuer = trusted_issuer(chain, authorities, None)
    trusted = [_certificate(each) for each in authorities]
    fingerprints = sorted(each.sha256 for each in trusted)
    return TlsDescription(
        certificate=_certificate(chain[0]),
        issuer_sha256=None if issuer is None else summary(issuer).sha256,
        trusted=trusted,
        trust_sha256=_digest(fingerprints),
        revoked=len(material.revoked),
        revoked_sha256=_digest(sorted(f"{each:x}" for each in material.revoked.all_serials())),
    )


def _digest(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _certificate(certificate: x509.Certificate) -> CertificateModel:
    found = summary(certificate)
    return CertificateModel(
        subject=found.subject,
        serial=found.serial,
        sha256=found.sha256,
        not_before=_text(found.not_before),
        not_after=_text(found.not_after),
    )


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")
