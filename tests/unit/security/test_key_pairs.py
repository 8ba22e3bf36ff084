"""Keys, chains and bundles in PEM: what is good, and one clear sentence for everything that is not."""

import base64
import ssl
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import example, given, settings
from hypothesis import strategies as st

from quorum_node.security.tls.certificates import (
    alternative_uris,
    check_host,
    check_time,
    summary,
)
from quorum_node.security.tls.key_pairs import (
    KeyPair,
    check_own_trust,
    load_key_pair,
    load_trust,
)
from quorum_node.security.tls.pem import MAX_PEM_BYTES
from quorum_node.security.tls.problems import CertificateProblem, ProblemKind
from support.generated_certificates import DAY, NOW, Issued, authority, issue, key_pem, pem

CA = authority()
LOWER = authority("lower", issuer=CA)
LEAF = issue(issuer=CA, uris=("urn:metadataquorum:ns:demo:member:1",))
DEEP = issue("deep", issuer=LOWER)
WHAT = "/certs/keystore.pem"
RSA = rsa.generate_private_key(65537, 2048)


def load(data: bytes, password: str | None = None) -> KeyPair:
    return load_key_pair(data, data, password, NOW, WHAT)


def old_form(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey, password: str | None) -> bytes:
    hidden: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password:
        hidden = serialization.BestAvailableEncryption(password.encode())
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, hidden
    )


@pytest.mark.parametrize(
    "key",
    [ec.generate_private_key(ec.SECP384R1()), RSA, ed25519.Ed25519PrivateKey.generate()],
    ids=["P-384", "RSA", "Ed25519"],
)
def test_loaded_pair_is_accepted_by_openssl(key: ec.EllipticCurvePrivateKey) -> None:
    made = issue("deep", issuer=LOWER, key=key)
    text = b"a remark\r\n" + key_pem(key) + b"\n# more\n" + pem(made.certificate, LOWER.certificate)
    pair = load(text.replace(b"\n", b"\r\n"))
    assert [each.subject for each in pair.chain] == [
        made.certificate.subject,
        LOWER.certificate.subject,
    ]
    assert pair.chain_pem.replace(b"\r", b"") == pem(made.certificate, LOWER.certificate)
    check_own_trust(pair, load_trust(pem(CA.certificate), NOW, "trust"), NOW, WHAT)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pair.pem"
        file.write_bytes(pair.chain_pem + pair.key_pem)
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(file)


@pytest.mark.parametrize("password", [None, "open sesame"])
def test_keys_in_every_common_format_are_loaded(password: str | None) -> None:
    made = issue(issuer=CA, key=RSA)
    for form in (key_pem(RSA, password), old_form(RSA, password)):
        pair = load(form + pem(made.certificate), password)
        assert b"ENCRYPTED" not in pair.key_pem
        assert repr(pair.key_pem) not in repr(pair)


def _swapped() -> bytes:
    return key_pem(issue().key) + pem(LEAF.certificate)


def _of_dsa() -> bytes:
    key = dsa.generate_private_key(2048)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ) + pem(LEAF.certificate)


def _made(**wishes: object) -> Callable[[], bytes]:
    return lambda: issue(issuer=CA, **wishes).keystore  # type: ignore[arg-type]


BROKEN_DER = b"-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"


