"""The text of a subject: as formatted by Java. Comparisons with Java for unusual names are in tests/interop."""

from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from quorum_node.security.principals.certificate_principal import principal_of
from quorum_node.security.principals.der import MalformedDer
from quorum_node.security.principals.mapping_rules import parse_mapping_rules
from quorum_node.security.principals.x500 import name_text, subject_text
from support.security_samples import element, identifier, odd_name

RULES = parse_mapping_rules("DEFAULT")


def attribute(oid: str, tag: int, content: bytes) -> bytes:
    return element(0x30, identifier(oid) + element(tag, content))


def named(*rdns: bytes) -> bytes:
    return element(0x30, b"".join(element(0x31, each) for each in rdns))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (named(), ""),
        (
            named(
                attribute("2.5.4.10", 12, b"demo.ns"),
                attribute("2.5.4.11", 12, b"member"),
                attribute("2.5.4.3", 12, b"demo-1-0"),
            ),
            "CN=demo-1-0,OU=member,O=demo.ns",
        ),
        (named(attribute("2.5.4.3", 12, b"a") + attribute("2.5.4.11", 12, b"b")), "CN=a+OU=b"),
        (named(attribute("2.5.4.3", 19, b"a#b=c")), r"CN=a\#b\=c"),
        (named(attribute("2.5.4.3", 12, b"  a b ")), r"CN=\ \ a b\ "),
        (named(attribute("2.5.4.3", 12, b" \r ")), "CN=\\ \\\r\\ "),
        (named(attribute("2.5.4.3", 12, b"a\0b")), r"CN=a\00b"),
        (named(attribute("2.5.4.3", 30, b"\0A")), r"CN=\00A"),
        (named(attribute("2.5.4.3", 28, b"\0\0\0A")), "CN=#1c0400000041"),
        (named(attribute("2.5.4.3", 12, b"\xed\xa0\x80")), "CN=\ufffd"),
        (named(attribute("1.2.840.113549.1.9.1", 22, b"a@b")), "1.2.840.113549.1.9.1=#1603614062"),
        (named(attribute("2.5.4.6", 4, b"\x01")), "C=#040101"),
    ],
)
def test_name_is_formatted_as_in_java(name: bytes, text: str) -> None:
    assert name_text(name) == text


def certificate(subject: x509.Name) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime(2026, 1, 1, tzinfo=UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "issuer")]))
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.DER)


def test_subject_and_not_issuer_is_extracted_from_a_certificate() -> None:
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "demo.ns"),
            x509.NameAttribute(NameOID.COMMON_NAME, "Müller, x"),
        ]
    )
    der = certificate(subject)
    assert subject_text(der) == r"CN=Müller\, x,O=demo.ns"
    assert principal_of(der, RULES) == r"User:CN=Müller\, x,O=demo.ns"


def test_client_without_a_certificate_is_anonymous() -> None:
    assert principal_of(None, RULES) == "User:ANONYMOUS"


NAME = named(attribute("2.5.4.3", 12, b"somebody"))
SHORT = element(0x30, element(0x30, element(2, b"7") * 3))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        NAME[:-1],
        NAME + b"\0",
        b"\x31" + NAME[1:],
        b"\x30\x80" + NAME[2:],
        b"\x30\x85\0\0\0\0" + NAME[1:],
        element(0x30, element(0x31, b"")),
        element(0x30, element(0x30, b"")),
        element(0x30, element(0x31, element(0x30, element(6, b"\x55\x84") + element(12, b"a")))),
        element(0x30, element(0x31, element(0x30, element(6, b"\x80\x04") + element(12, b"a")))),
        element(0x30, element(0x31, element(0x30, element(6, b"") + element(12, b"a")))),
        element(0x30, element(0x31, element(0x30, element(12, b"a")))),
    ],
)
def test_invalid_name_is_rejected(data: bytes) -> None:
    with pytest.raises(MalformedDer):
        name_text(data)


@pytest.mark.parametrize("data", [SHORT, element(0x30, b""), element(0x30, element(2, b"7"))])
def test_invalid_certificate_is_rejected(data: bytes) -> None:
    with pytest.raises(MalformedDer):
        subject_text(data)


@given(st.binary(max_size=80))
def test_bytes_that_are_no_certificate_raise_only_the_defined_error(data: bytes) -> None:
    for read in (subject_text, name_text):
        try:
            read(data)
        except MalformedDer:
            pass


@given(st.integers(0, 10**9), st.integers(0, 400), st.integers(0, 255))
def test_name_with_a_changed_or_missing_byte_gives_text_or_is_rejected(
    seed: int, place: int, byte: int
) -> None:
    name = bytearray(odd_name(Random(seed)))
    name[place % len(name)] = byte
    for data in (bytes(name), bytes(name[: place % len(name)])):
        try:
            text = name_text(data)
        except MalformedDer:
            continue
        assert isinstance(text, str)
