"""Parses certificates from PEM. A private key is only checked against its certificate and never kept."""

import functools
import hashlib
import re
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.x509.oid import NameOID

from quorum_node.security.tls.unreadable import UNREADABLE
from quorum_operator.certificates.lifetimes import Validity

_BEGIN, _END = b"-----BEGIN CERTIFICATE-----", b"-----END CERTIFICATE-----"
_NUMBER = re.compile(r" CA ([1-9][0-9]{0,8})$")


MIN_RSA_BITS = 2048
"""Minimum RSA key size of OpenSSL's default security level."""
MAX_KEY_BYTES = 8192
"""Maximum size of a key in PEM; an RSA key of 8192 bits has 6400. The time to check a key grows with the fourth power of its length."""
_MOST_FITTING = 4096
_fitting: dict[bytes, bool] = {}
"""Whether keys fit, by a digest of the key and the certificate. A key is not kept."""

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey


class Unreadable(ValueError):
    """The input is not PEM, is truncated, or is of an unsupported kind."""


@dataclass(frozen=True, slots=True)
class Read:
    """One certificate. `fingerprint`: SHA-256 of its DER, in hex; `issuer`: the subject of its issuer, as text.

    `key`: SHA-256 of its public key. Two certificates with the same subject and key belong to the same authority and
    verify the same signatures. `key_id`: its subject key identifier in hex; it distinguishes authorities with the same
    name.
    """

    pem: str
    fingerprint: str
    validity: Validity
    common_name: str
    issuer: str
    dns_names: frozenset[str]
    uris: frozenset[str]
    is_authority: bool
    subject: str
    key: str
    key_id: str = ""

    @property
    def generation(self) -> int | None:
        """The generation in the name of a quorum's authority; None for other certificates."""
        found = _NUMBER.search(self.common_name) if self.is_authority else None
        return int(found[1]) if found is not None else None


def read(text: str | bytes) -> Read:
    """Parse the first certificate in the text. Raises Unreadable."""
    found = read_all(text)
    if not found:
        raise Unreadable("no certificate in it")
    return found[0]


def read_all(text: str | bytes) -> tuple[Read, ...]:
    """Parse all certificates in a bundle, without duplicates, in their order. Raises Unreadable for an invalid block."""
    return tuple({each.fingerprint: each for each in map(_read, _blocks(text))}.values())


def count_of(text: str | bytes) -> int:
    """Number of certificates in a bundle, without parsing them. Raises Unreadable if one is truncated."""
    return len(_blocks(text))


def _blocks(text: str | bytes) -> list[bytes]:
    """The PEM blocks. In linear time: users write these texts, and the operator serves all quorums in one loop."""
    data = text.encode() if isinstance(text, str) else text
    _, *parts = data.split(_BEGIN)
    contents = [content for content, end, _ in (each.partition(_END) for each in parts) if end]
    if len(contents) != data.count(b"-----BEGIN CERTIFICATE"):
        raise Unreadable("a certificate in it is truncated")
    return [b"%b%b%b\n" % (_BEGIN, each, _END) for each in contents]


@functools.lru_cache(maxsize=2048)
def _read(block: bytes) -> Read:
    """Parse one PEM block. Cached, because the operator reads the same certificates again and again."""
    try:
        found = x509.load_pem_x509_certificate(block)
        found.public_key()  # the key is parsed lazily and may be invalid
        names = _alternative_names(found)
        der = found.public_bytes(serialization.Encoding.DER)
        common = found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        return Read(
            pem=found.public_bytes(serialization.Encoding.PEM).decode(),
            fingerprint=hashlib.sha256(der).hexdigest(),
            validity=Validity(
                found.not_valid_before_utc.timestamp(), found.not_valid_after_utc.timestamp()
            ),
            common_name=str(common[0].value) if common else "",
            issuer=found.issuer.rfc4514_string(),
            dns_names=frozenset(names.get_values_for_type(x509.DNSName)),
            uris=frozenset(names.get_values_for_type(x509.UniformResourceIdentifier)),
            is_authority=_may_sign(found),
            subject=found.subject.rfc4514_string(),
            key=_key_digest(found.public_key()),
            key_id=_key_id(found),
        )
    except UNREADABLE as error:
        raise Unreadable(f"not a certificate: {error}") from None