@pytest.mark.parametrize(
    ("made", "kind", "words"),
    [
        (lambda: b"", ProblemKind.HALF_WRITTEN, "is empty"),
        (lambda: b"hello", ProblemKind.MALFORMED, "no PEM block"),
        (lambda: LEAF.keystore[:-40], ProblemKind.HALF_WRITTEN, "being written, or is truncated"),
        (lambda: key_pem(LEAF.key), ProblemKind.MALFORMED, "0 certificates"),
        (lambda: pem(LEAF.certificate), ProblemKind.NO_KEY, "0 private keys"),
        (lambda: key_pem(LEAF.key) * 2 + pem(LEAF.certificate), ProblemKind.NO_KEY, "2 private keys"),
        (_swapped, ProblemKind.KEY_DOES_NOT_MATCH, "does not match its first certificate, CN=demo-1-0"),
        (_made(end=NOW - timedelta(seconds=1)), ProblemKind.EXPIRED, "expired at 2026-11-23 11:59:59 UTC; the clock of this host says 2026-11-23 12:00:00 UTC"),
        (_made(start=NOW + DAY), ProblemKind.NOT_YET_VALID, "valid from 2026-11-24 12:00:00 UTC on; the clock"),
        (_made(usages=(ExtendedKeyUsageOID.SERVER_AUTH,)), ProblemKind.WRONG_USAGE, "may not be used as a client"),
        (_made(usages=(ExtendedKeyUsageOID.CLIENT_AUTH,)), ProblemKind.WRONG_USAGE, "may not be used as a server"),
        (lambda: key_pem(DEEP.key) + pem(DEEP.certificate, CA.certificate), ProblemKind.BROKEN_CHAIN, "was not signed by CN=ca-1"),
        (lambda: key_pem(DEEP.key) + pem(LOWER.certificate, DEEP.certificate), ProblemKind.KEY_DOES_NOT_MATCH, "CN=lower"),
        (lambda: key_pem(LEAF.key) + BROKEN_DER, ProblemKind.MALFORMED, "a certificate that can't be read"),
        (lambda: key_pem(LEAF.key) + BROKEN_DER.replace(b"MAA=", b"M?A="), ProblemKind.MALFORMED, "not base64"),
        (lambda: key_pem(LEAF.key, "secret-x") + pem(LEAF.certificate), ProblemKind.WRONG_PASSWORD, "set ssl.key.password"),
        (lambda: old_form(RSA, "secret-x") + pem(LEAF.certificate), ProblemKind.WRONG_PASSWORD, "set ssl.key.password"),
        (lambda: key_pem(rsa.generate_private_key(65537, 1024)) + pem(LEAF.certificate), ProblemKind.WEAK_KEY, "1024 bits"),
        (_of_dsa, ProblemKind.WEAK_KEY, "unsupported type: use RSA"),
        (lambda: key_pem(LEAF.key) + pem(LEAF.certificate) * 11, ProblemKind.MALFORMED, "11 certificates"),
        (lambda: b"x" * (MAX_PEM_BYTES + 1), ProblemKind.MALFORMED, "more than"),
    ],
)  # fmt: skip
def test_invalid_pair_is_reported(made: Callable[[], bytes], kind: ProblemKind, words: str) -> None:
    with pytest.raises(CertificateProblem) as raised:
        load(made())
    assert (raised.value.kind, raised.value.what) == (kind, WHAT)
    assert words in str(raised.value)
    assert str(raised.value).startswith(WHAT)


def test_wrong_password_is_reported_and_not_shown() -> None:
    with pytest.raises(CertificateProblem, match=r"ssl\.key\.password does not open") as raised:
        load(key_pem(LEAF.key, "right") + pem(LEAF.certificate), "wrong-one")
    assert "wrong-one" not in str(raised.value)


def test_chain_and_key_may_come_from_two_files() -> None:
    pair = load_key_pair(pem(LEAF.certificate), key_pem(LEAF.key), None, NOW, WHAT)
    assert pair.leaf == LEAF.certificate


@given(st.integers(0, 10_000))
@settings(max_examples=150, deadline=None)
def test_file_truncated_anywhere_is_never_accepted_as_complete(place: int) -> None:
    """Cut right behind the leaf the pair is good, and what is missing is found out by its own trust."""
    whole = key_pem(DEEP.key) + pem(DEEP.certificate, LOWER.certificate)
    cut = whole[: place % (len(whole) - 1)]
    trust = load_trust(pem(CA.certificate), NOW, "trust")
    with pytest.raises(CertificateProblem) as raised:
        check_own_trust(load(cut), trust, NOW, WHAT)
    if raised.value.kind is ProblemKind.UNTRUSTED:
        assert cut.rstrip() == key_pem(DEEP.key) + pem(DEEP.certificate).rstrip()


@given(st.integers(0, 10_000), st.integers(0, 255))
@example(289, 47)  # the serial number is negative then
@settings(max_examples=200, deadline=None)
def test_changed_byte_gives_a_problem_or_a_pair_and_nothing_else(place: int, byte: int) -> None:
    data = bytearray(LEAF.keystore)
    data[place % len(data)] = byte
    for attempt in (lambda: load(bytes(data)), lambda: load_trust(bytes(data), NOW, WHAT)):
        try:
            attempt()
        except CertificateProblem:
            pass


@given(st.binary(max_size=200))
def test_arbitrary_bytes_in_a_block_are_rejected(data: bytes) -> None:
    body = base64.b64encode(data)
    block = b"-----BEGIN CERTIFICATE-----\n" + body + b"\n-----END CERTIFICATE-----\n"
    with pytest.raises(CertificateProblem):
        load_trust(block, NOW, WHAT)


