"""Certificate authorities and certificates for tests, made on request.

All properties are arguments. Must not know who checks the certificates.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

NOW = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
DAY = timedelta(days=1)
BOTH_USAGES = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey


def key_pem(key: Key, password: str | None = None) -> bytes:
    """PKCS#8, as Kafka requires."""
    hidden: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password is not None:
        hidden = serialization.BestAvailableEncryption(password.encode())
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, hidden)


def pem(*certificates: x509.Certificate) -> bytes:
    """One after the other."""
    return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in certificates)


@dataclass(frozen=True)
class Issued:
    """A certificate with its key."""

    certificate: x509.Certificate
    key: Key

    @property
    def keystore(self) -> bytes:
        """Key, then certificate."""
        return key_pem(self.key) + pem(self.certificate)


def issue(
    name: str = "demo-1-0",
    *,
    issuer: Issued | None = None,
    key: Key | None = None,
    authority: bool | None = False,
    start: datetime = NOW - DAY,
    end: datetime = NOW + 90 * DAY,
    hosts: tuple[str, ...] = ("demo-1.ns.svc", "10.0.0.1"),
    uris: tuple[str, ...] = (),
    usages: tuple[ObjectIdentifier, ...] | None = BOTH_USAGES,
    further: Mapping[str, bytes] = MappingProxyType({}),
) -> Issued:
    """A certificate, signed by its own key without an issuer. `further`: extensions by OID, in DER."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
    )
    if authority is not None:
        constraints = x509.BasicConstraints(ca=authority, path_length=None)
        builder = builder.add_extension(constraints, critical=True)
    names: list[x509.GeneralName] = [_general_name(host) for host in hosts]
    names += [x509.UniformResourceIdentifier(uri) for uri in uris]
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    if usages is not None:
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    for oid, value in further.items():
        extension = x509.UnrecognizedExtension(ObjectIdentifier(oid), value)
        builder = builder.add_extension(extension, critical=False)
    signing = issuer.key if issuer else key
    algorithm = None if isinstance(signing, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return Issued(builder.sign(signing, algorithm), key)


def authority(name: str = "ca-1", *, issuer: Issued | None = None, **wishes: datetime) -> Issued:
    """A certificate authority, of itself or of another one."""
    end = wishes.get("end", NOW + 1825 * DAY)
    start = wishes.get("start", NOW - DAY)
    return issue(name, issuer=issuer, authority=True, start=start, end=end, hosts=(), usages=None)


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
