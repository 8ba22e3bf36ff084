"""Loads a key with its chain, and a bundle of trusted certificates, from PEM, and checks them
before OpenSSL does. PURE.

Owns the checks. The caller reads the files and passes the time. A returned pair can be loaded by
OpenSSL.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes, PublicKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID

from quorum_node.security.tls.certificates import check_time, name_of, trusted_issuer
from quorum_node.security.tls.pem import PemBlock, pem_blocks
from quorum_node.security.tls.problems import CertificateProblem, ProblemKind
from quorum_node.security.tls.unreadable import UNREADABLE, read_certificate

MAX_CHAIN = 10
MAX_TRUSTED = 200
MIN_RSA_BITS = 2048
_CERTIFICATE = ("CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE")
_USAGES = {
    "server": ExtendedKeyUsageOID.SERVER_AUTH,
    "client": ExtendedKeyUsageOID.CLIENT_AUTH,
}


@dataclass(frozen=True, slots=True)
class KeyPair:
    """`chain`: the leaf first.

    The two texts are the input of `SSLContext.load_cert_chain`; the key is decrypted.
    """

    chain: tuple[x509.Certificate, ...]
    chain_pem: bytes = field(repr=False)
    key_pem: bytes = field(repr=False)

    @property
    def leaf(self) -> x509.Certificate:
        """The certificate of this node."""
        return self.chain[0]


@dataclass(frozen=True, slots=True)
class TrustBundle:
    """`expired`: certificates that are not used any more, for a warning."""

    certificates: tuple[x509.Certificate, ...]
    expired: tuple[x509.Certificate, ...]
    pem: bytes = field(repr=False)


def load_key_pair(
    chain: bytes, key: bytes, password: str | None, now: datetime, what: str
) -> KeyPair:
    """The pair in PEM; both arguments may be the same bytes.

    `what`: the file, for messages. Raises CertificateProblem.
    """
    chain_blocks = [each for each in pem_blocks(chain, what) if each.label in _CERTIFICATE]
    key_blocks = [each for each in pem_blocks(key, what) if each.label.endswith("PRIVATE KEY")]
    if not chain_blocks or len(chain_blocks) > MAX_CHAIN:
        count = f"{len(chain_blocks)} certificates: there must be from 1 to {MAX_CHAIN}"
        raise CertificateProblem(ProblemKind.MALFORMED, what, f"holds {count}")
    if len(key_blocks) != 1:
        count = f"{len(key_blocks)} private keys: there must be one"
        raise CertificateProblem(ProblemKind.NO_KEY, what, f"holds {count}")
    certificates = tuple(_certificate(each, what) for each in chain_blocks)
    private_key = _private_key(key_blocks[0], password, what)
    leaf = certificates[0]
    if _public_bytes(private_key.public_key()) != _public_bytes(_public_key(leaf, what)):
        text = f"contains a key that does not match its first certificate, {name_of(leaf)}"
        raise CertificateProblem(ProblemKind.KEY_DOES_NOT_MATCH, what, text)
    _check_chain(certificates, what)
    for certificate in certificates:
        check_time(certificate, now, what)
    _check_usages(leaf, what)
    return KeyPair(
        certificates,
        _pem(certificates),
        private_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )


def load_trust(data: bytes, now: datetime, what: str) -> TrustBundle:
    """The trusted certificates. Expired ones are left out; it is an error if all are. Raises as above."""
    blocks = [each for each in pem_blocks(data, what) if each.label in _CERTIFICATE]
    if not blocks or len(blocks) > MAX_TRUSTED:
        count = f"{len(blocks)} certificates: there must be from 1 to {MAX_TRUSTED}"
        raise CertificateProblem(ProblemKind.MALFORMED, what, f"holds {count}")
    certificates = [_certificate(each, what) for each in blocks]
    for certificate in certificates:
        if not _may_be_trusted(certificate, what):
            text = f"trusts {name_of(certificate)}, which is not the certificate of an authority"
            raise CertificateProblem(ProblemKind.WRONG_USAGE, what, text)
    expired = tuple(each for each in certificates if each.not_valid_after_utc < now)
    if len(expired) == len(certificates):
        check_time(certificates[0], now, what)
    current = tuple(each for each in certificates if each not in expired)
    return TrustBundle(current, expired, _pem(current))


def check_own_trust(pair: KeyPair, trust: TrustBundle, now: datetime, what: str) -> None:
    """Check that a node trusts its own certificate, as its peers have the same trust.

    Raises CertificateProblem.
    """
    if trusted_issuer(pair.chain, trust.certificates, now) is None:
        known = trusted_issuer(pair.chain, trust.certificates, None)
        if known is not None:  # the right authority, at the wrong time: a clock may be the reason
            check_time(known, now, f"the truststore for {what}")
        names = ", ".join(name_of(each) for each in trust.certificates[:5])
        text = f"has a chain that ends at {name_of(pair.chain[-1])}, which is not trusted; trusted certificates: {names}"
        raise CertificateProblem(ProblemKind.UNTRUSTED, what, text)


def _pem(certificates: Iterable[x509.Certificate]) -> bytes:
    """The certificates in a form that OpenSSL accepts: a block in a file may have header lines, with any text."""
    return b"".join(each.public_bytes(Encoding.PEM) for each in certificates)


def _certificate(block: PemBlock, what: str) -> x509.Certificate:
    try:
        return read_certificate(block.der)
    except UNREADABLE as error:
        text = f"holds a certificate that can't be read ({type(error).__name__})"
        raise CertificateProblem(ProblemKind.MALFORMED, what, text) from None


def _private_key(
    block: PemBlock, password: str | None, what: str
) -> rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey:
    encrypted = block.label.startswith("ENCRYPTED") or block.has_headers
    if encrypted and password is None:
        text = "holds an encrypted key: set ssl.key.password"
        raise CertificateProblem(ProblemKind.WRONG_PASSWORD, what, text)
    key: PrivateKeyTypes
    try:
        key = load_pem_private_key(
            block.text, password.encode() if encrypted and password is not None else None
        )
    except (ValueError, TypeError, UnsupportedAlgorithm):
        if encrypted:
            text = "holds a key that ssl.key.password does not open"
            raise CertificateProblem(ProblemKind.WRONG_PASSWORD, what, text) from None
        text = "holds a private key that can't be read"
        raise CertificateProblem(ProblemKind.MALFORMED, what, text) from None
    if isinstance(key, rsa.RSAPrivateKey) and key.key_size < MIN_RSA_BITS:
        text = f"holds a key of RSA with {key.key_size} bits; the minimum is {MIN_RSA_BITS}"
        raise CertificateProblem(ProblemKind.WEAK_KEY, what, text)
    if isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey):
        return key
    text = "holds a key of an unsupported type: use RSA, an elliptic curve, or Ed25519"
    raise CertificateProblem(ProblemKind.WEAK_KEY, what, text)


def _public_key(certificate: x509.Certificate, what: str) -> PublicKeyTypes:
    try:
        return certificate.public_key()
    except (ValueError, UnsupportedAlgorithm):
        text = f"holds the certificate {name_of(certificate)} with a public key that can't be read"
        raise CertificateProblem(ProblemKind.MALFORMED, what, text) from None


def _public_bytes(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _check_chain(chain: tuple[x509.Certificate, ...], what: str) -> None:
    for certificate, issuer in pairwise(chain):
        if trusted_issuer((certificate,), (issuer,), None) is None:
            text = (
                f"holds a chain out of order: {name_of(certificate)} was not signed by {name_of(issuer)},"
                " which follows; the certificate of the node comes first, its issuer next"
            )
            raise CertificateProblem(ProblemKind.BROKEN_CHAIN, what, text)


def _check_usages(leaf: x509.Certificate, what: str) -> None:
    """A member uses the same certificate as server and as client."""
    try:
        usages = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return
    missing = [name for name, oid in _USAGES.items() if oid not in usages]
    if missing:
        text = f"holds {name_of(leaf)}, which may not be used as a {' nor as a '.join(missing)}"
        raise CertificateProblem(ProblemKind.WRONG_USAGE, what, text)


def _may_be_trusted(certificate: x509.Certificate, what: str) -> bool:
    """Whether it is an authority, or self-signed."""
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return certificate.issuer == certificate.subject