def test_two_authorities_are_trusted_at_once_and_an_expired_one_is_omitted() -> None:
    other, old = authority("ca-2"), authority("ca-0", end=NOW - timedelta(hours=1))
    trust = load_trust(pem(old.certificate, CA.certificate, other.certificate), NOW, "trust.pem")
    assert trust.certificates == (CA.certificate, other.certificate)
    assert trust.expired == (old.certificate,)
    assert trust.pem == pem(CA.certificate, other.certificate)
    for made in (LEAF, issue(issuer=other)):
        check_own_trust(load(made.keystore), trust, NOW, WHAT)


def test_header_lines_of_a_block_may_have_any_text() -> None:
    """OpenSSL refuses such blocks, and Python's interface raises a TypeError for letters outside of ASCII."""
    begin = b"-----BEGIN CERTIFICATE-----\n"
    headed = begin + "Comment: la racine d'Orl\u00e9ans\n\n".encode()
    trust = load_trust(pem(CA.certificate).replace(begin, headed), NOW, WHAT)
    pair = load(LEAF.keystore.replace(begin, headed))
    assert trust.pem == pem(CA.certificate)
    assert pair.chain_pem == pem(LEAF.certificate)


def test_invalid_trust_bundle_is_reported() -> None:
    gone = authority("ca-0", end=NOW - DAY)
    for data, kind in (
        (pem(gone.certificate), ProblemKind.EXPIRED),
        (pem(LEAF.certificate), ProblemKind.WRONG_USAGE),
        (pem(authority(start=NOW + DAY).certificate)[:-9], ProblemKind.HALF_WRITTEN),
        (key_pem(CA.key), ProblemKind.MALFORMED),
    ):
        with pytest.raises(CertificateProblem) as raised:
            load_trust(data, NOW, "trust.pem")
        assert raised.value.kind is kind
    itself: Issued = issue("self", authority=None)
    assert load_trust(pem(itself.certificate), NOW, "trust.pem").certificates == (
        itself.certificate,
    )


def test_pair_not_trusted_by_its_own_node_is_rejected() -> None:
    """The same name of an authority is not the same authority."""
    namesake = authority()
    trust = load_trust(pem(namesake.certificate), NOW, "trust.pem")
    with pytest.raises(
        CertificateProblem,
        match="has a chain that ends at CN=demo-1-0, which is not trusted; trusted certificates: CN=ca-1",
    ):
        check_own_trust(load(LEAF.keystore), trust, NOW, WHAT)


@pytest.mark.parametrize(
    ("hosts", "host", "fits"),
    [
        (("demo-1.ns.svc",), "demo-1.ns.svc", True),
        (("demo-1.ns.svc",), "DEMO-1.ns.svc.", True),
        (("demo-1.ns.svc",), "demo-2.ns.svc", False),
        (("*.ns.svc",), "demo-1.ns.svc", True),
        (("*.ns.svc",), "a.demo-1.ns.svc", False),
        (("*.ns.svc",), "ns.svc", False),
        (("*.svc",), "demo.svc", False),
        (("d*.ns.svc",), "demo.ns.svc", False),
        (("10.0.0.1",), "10.0.0.1", True),
        (("10.0.0.1",), "10.0.0.2", False),
        (("*.0.0.1",), "10.0.0.1", False),
        (("::1",), "[0:0::1]", True),
        (("10.0.0.1",), "demo-1-0", False),
        ((), "demo-1-0", False),
    ],
)  # fmt: skip
def test_host_names_of_a_certificate(hosts: tuple[str, ...], host: str, fits: bool) -> None:
    """The common name (demo-1-0) is no host."""
    made = issue(hosts=hosts).certificate
    if fits:
        check_host(made, host, "10.0.0.1:9093")
        return
    with pytest.raises(CertificateProblem, match=r"^10\.0\.0\.1:9093 shows CN=demo-1-0") as raised:
        check_host(made, host, "10.0.0.1:9093")
    assert raised.value.kind is ProblemKind.WRONG_HOST
    assert f"not for {host}" in str(raised.value)


def test_certificate_description() -> None:
    reported = summary(LEAF.certificate)
    assert reported.subject == "CN=demo-1-0"
    assert reported.not_after == NOW + 90 * DAY
    assert len(reported.sha256) == 64
    assert alternative_uris(LEAF.certificate) == ("urn:metadataquorum:ns:demo:member:1",)
    assert alternative_uris(issue(hosts=()).certificate) == ()
    check_time(LEAF.certificate, reported.not_after, "edge")
