"""What `spec.tls.revoked` makes of serials and lists: one file that nodes read; what can't be read takes nothing away."""

from base64 import b64encode
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding

from quorum_node.security.tls.revocation import load_revoked
from quorum_operator.certificates import revoked as module
from quorum_operator.certificates.revoked import file_for, revoked
from quorum_operator.tls_crd import RevokedSpec
from support.generated_certificates import DAY, NOW, authority, issue

pytestmark = pytest.mark.requirement("OP-11")

CA, OTHER = authority("ca-1"), authority("ca-2")
ONE, TWO, THREE = (issue(issuer=CA).certificate for _ in range(3))
LISTS: list[dict[str, Any]] = [{"configMap": {"name": "partners"}}, {"secret": {"name": "tools"}}]


def crl(issuer: Any, *certificates: x509.Certificate) -> bytes:
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(issuer.certificate.subject)
        .last_update(NOW)
        .next_update(NOW + DAY)
    )
    for each in certificates:
        entry = x509.RevokedCertificateBuilder().serial_number(each.serial_number)
        builder = builder.add_revoked_certificate(entry.revocation_date(NOW).build())
    return builder.sign(issuer.key, hashes.SHA256()).public_bytes(Encoding.PEM)


def spec(*serials: str, lists: list[dict[str, Any]] | None = None) -> RevokedSpec:
    return RevokedSpec.model_validate({"serials": list(serials), "lists": lists or []})


def config_map(text: bytes) -> dict[str, Any]:
    return {"kind": "ConfigMap", "data": {"ca.crl": text.decode()}}


def secret(text: bytes) -> dict[str, Any]:
    return {"kind": "Secret", "data": {"ca.crl": b64encode(text).decode()}}


def result_of(
    requested: RevokedSpec | None, *found: dict[str, Any] | None, earlier: tuple[str, ...] = ()
) -> tuple[str | None, list[str]]:
    """The file, and the reasons of what is wrong."""
    wanted, troubles = revoked("space", requested, found)
    return file_for(wanted, earlier), [each.reason for each in troubles]


def refused(text: str | None) -> set[x509.Certificate]:
    """By a node that has this file."""
    assert text is not None
    found = load_revoked(text.encode(), "revoked")
    return {each for each in (ONE, TWO, THREE) if found.holds(each)}


def test_spec_without_revocations_keeps_the_existing_file() -> None:
    assert result_of(None, earlier=("12ab\n",)) == (None, [])


def test_revocation_file_is_not_empty_without_revocations() -> None:
    """A node takes an empty one for a file that is being written."""
    text, troubles = result_of(spec())
    assert text
    assert (refused(text), troubles) == (set(), [])


@pytest.mark.parametrize("form", ["{:x}", "{:X}", "serial={:X}", "00:{:x}"])
def test_serial_is_accepted_in_every_common_notation(form: str) -> None:
    text, troubles = result_of(spec(form.format(ONE.serial_number)))
    assert (refused(text), troubles) == ({ONE}, [])
    assert text == result_of(spec(f"{ONE.serial_number:x}"))[0]


def test_serials_and_lists_from_secrets_and_config_maps_are_merged_into_one_file() -> None:
    both = spec(f"{ONE.serial_number:x}", lists=LISTS)
    text, troubles = result_of(both, config_map(crl(CA, TWO)), secret(b"words\n" + crl(CA, THREE)))
    assert (refused(text), troubles) == ({ONE, TWO, THREE}, [])
    lines = config_map(f"{TWO.serial_number:x}  # stolen".encode())
    assert refused(result_of(both, lines, secret(b""))[0]) == {ONE, TWO}
    of_other = result_of(spec(lists=LISTS[:1]), config_map(crl(OTHER, TWO)))[0]
    assert refused(of_other) == set(), "a list holds for its own issuer"


def test_file_content_is_independent_of_the_order_of_its_sources() -> None:
    one, two = crl(CA, ONE), crl(OTHER, TWO)
    serials = ("0a", "0b")
    text = result_of(spec(*serials, lists=LISTS), config_map(one), secret(two))[0]
    assert result_of(spec(*reversed(serials), lists=LISTS), config_map(two), secret(one))[0] == text


BAD: dict[str, tuple[dict[str, Any] | None, str]] = {
    "it is not there": (None, "RevokedMissing"),
    "it lacks the key": ({"kind": "ConfigMap", "data": {"other": "12"}}, "RevokedMissing"),
    "it has no data": ({"kind": "ConfigMap"}, "RevokedMissing"),
    "a word": (config_map(b"nonsense\n"), "RevokedUnreadable"),
    "a certificate": (config_map(ONE.public_bytes(Encoding.PEM)), "RevokedUnreadable"),
    "a list that is cut off": (config_map(crl(CA, TWO)[:-30]), "RevokedUnreadable"),
    "no text": (secret(b"\xff\xfe"), "RevokedUnreadable"),
}


@pytest.mark.parametrize("case", BAD)
def test_unreadable_entries_are_reported_and_revoked_certificates_stay_revoked(case: str) -> None:
    there, reason = BAD[case]
    requested = spec(lists=LISTS[:1])
    before = result_of(requested, config_map(crl(CA, TWO)))[0]
    assert before is not None
    hurried = spec(f"{ONE.serial_number:x}", lists=LISTS[:1])
    text, troubles = result_of(hurried, there, earlier=(before, before))
    assert troubles == [reason]
    assert refused(text) == {ONE, TWO}, "a list without a next update counts"
    assert refused(result_of(hurried, config_map(crl(CA)), earlier=(before,))[0]) == {ONE}


def test_oversized_serial_is_skipped_and_the_others_are_kept() -> None:
    text, troubles = result_of(spec("1" * 41, f"{ONE.serial_number:x}"))
    assert (refused(text), troubles) == ({ONE}, ["RevokedUnreadable"])


def test_lists_beyond_the_secret_size_limit_are_reported_and_serials_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 300)
    requested = spec(f"{ONE.serial_number:x}", lists=LISTS[:1])
    text, troubles = result_of(requested, config_map(crl(CA, TWO)))
    assert (refused(text), troubles) == ({ONE}, ["RevokedTooLong"])


def test_unknown_entries_in_a_member_secret_are_dropped() -> None:
    text, _ = result_of(spec("0a", lists=LISTS[:1]), None, earlier=("nonsense\n", "0b\n"))
    assert text is not None
    assert "nonsense" not in text
    assert load_revoked(text.encode(), "").serials == {10, 11}
