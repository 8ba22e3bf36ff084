"""Generates keys and signs certificates: ECDSA on P-256, PEM, keys in PKCS#8, which Java can read.

The only module of this package that uses randomness. Each certificate has a new key.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from quorum_operator.certificates import lifetimes
from quorum_operator.certificates.holders import Holder
from quorum_operator.certificates.lifetimes import Validity
from quorum_operator.certificates.pem import Read, load_key, read
from quorum_operator.desired.names import Owner

_OIDS = {
    "O": NameOID.ORGANIZATION_NAME,
    "OU": NameOID.ORGANIZATIONAL_UNIT_NAME,
    "CN": NameOID.COMMON_NAME,
}


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, which `repr` omits. `above`: the issuers, up to the trusted one."""

    certificate: Read
    key_pem: str = field(repr=False)
    above: tuple[Read, ...] = ()

    @property
    def chain_pem(self) -> str:
        """The certificate followed by its issuers."""
        return "".join(each.pem for each in (self.certificate, *self.above))


def new_authority(owner: Owner, generation: int, now: float) -> Pair:
    """The self-signed authority of a quorum. Its name contains the generation, because authorities with equal names
    are confused.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name((("O", f"{owner.name}.{owner.namespace}"), ("CN", f"quorum CA {generation}")))
    signs = _usage(sign=False, authority=True)
    made = (
        _begun(name, name, key.public_key(), lifetimes.of_authority(now))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(signs, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _pair(made, key)


def issue(owner: Owner, holder: Holder, authority: Pair, now: float) -> Pair:
    """A certificate for this holder, with a new key; for clients and servers, as members and brokers are both."""
    key = ec.generate_private_key(ec.SECP256R1())
    signer = load_key(authority.key_pem)
    parent = x509.load_pem_x509_certificate(authority.certificate.pem.encode())
    validity = lifetimes.of_leaf(holder.role, now, authority.certificate.validity)
    identity = holder.identity(owner).uri()
    names: list[x509.GeneralName] = [x509.DNSName(each) for each in holder.dns_names]
    names.append(x509.UniformResourceIdentifier(identity))
    uses = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
    made = (
        _begun(_name(holder.subject(owner)), parent.subject, key.public_key(), validity)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(sign=True, authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(_issuer_key_id(parent), critical=False)
        .sign(signer, None if isinstance(signer, ed25519.Ed25519PrivateKey) else hashes.SHA256())
    )
    return _pair(made, key)


def _issuer_key_id(parent: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    """The authority's subject key identifier as it is written there. It has to be copied, because OpenSSL ignores an
    issuer with a different identifier.
    """
    try:
        own = parent.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:
        key = parent.public_key()
        return x509.AuthorityKeyIdentifier(
            x509.SubjectKeyIdentifier.from_public_key(key).digest, None, None
        )
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own)


def _name(parts: tuple[tuple[str, str], ...]) -> x509.Name:
    return x509.Name([x509.NameAttribute(_OIDS[kind], text) for kind, text in parts])


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, validity: Validity
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.fromtimestamp(int(validity.not_before), UTC))
        .not_valid_after(datetime.fromtimestamp(int(validity.not_after), UTC))
    )


def _usage(*, sign: bool, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def _pair(made: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
    return Pair(read(made.public_bytes(serialization.Encoding.PEM)), text)
