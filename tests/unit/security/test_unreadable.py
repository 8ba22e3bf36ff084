"""Certificates that the library refuses with an error that is no ValueError."""

import base64
from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from quorum_node.security.tls.key_pairs import load_trust
from quorum_node.security.tls.problems import CertificateProblem, ProblemKind
from quorum_node.server.transport.tls_peers import PeerRejected, certificate_in
from quorum_operator.certificates.pem import Unreadable, read_all
from support.generated_certificates import NOW, issue

SUBJECT_ALTERNATIVE_NAME = "2.5.29.17"
X400_ADDRESS = b"\x30\x02\xa3\x00"
Made = Callable[[], bytes]


def with_unsupported_name() -> bytes:
    made = issue(hosts=(), further={SUBJECT_ALTERNATIVE_NAME: X400_ADDRESS})
    return made.certificate.public_bytes(Encoding.DER)


def with_repeated_extension() -> bytes:
    made = issue(further={"1.2.3.4": b"", "1.2.3.5": b""})
    return replaced(made.certificate.public_bytes(Encoding.DER), b"\x2a\x03\x05", b"\x2a\x03\x04")


def with_unknown_version() -> bytes:
    made = issue().certificate.public_bytes(Encoding.DER)
    return replaced(made, b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x05")


def replaced(der: bytes, old: bytes, new: bytes) -> bytes:
    assert old in der
    return der.replace(old, new, 1)


def pem(der: bytes) -> bytes:
    text = base64.encodebytes(der)
    return b"-----BEGIN CERTIFICATE-----\n" + text + b"-----END CERTIFICATE-----\n"


@pytest.mark.parametrize(
    "made", [with_unsupported_name, with_repeated_extension, with_unknown_version]
)
def test_certificate_that_the_library_does_not_support_is_unreadable(made: Made) -> None:
    """For the peer of a connection, in a file of the node, and in a Secret that the operator reads."""
    der = made()
    with pytest.raises(PeerRejected, match="shows a certificate that can't be read"):
        certificate_in(der)
    with pytest.raises(CertificateProblem) as found:
        load_trust(pem(der), NOW, "ca.crt")
    assert found.value.kind is ProblemKind.MALFORMED
    with pytest.raises(Unreadable):
        read_all(pem(der))
