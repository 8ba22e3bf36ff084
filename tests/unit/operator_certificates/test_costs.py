"""What objects of users cost the operator, which serves the quorums of all of them in one loop: time in proportion to their size, which
is limited.
"""

import time
from typing import Any

import pytest

from quorum_node.security.tls.revocation import RevokedCertificates, load_revoked
from quorum_operator.certificates import checks, holders, issuing, named, pem, revoked
from quorum_operator.certificates.checks import Problem, Reason
from quorum_operator.certificates.named import NamedObjects
from quorum_operator.certificates.pem import Read, Unreadable, read_all
from quorum_operator.desired.names import Owner
from quorum_operator.tls_crd import RevokedSpec, TlsSpec

NOW_S = 1_795_000_000.0
OWNER = Owner("demo", "space", "uid")
AUTHORITY = issuing.new_authority(OWNER, 1, NOW_S)
HOLDER = holders.person("admin")
PAIR = issuing.issue(OWNER, HOLDER, AUTHORITY, NOW_S)
LISTS: list[dict[str, Any]] = [{"configMap": {"name": "one"}}, {"configMap": {"name": "two"}}]


def test_many_truncated_certificates_are_refused_in_linear_time() -> None:
    """Users write these texts, of up to a MiB, and the operator serves the quorums of all of them. It took 13 s for this one, and 220 s
    for a MiB.
    """
    text = "-----BEGIN CERTIFICATE-----\n" * 9000
    began = time.process_time()
    with pytest.raises(Unreadable, match="truncated"):
        read_all(text)
    assert time.process_time() - began < 2.0


def config_map(key: str, text: str) -> dict[str, Any]:
    return {"kind": "ConfigMap", "data": {key: text}}


def test_revocation_lists_beyond_the_limit_are_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen objects of a MiB took 4 s, at each look."""
    parsed: list[bytes] = []

    def counted(data: bytes, what: str) -> RevokedCertificates:
        parsed.append(data)
        return load_revoked(data, what)

    monkeypatch.setattr(revoked, "load_revoked", counted)
    large = config_map("ca.crl", f"0a # {'x' * (revoked.MOST_READ_BYTES // 2)}\n")
    spec = RevokedSpec.model_validate({"serials": ["0b"], "lists": LISTS})
    found, troubles = revoked.revoked("space", spec, (large, large))
    assert found is not None
    assert found.serials == frozenset("b")
    assert [each.reason for each in troubles] == ["RevokedTooLong"]
    assert sum(map(len, parsed)) <= revoked.MOST_READ_BYTES


def test_authorities_beyond_the_limit_are_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named, "MOST_READ", 3)
    parsed: list[int] = []

    def counted(text: str | bytes) -> tuple[Read, ...]:
        found = read_all(text)
        parsed.append(len(found))
        return found

    monkeypatch.setattr(named, "read_all", counted)
    all_pems = [issuing.new_authority(OWNER, each, NOW_S).certificate.pem for each in range(2, 7)]
    objects = (config_map("ca.crt", "".join(all_pems[:2])), config_map("ca.crt", all_pems[2] * 2))
    spec = TlsSpec.model_validate({"trustedCAs": LISTS})
    found = named.named("space", spec, NamedObjects(None, objects), NOW_S)
    assert parsed == [2]
    assert [each.reason for each in found.troubles] == ["TooMany"]
    assert not found.is_complete, "what was trusted before stays trusted"


def test_chain_that_members_would_refuse_is_not_searched() -> None:
    """Each certificate would be compared with each other one: a signature takes 0.1 ms."""
    many = PAIR.certificate.pem + AUTHORITY.certificate.pem * checks.MOST_CHAINED
    data = {checks.CERTIFICATE: many.encode(), checks.KEY: PAIR.key_pem.encode()}
    found = checks.check_leaf("s", data, OWNER, HOLDER, (AUTHORITY.certificate,), NOW_S)
    assert isinstance(found, Problem)
    assert found.reason is Reason.REFUSED
    assert "it has 11 certificates, more than 10" in found.message


@pytest.mark.parametrize("key", [checks.CERTIFICATE, checks.BUNDLE])
def test_bundle_that_members_would_refuse_is_not_parsed(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pem, "_read", lambda block: pytest.fail("parsed"))
    many = (AUTHORITY.certificate.pem * (checks.MOST_BUNDLED + 1)).encode()
    data = {key: many, checks.KEY: AUTHORITY.key_pem.encode()}
    if key == checks.CERTIFICATE:
        found: object = checks.check_given("Secret space/mine", data, NOW_S)
    else:
        found = checks.check_bundle("ConfigMap space/demo-trust", data)
    assert isinstance(found, Problem)
    assert found.reason is Reason.HALF_WRITTEN
    assert "holds 201 certificates, more than 200" in found.message
