"""`spec.tls.issuerRef` while a member does not answer: the others get their certificates, and nobody loses trust."""

from collections.abc import Callable

import pytest

from quorum_operator.certificates.lifetimes import DAY_S
from quorum_operator.planner.observed import NodeReport
from quorum_operator.quorum_client import Described
from support.in_memory_kube_api import SPACE
from support.issued_quorum import ISSUED_TLS, MEMBERS, Issuing
from support.modelled_issuer import ModelledIssuer
from support.secured_quorum import SecuredNodes, leaf_in, leaf_path, secret_path

OPERATOR = secret_path("demo-operator-tls")


class CutOffNodes(SecuredNodes):
    """`cut_off`: members that the operator can not reach; their peers can. `is_refused`: whether all members refuse
    the operator's certificate.
    """

    cut_off: frozenset[int] = frozenset()
    is_refused: Callable[[], bool] = staticmethod(lambda: False)

    async def report(self, ip: str, node_id: int) -> NodeReport | None:
        found = await super().report(ip, node_id)
        return None if node_id in self.cut_off or self.is_refused() else found

    async def describe(self, ips: list[str]) -> Described:
        return Described(None, None) if self.is_refused() else await super().describe(ips)


def issuing(*, begun: bool = True) -> Issuing:
    quorum = Issuing(begun=begun)
    quorum.nodes = quorum.env.nodes = CutOffNodes(quorum.api, now=quorum.nodes.now)
    return quorum


@pytest.mark.requirement("OP-11")
def test_lost_certificate_is_restored_while_another_member_is_silent() -> None:
    """Such as that of the silent member's successor."""
    quorum = issuing()
    quorum.settle()
    quorum.nodes.cut_off = frozenset({3})
    del quorum.api.objects[leaf_path(2)]
    quorum.looks(4)
    assert leaf_in(quorum.api.objects[leaf_path(2)]).issuer == "CN=Issuer"
    assert quorum.env.ready()["status"] == "True", quorum.env.ready()


@pytest.mark.requirement("OP-11")
@pytest.mark.long
def test_certificates_are_renewed_while_a_member_with_a_newer_one_is_silent() -> None:
    quorum = issuing()
    quorum.settle()
    quorum.nodes.now += 30 * DAY_S
    del quorum.api.objects[secret_path("demo-3-1-issued")]
    quorum.looks(6)
    quorum.nodes.cut_off = frozenset({3})
    quorum.nodes.now += 31 * DAY_S
    before = {each: quorum.nodes.loaded[each][0] for each in MEMBERS}
    quorum.fulfil(again=True)
    quorum.looks(8)
    for each in MEMBERS:
        assert quorum.nodes.loaded[each][0] != before[each], each


def test_foreign_certificate_in_the_operators_secret_is_replaced() -> None:
    """Members refuse it, so the operator uses that of another holder until its own is restored."""
    quorum = issuing()
    quorum.settle()
    request = quorum.requests()["demo-operator-issued"]
    foreign = ModelledIssuer("Foreign", quorum.nodes.now).secret_data(request, quorum.nodes.now)
    data = quorum.api.objects[OPERATOR]["data"]
    data |= {name: foreign[name] for name in ("tls.crt", "tls.key")}
    refused = leaf_in(quorum.api.objects[OPERATOR]).fingerprint
    operator = quorum.env.operator()

    def is_refused() -> bool:
        known = operator._memory.known(SPACE, "demo")
        assert known is not None
        assert known.opened is not None
        return known.opened.key.presented == refused

    quorum.nodes.is_refused = is_refused
    quorum.env.looks(1, operator)
    assert not is_refused()
    quorum.env.looks(3, operator)
    assert leaf_in(quorum.api.objects[OPERATOR]).issuer == "CN=Issuer"
    assert quorum.api.condition("QuorumConfirmed")["status"] == "True"


def test_silent_member_that_got_its_certificate_without_a_report_does_not_prove_trust() -> None:
    """Its Secret was lost while it was silent, so it has a certificate of the issuer there, and has loaded nothing."""
    quorum = issuing(begun=False)
    quorum.env.settle()
    quorum.nodes.cut_off, quorum.nodes.stuck = frozenset({3}), {3}
    quorum.api.change_spec(tls=ISSUED_TLS)
    del quorum.api.objects[leaf_path(3)]
    quorum.looks(8)
    assert leaf_in(quorum.api.objects[leaf_path(3)]).issuer == "CN=Issuer"
    own = {"CN=quorum CA 1,O=demo.space"}
    assert quorum.signers() == own
    assert "until demo-3-1 trusts its issuer" in quorum.env.ready()["message"]
    quorum.nodes.cut_off, quorum.nodes.stuck = frozenset(), set()
    quorum.settle()
    assert quorum.signers() == {"CN=Issuer"}
