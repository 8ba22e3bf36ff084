"""An invalid Secret is reported in one message, which names the Secret and contains nothing of a key."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum_operator.certificates import checks, documents, holders, issuing
from quorum_operator.certificates.checks import BUNDLE, CERTIFICATE, KEY, Problem, Reason
from quorum_operator.certificates.lifetimes import DAY_S
from quorum_operator.certificates.pem import Read, read_all
from quorum_operator.desired.names import Owner

OWNER = Owner("demo", "space", "uid")
NOW_S = 1_795_000_000.0
AUTHORITY = issuing.new_authority(OWNER, 1, NOW_S)
FOREIGN = issuing.new_authority(OWNER, 1, NOW_S)
HOLDER = holders.member(OWNER, 1, 1)
TRUSTED = (AUTHORITY.certificate,)
PAIR = issuing.issue(OWNER, HOLDER, AUTHORITY, NOW_S)
SOUND = checks.decoded(documents.leaf_secret(OWNER, HOLDER, PAIR, TRUSTED)["data"])
Data = dict[str, bytes]


def check(data: Data | None, now: float = NOW_S) -> Read | Problem:
    return checks.check_leaf("demo-1-1-tls", data, OWNER, HOLDER, TRUSTED, now)


def of(pair: issuing.Pair) -> Data:
    return {**SOUND, CERTIFICATE: pair.certificate.pem.encode(), KEY: pair.key_pem.encode()}


def issued(**changes: object) -> Data:
    changed = replace(HOLDER, **changes)
    return of(issuing.issue(OWNER, changed, AUTHORITY, NOW_S))


CASES: dict[str, tuple[Callable[[], Data | None], float, Reason, str]] = {
    "deleted": (lambda: None, 0, Reason.MISSING, "was deleted"),
    "no key": (
        lambda: {k: v for k, v in SOUND.items() if k != KEY},
        0,
        Reason.HALF_WRITTEN,
        "tls.key is missing",
    ),
    "empty": (lambda: {**SOUND, CERTIFICATE: b" \n"}, 0, Reason.HALF_WRITTEN, "tls.crt is missing"),
    "certificate cut off": (
        lambda: {**SOUND, CERTIFICATE: SOUND[CERTIFICATE][:300]},
        0,
        Reason.HALF_WRITTEN,
        "tls.crt: a certificate in it is truncated",
    ),
    "key cut off": (
        lambda: {**SOUND, KEY: SOUND[KEY][:100]},
        0,
        Reason.HALF_WRITTEN,
        "tls.key: not an unencrypted private key in PEM",
    ),
    "garbage": (lambda: {**SOUND, CERTIFICATE: b"\x00\xff"}, 0, Reason.HALF_WRITTEN, "tls.crt: no"),
    "another key": (
        lambda: {**SOUND, KEY: FOREIGN.key_pem.encode()},
        0,
        Reason.KEY_MISMATCH,
        "tls.key is not the key of tls.crt",
    ),
    "another authority of the same name": (
        lambda: of(issuing.issue(OWNER, HOLDER, FOREIGN, NOW_S)),
        0,
        Reason.WRONG_AUTHORITY,
        "which is not a certificate authority of this quorum (quorum CA 1)",
    ),
    "expired": (lambda: SOUND, 91 * DAY_S, Reason.EXPIRED, "its certificate expired at 2027-02-"),
    "a clock that is a day behind": (
        lambda: SOUND,
        -DAY_S,
        Reason.NOT_YET_VALID,
        "by the API server's clock it is 2026-11-1",
    ),
    "a name is missing": (
        lambda: issued(dns_names=HOLDER.dns_names[1:]),
        0,
        Reason.WRONG_NAME,
        "lacks the name demo-1-1-0.demo-nodes.space.svc",
    ),
    "another id": (
        lambda: issued(node_id=2),
        0,
        Reason.WRONG_IDENTITY,
        "member:2, not to urn:metadataquorum:space:demo:member:1",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_invalid_case_has_its_own_message(case: str) -> None:
    made, later_s, reason, text = CASES[case]
    found = check(made(), NOW_S + later_s)
    assert isinstance(found, Problem)
    assert found.reason is reason
    assert text in found.message
    assert found.message.startswith("Secret space/demo-1-1-tls")
    assert "The operator issues a new one" in found.message


def test_valid_certificates_and_keys_are_parsed() -> None:
    assert check(SOUND) == PAIR.certificate


@given(st.sampled_from((CERTIFICATE, KEY)), st.data())
def test_truncated_or_changed_bytes_are_reported_and_leak_no_key(
    name: str, data: st.DataObject
) -> None:
    text = SOUND[name]
    end = data.draw(st.integers(0, len(text) - 1))
    put = data.draw(st.binary(max_size=3))
    found = check({**SOUND, name: text[:end] + put + text[end + len(put) :]})
    if isinstance(found, Problem):
        lines = PAIR.key_pem.splitlines()[1:-1]
        assert not any(line[:16] in found.message for line in lines)
    else:
        assert found == PAIR.certificate


@given(st.binary(max_size=200))
def test_arbitrary_bytes_cause_no_other_exception(junk: bytes) -> None:
    found = check({CERTIFICATE: junk, KEY: junk, BUNDLE: junk})
    assert isinstance(found, Problem)
    assert isinstance(checks.check_bundle("x", {BUNDLE: junk}), Problem)


def test_authority_is_valid_by_its_name_and_self_signature() -> None:
    secret = documents.authority_secret(OWNER, 1, AUTHORITY, signing=True)
    data = checks.decoded(secret["data"])
    assert checks.check_authority("demo-ca-1", data, OWNER, 1, NOW_S) == AUTHORITY.certificate
    other = checks.check_authority("demo-ca-2", data, OWNER, 2, NOW_S)
    assert isinstance(other, Problem)
    assert other.reason is Reason.WRONG_AUTHORITY
    problem = checks.check_authority("demo-ca-1", None, OWNER, 1, NOW_S)
    assert isinstance(problem, Problem)
    assert "takes over once all members trust it" in problem.message


def test_truncated_bundle_is_rejected_instead_of_shortened() -> None:
    """If one of two certificates of a bundle were dropped, an authority would lose its trust."""
    text = documents.bundle_text((AUTHORITY.certificate, FOREIGN.certificate))
    assert len(read_all(text)) == 2
    found = checks.check_bundle("ConfigMap space/demo-trust", {BUNDLE: text[:-40].encode()})
    assert isinstance(found, Problem)
    assert found.reason is Reason.HALF_WRITTEN


def test_invalid_base64_is_ignored() -> None:
    assert checks.decoded({"a": "!!", "b": "Yg=="}) == {"b": b"b"}
