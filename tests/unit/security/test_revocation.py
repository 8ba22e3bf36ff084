"""Files of revoked certificates: both forms, what is refused, and what a node does with them."""

from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding

from quorum_node.security.tls.material import first_held, held_now, why_others_refuse
from quorum_node.security.tls.problems import CertificateProblem, ProblemKind
from quorum_node.security.tls.revocation import NONE_REVOKED, load_revoked
from quorum_node.security.tls.ssl_settings import REVOKED_KEY, read_ssl_settings
from support.generated_certificates import DAY, NOW, Issued, authority, issue, pem

CA, OTHER = authority("ca-1"), authority("ca-2")
ONE, TWO = issue(issuer=CA).certificate, issue(issuer=CA).certificate
STORE, TRUST, REVOKED = "/certs/keystore.pem", "/certs/ca.crt", "/certs/revoked"
SETTINGS = read_ssl_settings(
    {"ssl.keystore.location": STORE, "ssl.truststore.location": TRUST, REVOKED_KEY: REVOKED},
    "CONTROLLER",
)


def revocation_list(
    issuer: Issued, *serials: int, extension: x509.ExtensionType | None = None
) -> bytes:
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(issuer.certificate.subject)
        .last_update(NOW)
        .next_update(NOW + DAY)
    )
    for serial in serials:
        entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(NOW).build()
        builder = builder.add_revoked_certificate(entry)
    if extension is not None:
        builder = builder.add_extension(extension, critical=True)
    return builder.sign(issuer.key, hashes.SHA256()).public_bytes(Encoding.PEM)


@pytest.mark.parametrize(
    "form", ["{:x}", "{:X}", "{:040x}", "serial={:X}", "  {:x}  # of a broker that is gone", "{}"]
)
def test_serial_is_parsed_in_common_notations(form: str) -> None:
    serial = ONE.serial_number
    if form == "{}":  # with colons, as `openssl x509 -text` has it
        digits = f"{serial:040x}"
        line = ":".join(digits[at : at + 2] for at in range(0, 40, 2))
    else:
        line = form.format(serial)
    found = load_revoked(f"# what is over\n\n{line}\n".encode(), "revoked")
    assert (found.holds(ONE), found.holds(TWO), len(found)) == (True, False, 1)


def test_list_applies_to_certificates_of_its_issuer() -> None:
    both = revocation_list(OTHER, TWO.serial_number) + revocation_list(CA, ONE.serial_number)
    found = load_revoked(both, "revoked")
    assert (found.holds(ONE), found.holds(TWO), len(found)) == (True, False, 2)


def test_serials_and_lists_may_be_in_one_file() -> None:
    """Other lines are what programs print beside a list."""
    listed = revocation_list(OTHER, TWO.serial_number)
    words = b"Certificate Revocation List (CRL):\n    Serial Number: 0A\n"
    line = f"serial={ONE.serial_number:X}  # stolen\n".encode()
    for data in (line + words + listed, words + listed + line):
        found = load_revoked(data, "revoked")
        assert (found.holds(ONE), found.holds(TWO), len(found)) == (True, False, 2)


def test_empty_file_revokes_no_certificate() -> None:
    assert load_revoked(b"", "revoked") == NONE_REVOKED
    assert load_revoked(revocation_list(CA), "revoked") == NONE_REVOKED


