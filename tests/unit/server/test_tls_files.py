"""New files that can't be used: no file descriptor is left, as under a flood of connections, or a name can't be read. The node goes on with
the old ones.
"""

import resource
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from quorum_node.security.tls.problems import CertificateProblem
from quorum_node.server.transport.tls_files import TlsFiles, read_files
from support.tls_folder import look_again, tls_files
from support.tls_quorum import certificate_of, new_authority, write_folder

CA = new_authority()


@contextmanager
def no_descriptor() -> Iterator[None]:
    """Nothing can be opened. What is open stays so."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_renewal_without_a_file_descriptor_is_a_problem_that_passes(tmp_path: Path) -> None:
    old, new, stolen, other = (certificate_of("member", 1, CA) for _ in range(4))
    files = tls_files(tmp_path, old, CA.certificate, revoked=stolen.certificate)
    write_folder(tmp_path, new, CA.certificate)
    serials = f"{stolen.certificate.serial_number:x}\n{other.certificate.serial_number:x}\n"
    (tmp_path / "revoked").write_text(serials)
    contents = read_files(files.paths)
    with no_descriptor():
        prepared = files.prepare(contents)
    assert files.take(prepared), "open connections have to be checked again"
    assert files.material.pair.leaf == old.certificate
    assert "Too many open files" in str(files.problem)
    assert files.material.revoked.holds(other.certificate), "which needs no descriptor"
    with no_descriptor():
        prepared = files.prepare(contents)
    assert not files.take(prepared), "nothing is new"
    assert look_again(files)
    assert files.material.pair.leaf == new.certificate
    assert files.problem is None


def authority_with_an_unreadable_name() -> bytes:
    """A root of an old kind: without extensions, and its name is in Latin-1. The library decodes a name when it is compared."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Mull")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=9))
        .sign(key, hashes.SHA256())
    )
    utf8, latin1 = b"\x0c\x04Mull", b"\x14\x04M\xfcll"
    der = made.public_bytes(Encoding.DER).replace(utf8, latin1)
    return ssl.DER_cert_to_PEM_cert(der).encode()


def test_authority_with_an_unreadable_name_is_a_problem_of_the_files(tmp_path: Path) -> None:
    old, new = (certificate_of("member", 1, CA) for _ in range(2))
    files = tls_files(tmp_path, old, CA.certificate)
    write_folder(tmp_path, new, CA.certificate)
    truststore = tmp_path / "ca.crt"
    usable = truststore.read_bytes()
    truststore.write_bytes(usable + authority_with_an_unreadable_name())
    for _ in range(2):
        assert not look_again(files)
        assert files.material.pair.leaf == old.certificate
        assert "has a certificate whose names can't be read" in str(files.problem)
        assert str(truststore) in str(files.problem)
    with pytest.raises(CertificateProblem, match="names can't be read"):
        TlsFiles("CONTROLLER", files.settings, None)
    truststore.write_bytes(usable)
    assert look_again(files)
    assert files.material.pair.leaf == new.certificate
    assert files.problem is None


def test_what_is_revoked_is_taken_over_beside_an_authority_with_an_unreadable_name(
    tmp_path: Path,
) -> None:
    mine, stolen, other = (certificate_of("member", 1, CA) for _ in range(3))
    files = tls_files(tmp_path, mine, CA.certificate, revoked=stolen.certificate)
    truststore = tmp_path / "ca.crt"
    usable = truststore.read_bytes()
    truststore.write_bytes(usable + authority_with_an_unreadable_name())
    serials = f"{stolen.certificate.serial_number:x}\n{other.certificate.serial_number:x}\n"
    (tmp_path / "revoked").write_text(serials)
    assert look_again(files), "open connections have to be checked again"
    assert files.material.revoked.holds(other.certificate)
    assert "names can't be read" in str(files.problem)
    assert files.trust is not None
    assert files.trust.certificates == (CA.certificate,)
    assert not look_again(files), "nothing is new"
    truststore.write_bytes(usable)
    look_again(files)
    assert files.problem is None
    assert files.material.revoked.holds(other.certificate)


def test_unreadable_name_of_the_own_issuer_is_a_problem_of_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is decoded only to look it up in revocation lists, so an authority with such a name serves until there is a list."""
    files = tls_files(tmp_path, certificate_of("member", 1, CA), CA.certificate)

    def decode(*given: object) -> None:
        raise ValueError("error parsing asn1 value")

    monkeypatch.setattr("quorum_node.server.transport.tls_files.why_others_refuse", decode)
    look_again(files)
    assert "names can't be read" in str(files.own_problem)
    again = TlsFiles("CONTROLLER", files.settings, None)
    assert "names can't be read" in str(again.own_problem)
