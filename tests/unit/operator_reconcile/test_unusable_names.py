"""DNS names of identities that no certificate can contain; an earlier definition let them through."""

import re
from typing import Any

import pytest

from quorum_operator.certificates import issuing
from quorum_operator.certificates.holders import Holder
from quorum_operator.certificates.issuing import Pair
from quorum_operator.desired.names import Owner
from quorum_operator.tls_crd import DNS_NAME
from support.in_memory_kube_api import running_quorum
from support.secured_quorum import Env

UNUSABLE = ["br\u00f6ker.example", "", "two names", "a\nb", ".example", "a."]


def broker(name: str, node_id: int, *names: str) -> dict[str, Any]:
    return {"name": name, "role": "broker", "nodeId": node_id, "dnsNames": list(names)}


def secured(wrong: str) -> Env:
    identities = [broker("first", 11, "b1.example", wrong), broker("second", 12, "*.example")]
    spec: dict[str, Any] = {"mode": "Managed", "identities": identities}
    return Env(running_quorum(3, tls=True, tls_spec=spec))


@pytest.mark.parametrize("wrong", UNUSABLE)
def test_only_its_own_identity_gets_no_certificate(wrong: str) -> None:
    env = secured(wrong)
    env.settle()
    members = {f"demo-{each}-1-tls" for each in (1, 2, 3)}
    made = set(env.api.created("secrets"))
    assert made == {"demo-ca-1", "demo-admin-tls", "demo-second-tls", *members}
    blocked = env.api.condition("TlsBlocked")
    assert (blocked["status"], blocked["reason"]) == ("True", "NameUnusable")
    assert "first" in blocked["message"]
    assert env.ready()["status"] == "True"


@pytest.mark.parametrize("wrong", UNUSABLE)
def test_the_definition_refuses_it(wrong: str) -> None:
    assert re.search(DNS_NAME, wrong) is None


def test_a_certificate_that_can_not_be_made_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """And keeps no member from being repaired, whatever the reason is."""

    real = issuing.issue

    def fails(owner: Owner, holder: Holder, authority: Pair, now: float) -> Pair:
        if holder.name == "second":
            raise ValueError("not in this format")
        return real(owner, holder, authority, now)

    env = secured("b2.example")
    monkeypatch.setattr(issuing, "issue", fails)
    env.looks(2)
    assert env.api.condition("TlsReady")["reason"] == "WriteRefused"
    assert "not in this format" in env.api.condition("TlsReady")["message"]
