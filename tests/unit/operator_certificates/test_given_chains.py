"""OpenSSL accepts what the operator signs with a user-provided authority: below a root, of another key type, with a duplicate name."""

import ssl
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID

from quorum_operator.certificates import documents, holders, issuing, pem
from quorum_operator.certificates.issuing import Pair
from quorum_operator.desired.names import Owner
from quorum_operator.pod_client import client_context
from support.generated_certificates import Issued, authority, issue, key_pem
from support.generated_certificates import pem as pem_of

OWNER = Owner("demo", "space", "uid")
MEMBER = holders.member(OWNER, 1, 1)
HOST = OWNER.host("demo-1-1")
NOW = datetime.now(UTC)
TIMES: dict[str, Any] = {"start": NOW - timedelta(days=1), "end": NOW + timedelta(days=900)}


def given(made: Issued) -> Pair:
    return Pair(pem.read(pem_of(made.certificate)), key_pem(made.key).decode())


def with_identifier(digest: bytes, name: str = "Corporate CA") -> Pair:
    """An authority with another key identifier than the usual digest of its key, as some programs compute it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(TIMES["start"])
        .not_valid_after(TIMES["end"])
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier(digest), critical=False)
        .sign(key, hashes.SHA256())
    )
    return given(Issued(made, key))


def of_key(key: Any) -> Pair:
    return given(issue("Corporate CA", key=key, authority=True, hosts=(), usages=None, **TIMES))


GIVEN = {
    "self-signed": lambda: given(authority("Corporate CA", **TIMES)),
    "below a root": lambda: given(authority("Below", issuer=authority("Root", **TIMES), **TIMES)),
    "RSA": lambda: of_key(rsa.generate_private_key(65537, 2048)),
    "Ed25519": lambda: of_key(ed25519.Ed25519PrivateKey.generate()),
    "P-384": lambda: of_key(ec.generate_private_key(ec.SECP384R1())),
    "an identifier of its own": lambda: with_identifier(b"\x07" * 20),
}


def handshake(client: ssl.SSLContext, server: Pair, folder: Any) -> None:
    """In memory. Raises ssl.SSLError."""
    file = folder / "pair.pem"
    file.write_text(server.key_pem + server.chain_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(to_client, to_server, server_hostname=HOST)
    other = context.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        done = 0
        for each in (one, other):
            try:
                each.do_handshake()
                done += 1
            except ssl.SSLWantReadError:
                continue
        if done == 2:
            return
    raise AssertionError("the handshake does not end")


@pytest.mark.parametrize("kind", GIVEN)
def test_certificate_chain_of_a_user_provided_authority_is_accepted(
    kind: str, tmp_path: Any
) -> None:
    made = GIVEN[kind]()
    leaf = issuing.issue(OWNER, MEMBER, made, time.time())
    assert pem.signed_by(leaf.certificate, made.certificate)
    handshake(client_context(made.certificate.pem), leaf, tmp_path)


def test_two_authorities_with_one_name_are_distinguished_by_key_identifiers(tmp_path: Any) -> None:
    """While one is replaced by the other both are trusted, in any order."""
    first, second = with_identifier(b"\x01" * 20), with_identifier(b"\x02" * 20)
    leaf = issuing.issue(OWNER, MEMBER, second, time.time())
    for order in ((first, second), (second, first)):
        bundle = documents.bundle_text(tuple(each.certificate for each in order))
        handshake(client_context(bundle), leaf, tmp_path)


def test_chain_must_end_at_the_trusted_authority() -> None:
    root = authority("Root", **TIMES)
    below = authority("Below", issuer=root, **TIMES)
    leaf = issuing.issue(OWNER, MEMBER, given(below), time.time()).certificate
    one, other = given(root).certificate, given(below).certificate
    assert pem.anchor_of((leaf, other), (one,)) == one
    assert pem.anchor_of((leaf,), (one,)) is None
    assert pem.anchor_of((leaf, one), (one,)) is None
    unrelated = given(authority("Root", **TIMES)).certificate
    assert pem.anchor_of((leaf, other), (unrelated,)) is None


def test_certificate_without_signing_rights_is_rejected_as_authority() -> None:
    """By its key usages, also where the basic constraints allow it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")])
    usage = dict.fromkeys(
        (
            *("digital_signature", "content_commitment", "key_encipherment", "crl_sign"),
            *("data_encipherment", "key_agreement", "encipher_only", "decipher_only"),
            "key_cert_sign",
        ),
        False,
    )
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(TIMES["start"])
        .not_valid_after(TIMES["end"])
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.KeyUsage(**{**usage, "digital_signature": True}), critical=True)
        .sign(key, hashes.SHA256())
    )
    assert not pem.read(pem_of(made)).is_authority