def _alternative_names(found: x509.Certificate) -> x509.SubjectAlternativeName:
    try:
        return found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return x509.SubjectAlternativeName([])


def _may_sign(found: x509.Certificate) -> bool:
    """Whether the certificate may sign others (RFC 5280, 4.2.1.9 and 4.2.1.3): its basic constraints mark it as a CA,
    and its key usage, if present, includes keyCertSign.
    """
    try:
        if not found.extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
            return False
        return found.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    except x509.ExtensionNotFound as missing:
        return missing.oid == x509.KeyUsage.oid


def _key_digest(key: PublicKeyTypes) -> str:
    """SHA-256 of the key's SubjectPublicKeyInfo, in hex."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return hashlib.sha256(key.public_bytes(serialization.Encoding.DER, form)).hexdigest()


def _key_id(found: x509.Certificate) -> str:
    try:
        extension = found.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
    except x509.ExtensionNotFound:
        return ""
    return extension.value.digest.hex()


@functools.lru_cache(maxsize=4096)
def signed_by(leaf: Read, authority: Read) -> bool:
    """Whether this authority's key signed the certificate. Equal names are not sufficient."""
    child = x509.load_pem_x509_certificate(leaf.pem.encode())
    parent = x509.load_pem_x509_certificate(authority.pem.encode())
    try:
        child.verify_directly_issued_by(parent)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return authority.is_authority


def anchor_of(chain: tuple[Read, ...], trusted: tuple[Read, ...]) -> Read | None:
    """The trusted authority at the end of a chain, by signatures; None if there is none."""
    current = chain[0]
    for _ in chain:
        for each in trusted:
            if each == current or signed_by(current, each):
                return each
        above = next((each for each in chain[1:] if signed_by(current, each)), None)
        if above is None or above == current:
            return None
        current = above
    return None


def is_same_authority(one: Read, other: Read) -> bool:
    """Whether both have the same subject and key, like a certificate and its renewal."""
    return (one.subject, one.key) == (other.subject, other.key)


def key_fits(key_pem: bytes, certificate: Read) -> bool:
    """Whether it is the private key of this certificate. Raises Unreadable if it is not a private key.

    A key is loaded once: an RSA key of 4096 bits takes 0.3 s, and each reconcile asks for the same keys.
    """
    digest = hashlib.sha256(certificate.key.encode() + key_pem).digest()
    if digest not in _fitting:
        fits = _key_digest(load_key(key_pem).public_key()) == certificate.key
        if len(_fitting) >= _MOST_FITTING:
            _fitting.clear()
        _fitting[digest] = fits
    return _fitting[digest]


def load_key(key_pem: str | bytes) -> PrivateKey:
    """Load an unencrypted key of a supported kind. Raises Unreadable, whose text contains no part of the key."""
    data = key_pem.encode() if isinstance(key_pem, str) else key_pem
    if len(data) > MAX_KEY_BYTES:
        raise Unreadable(f"longer than {MAX_KEY_BYTES} bytes, which is too long for a private key")
    try:
        key = serialization.load_pem_private_key(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise Unreadable("not an unencrypted private key in PEM, or truncated") from None
    if isinstance(key, rsa.RSAPrivateKey) and key.key_size < MIN_RSA_BITS:
        raise Unreadable(f"an RSA key of {key.key_size} bits; the minimum is {MIN_RSA_BITS}")
    if not isinstance(
        key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey
    ):
        raise Unreadable("a key that is not an elliptic-curve, RSA or Ed25519 key")
    return key