@pytest.mark.parametrize(
    ("data", "kind", "says"),
    [
        (b"12ab\n12a", ProblemKind.HALF_WRITTEN, "ends inside of a line"),
        (b"12ab\nxyz\n", ProblemKind.MALFORMED, "line 2 that is not a serial"),
        (b"+12\n", ProblemKind.MALFORMED, "line 1 that is not a serial"),
        (b"1_2\n", ProblemKind.MALFORMED, "line 1 that is not a serial"),
        (b"1" * 41 + b"\n", ProblemKind.MALFORMED, "line 1 that is not a serial"),
        (revocation_list(CA, 5)[:-9], ProblemKind.HALF_WRITTEN, "ends inside of a block X509 CRL"),
        (pem(ONE), ProblemKind.MALFORMED, "holds a block CERTIFICATE"),
        (
            revocation_list(CA, 5) + b"serial=12a",
            ProblemKind.HALF_WRITTEN,
            "ends inside of a line",
        ),
        (
            b"serial=xyz\n" + revocation_list(CA, 5),
            ProblemKind.MALFORMED,
            "line 1 that is not a serial",
        ),
        (
            b"-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n",
            ProblemKind.MALFORMED,
            "holds a list that can't be read",
        ),
        (
            revocation_list(CA, 5, extension=x509.DeltaCRLIndicator(3)),
            ProblemKind.MALFORMED,
            "the critical extension 2.5.29.27, which is not supported",
        ),
        (b"1\n" * (1 << 20), ProblemKind.MALFORMED, "has more than"),
    ],
)
def test_unreadable_entries_are_reported(data: bytes, kind: ProblemKind, says: str) -> None:
    with pytest.raises(CertificateProblem) as raised:
        load_revoked(data, "revoked")
    assert raised.value.kind is kind
    assert str(raised.value).startswith("revoked ")
    assert says in str(raised.value)


@pytest.mark.parametrize(
    "data", [b"a-token-by-mistake\n", b"serial=a-token-by-mistake\n" + revocation_list(CA, 5)]
)
def test_content_of_an_unreadable_file_is_not_shown(data: bytes) -> None:
    """The path, or the Secret that the operator reads, may be a wrong one, with a token or a password."""
    with pytest.raises(CertificateProblem, match="line 1 that is not a serial") as raised:
        load_revoked(data, "revoked")
    assert "token" not in str(raised.value)


def test_listener_applies_revocations_even_if_its_pair_is_unusable() -> None:
    """And who was revoked stays so while the file can't be read."""
    mine = issue(issuer=CA)
    good = {STORE: mine.keystore, TRUST: pem(CA.certificate), REVOKED: b""}
    held = first_held(SETTINGS, good, NOW)
    assert len(held.material.revoked) == 0
    line = f"{ONE.serial_number:x}\n".encode()
    broken = held_now(held, SETTINGS, {**good, STORE: b"garbage", REVOKED: line}, NOW)
    assert broken.problem is not None
    assert broken.material.revoked.holds(ONE)
    for unreadable in (None, line[:-1], b"garbage", b""):
        after = held_now(broken, SETTINGS, {**good, REVOKED: unreadable}, NOW)
        assert after.problem is not None
        assert after.problem.what == REVOKED
        assert after.material.revoked.holds(ONE)
    assert held_now(after, SETTINGS, {**good, REVOKED: b""}, NOW) is after, (
        "reported more than once"
    )
    comment = held_now(after, SETTINGS, {**good, REVOKED: b"# nobody\n"}, NOW)
    assert comment.problem is None
    assert len(comment.material.revoked) == 0
    with pytest.raises(CertificateProblem):
        first_held(SETTINGS, {**good, REVOKED: None}, NOW)


def test_reason_why_peers_reject_the_certificate_in_use() -> None:
    mine = issue(issuer=CA, start=NOW, end=NOW + DAY)
    good = {STORE: mine.keystore, TRUST: pem(CA.certificate), REVOKED: b""}
    material = first_held(SETTINGS, good, NOW).material
    assert why_others_refuse(material, NOW) is None
    late, later, early = (
        why_others_refuse(material, NOW + delay)
        for delay in (DAY + timedelta(seconds=1), 2 * DAY, -timedelta(minutes=1))
    )
    assert late is not None
    assert late.kind is ProblemKind.EXPIRED
    assert late.is_same(later)
    assert str(late) != str(later), "the time is reported"
    assert early is not None
    assert early.kind is ProblemKind.NOT_YET_VALID
    line = f"{mine.certificate.serial_number:x}\n".encode()
    revoked = why_others_refuse(first_held(SETTINGS, {**good, REVOKED: line}, NOW).material, NOW)
    assert revoked is not None
    assert revoked.kind is ProblemKind.REVOKED
