"""`spec.tls.issuerRef` in the real reconcile: cert-manager is used, delayed, fails, renews, and changes its authority."""

import asyncio

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from quorum_operator.certificates.lifetimes import DAY_S
from quorum_operator.desired import names
from quorum_operator.kube.errors import Forbidden, NotFound, Unavailable
from support.generated_certificates import BOTH_USAGES
from support.in_memory_kube_api import SPACE, copied, set_path
from support.issued_quorum import ISSUED_TLS, MEMBERS, REQUESTS, TRUST, Issuing
from support.modelled_issuer import ModelledIssuer, failed, waiting
from support.secured_quorum import bundle_in, leaf_in, leaf_path, secret_path


@pytest.mark.requirement("OP-11")
@pytest.mark.parametrize("below_a_root", [True, pytest.param(False, marks=pytest.mark.long)])
def test_every_holder_gets_the_certificate_of_the_issuer(below_a_root: bool) -> None:
    quorum = Issuing(below_a_root=below_a_root)
    quorum.settle()
    requested = quorum.requests()
    members = {f"demo-{each}-1-issued" for each in MEMBERS}
    assert set(requested) == {*members, "demo-admin-issued", "demo-operator-issued"}
    first = requested["demo-1-1-issued"]
    assert first["metadata"]["ownerReferences"][0]["name"] == "demo"
    assert first["spec"]["uris"] == [f"urn:metadataquorum:{SPACE}:demo:member:1"]
    assert "localhost" in first["spec"]["dnsNames"]
    assert first["spec"]["issuerRef"] == {
        "name": "internal",
        "kind": "Issuer",
        "group": "cert-manager.io",
    }
    assert "dnsNames" not in requested["demo-admin-issued"]["spec"]
    below = " below" if below_a_root else ""
    assert quorum.signers() == {f"CN=Issuer{below}"}
    assert quorum.trusted() == {"CN=Issuer"}, "the ca.crt of a Secret was trusted"
    assert not [each for each in quorum.api.created("secrets") if "-ca-" in each]
    ready_ = quorum.env.ready()
    assert (ready_["status"], ready_["message"]) == (
        "True",
        "each member has a certificate of the issuer",
    )
    opened = quorum.env.operator()
    quorum.env.looks(1, opened)
    known = opened._memory.known(SPACE, "demo")
    assert known is not None
    assert known.opened is not None
    operators = leaf_in(quorum.api.objects[secret_path("demo-operator-tls")])
    assert known.opened.key.presented == operators.fingerprint


@pytest.mark.long
def test_valid_issued_certificates_are_not_rewritten() -> None:
    quorum = Issuing()
    quorum.settle()
    quorum.api.writes.clear()
    quorum.looks(5)
    assert quorum.api.writes == []


def test_certificate_of_another_application_is_not_changed() -> None:
    quorum = Issuing(begun=False)
    path = f"{REQUESTS}/demo-2-1-issued"
    meta = {"name": "demo-2-1-issued", "namespace": SPACE, "uid": "foreign", "labels": {}}
    owners = [{"kind": "Ingress", "name": "shop", "uid": "of-shop"}]
    foreign = {
        "metadata": {**meta, "resourceVersion": "7", "ownerReferences": owners},
        "spec": {"secretName": "shop-tls", "dnsNames": ["shop.example"]},
    }
    quorum.api.objects[path] = copied(foreign)
    quorum.works = False
    quorum.api.change_spec(tls=ISSUED_TLS)
    quorum.looks(4)
    assert quorum.api.objects[path] == foreign
    assert f"{REQUESTS}/demo-3-1-issued" in quorum.api.objects, "the others are requested"
    ready_ = quorum.env.ready()
    assert (ready_["status"], ready_["reason"]) == ("False", "WriteRefused")
    assert "Certificate/demo-2-1-issued" in ready_["message"]


@pytest.mark.requirement("OP-11")
def test_delayed_issuer_is_waited_for_and_named() -> None:
    quorum = Issuing()
    quorum.works = False
    quorum.looks(3)
    ready_ = quorum.env.ready()
    assert (ready_["status"], ready_["reason"]) == ("False", "Issuing")
    assert "Certificate space/demo-1-1-issued is being issued" in ready_["message"]
    assert quorum.blocked()[0] == "NothingBlocked", "the issuer still has time"
    for each in quorum.requests().values():
        each["status"] = waiting(quorum.nodes.now)
    quorum.nodes.now += 90
    quorum.looks(2)
    reason, message = quorum.blocked()
    assert reason == "IssuerLate"
    assert "has not been issued; requested at" in message
    assert "DoesNotExist: Issuing certificate as Secret does not exist" in message
    assert "(the same for 5 certificates)" in message
    events = [each["reason"] for each in quorum.api.events]
    assert events.count("TlsIssuerLate") == 1
    quorum.works = True
    quorum.settle()
    assert quorum.blocked()[0] == "NothingBlocked"


@pytest.mark.requirement("OP-11")
def test_failed_issuer_is_reported_and_existing_certificates_stay() -> None:
    quorum = Issuing()
    quorum.settle()
    before = dict(quorum.nodes.loaded)
    for each in quorum.requests().values():
        each["status"] = failed(quorum.nodes.now)
    quorum.looks(3)
    reason, message = quorum.blocked()
    assert reason == "IssuerFailed"
    assert "Failed: The certificate request has failed to complete" in message
    assert quorum.nodes.loaded == before
    assert quorum.env.ready()["status"] == "True"


@pytest.mark.requirement("OP-11")
@pytest.mark.long
def test_renewed_certificates_are_loaded_one_at_a_time_and_the_leader_last() -> None:
    quorum = Issuing()
    quorum.settle()
    quorum.nodes.now += 61 * DAY_S
    before = {each: quorum.nodes.loaded[each][0] for each in MEMBERS}
    quorum.fulfil(again=True)
    quorum.nodes.stuck = {2}
    quorum.api.writes.clear()
    quorum.looks(4)
    written = [path for _, path in quorum.api.writes if "-1-tls" in path]
    assert written == [leaf_path(2)], "the next waits until it is loaded"
    assert "demo-2-1 has not loaded" in quorum.env.ready()["message"]
    quorum.nodes.stuck.clear()
    quorum.settle()
    written = [path for _, path in quorum.api.writes if "-1-tls" in path]
    assert written == [leaf_path(2), leaf_path(3), leaf_path(1)]
    assert all(quorum.nodes.loaded[each][0] != before[each] for each in MEMBERS)


@pytest.mark.requirement("OP-11")
def test_new_authority_of_the_issuer_is_used_after_it_is_named_and_trusted_by_all() -> None:
    quorum = Issuing()
    quorum.settle()
    old, new = quorum.issuer, ModelledIssuer("Next", quorum.nodes.now)
    quorum.issuer = new
    quorum.fulfil(again=True)
    quorum.looks(4)
    assert quorum.signers() == {"CN=Issuer"}
    reason, message = quorum.blocked()
    assert reason == "IssuedUnusable"
    assert "'CN=Next', which is not a certificate authority of this quorum (Issuer)" in message
    quorum.nodes.stuck = {3}
    quorum.trust(old, new)
    quorum.looks(6)
    assert quorum.signers() == {"CN=Issuer"}
    assert "until demo-3-1 trusts its issuer" in quorum.env.ready()["message"]
    quorum.nodes.stuck.clear()
    quorum.settle()
    assert quorum.signers() == {"CN=Next"}
    quorum.trust(new)
    quorum.settle()
    assert quorum.trusted() == {"CN=Next"}


@pytest.mark.long
def test_authority_in_use_is_kept_although_it_is_no_longer_named() -> None:
    quorum = Issuing()
    quorum.settle()
    old, new = quorum.issuer, ModelledIssuer("Next", quorum.nodes.now)
    quorum.trust(new)
    quorum.looks(4)
    assert quorum.trusted() == {"CN=Issuer", "CN=Next"}
    assert old is not new
    quorum.issuer = new
    quorum.fulfil(again=True)
    quorum.settle()
    assert quorum.trusted() == quorum.signers() == {"CN=Next"}


@pytest.mark.long
@pytest.mark.parametrize("lost", ["trust", "issued", "leaf", "request"])
def test_deleted_objects_are_restored_and_no_holder_loses_trust(lost: str) -> None:
    quorum = Issuing()
    quorum.settle()
    place = {
        "trust": TRUST,
        "issued": secret_path("demo-2-1-issued"),
        "leaf": leaf_path(2),
        "request": f"{REQUESTS}/demo-2-1-issued",
    }[lost]
    del quorum.api.objects[place]
    quorum.looks(4)
    assert quorum.trusted() == {"CN=Issuer"}
    assert quorum.signers() == {"CN=Issuer"}
    if lost == "trust":
        assert quorum.blocked()[0] == "TrustedMissing"
        quorum.trust(quorum.issuer)
    quorum.settle()
    assert place in quorum.api.objects


@pytest.mark.requirement("OP-11")
@pytest.mark.long
def test_partial_certificate_of_the_issuer_is_not_used() -> None:
    quorum = Issuing()
    quorum.settle()
    secret = quorum.api.objects[secret_path("demo-2-1-issued")]
    secret["data"]["tls.key"] = quorum.api.objects[secret_path("demo-3-1-issued")]["data"][
        "tls.key"
    ]
    before = leaf_in(quorum.api.objects[leaf_path(2)])
    quorum.looks(3)
    reason, message = quorum.blocked()
    assert reason == "IssuedUnusable"
    assert "tls.key is not the key of tls.crt" in message
    assert leaf_in(quorum.api.objects[leaf_path(2)]) == before


def test_certificates_of_removed_holders_are_deleted() -> None:
    """cert-manager would renew them for ever."""
    quorum = Issuing()
    broker = {"name": "kafka-7", "role": "broker", "nodeId": 7}
    quorum.api.change_spec(tls={**ISSUED_TLS, "identities": [broker]})
    quorum.settle()
    foreign = copied(quorum.requests()["demo-kafka-7-issued"])
    foreign["metadata"] |= {"name": "other-issued", "uid": "x", "ownerReferences": []}
    quorum.api.objects[f"{REQUESTS}/other-issued"] = foreign
    quorum.api.change_spec(tls=ISSUED_TLS)
    quorum.settle()
    assert set(quorum.requests()) == {
        *(f"demo-{each}-1-issued" for each in MEMBERS),
        *("demo-admin-issued", "demo-operator-issued", "other-issued"),
    }
    assert [e["message"] for e in quorum.api.events if e["reason"] == "DropRequest"] == [
        "Certificate/demo-kafka-7-issued: its holder no longer exists"
    ]
    listed: list[str] = []
    quorum.api.refuse = lambda verb, path: listed.append(path) if verb == "list" else None
    quorum.looks(6)
    assert listed.count(REQUESTS) == 1, "they are listed each time, although nothing has changed"


def test_certificates_that_members_would_refuse_are_not_used() -> None:
    """An issuer may grant other usages than requested, such as those of a server only. A member is a client, too."""
    quorum = Issuing()
    quorum.settle()
    before = dict(quorum.nodes.loaded)
    quorum.issuer.usages = (ExtendedKeyUsageOID.SERVER_AUTH,)
    quorum.fulfil(again=True)
    quorum.looks(4)
    assert quorum.nodes.loaded == before
    reason, message = quorum.blocked()
    assert reason == "IssuedUnusable"
    assert "members refuse tls.crt: unsuitable certificate purpose" in message
    quorum.issuer.usages = BOTH_USAGES
    quorum.fulfil(again=True)
    quorum.settle()
    assert all(quorum.nodes.loaded[each][0] != before[each][0] for each in MEMBERS)
    assert quorum.blocked()[0] == "NothingBlocked"


@pytest.mark.requirement("OP-11")
@pytest.mark.long
def test_operator_authority_changes_to_an_issuer_and_back() -> None:
    quorum = Issuing(begun=False)
    quorum.env.settle()
    quorum.api.change_spec(tls=ISSUED_TLS)
    quorum.settle()
    assert quorum.trusted() == quorum.signers() == {"CN=Issuer"}
    quorum.api.change_spec(tls={"mode": "Managed", "issuerRef": None, "trustedCAs": None})
    quorum.env.settle()
    assert [quorum.env.authority_of(each) for each in MEMBERS] == [2, 2, 2]
    assert quorum.trusted() == {"CN=quorum CA 2,O=demo.space"}


@pytest.mark.long
def test_brokers_restart_before_the_operator_authority_is_removed() -> None:
    broker = {"name": "broker-7", "role": "broker", "nodeId": 7}
    quorum = Issuing(begun=False)
    quorum.api.change_spec(tls={"mode": "Managed", "identities": [broker]})
    quorum.env.settle()
    quorum.api.change_spec(tls={**ISSUED_TLS, "identities": [broker]})
    quorum.looks(6)
    assert quorum.api.condition("TrustPending")["reason"] == "WaitingForBrokers"
    assert quorum.signers() == {"CN=quorum CA 1,O=demo.space"}
    quorum.env.annotate(names.ANNOTATION_BROKERS_TRUST, "2")
    quorum.looks(12)
    assert quorum.signers() == {"CN=Issuer"}
    assert len(bundle_in(quorum.api.objects[leaf_path(1)])) == 2
    quorum.env.annotate(names.ANNOTATION_BROKERS_RENEWED, "2")
    quorum.settle()
    assert quorum.trusted() == {"CN=Issuer"}


@pytest.mark.requirement("OP-11")
@pytest.mark.long
@pytest.mark.parametrize("missing", [True, False])
def test_missing_cert_manager_or_permission_is_reported_once(missing: bool) -> None:
    quorum = Issuing()

    def refuse(verb: str, path: str) -> None:
        if not path.startswith(REQUESTS):
            return
        if missing and verb == "create":
            raise NotFound(404, "NotFound", "the server could not find the requested resource")
        if not missing:
            raise Forbidden(403, "Forbidden", "certificates.cert-manager.io is forbidden")

    quorum.api.refuse = refuse
    quorum.looks(4)
    reason, message = quorum.blocked()
    assert reason == ("IssuerMissing" if missing else "IssuerForbidden")
    assert ("install cert-manager" if missing else "certManager.enabled=true") in message
    quorum.api.refuse = lambda verb, path: None
    quorum.settle()


def test_unreadable_requests_hold_up_nothing_else() -> None:
    """Such as while the conversion webhook of cert-manager's resource definitions does not answer."""
    quorum = Issuing()
    quorum.settle()
    error = Unavailable(500, "InternalError", "conversion webhook for cert-manager.io/v1 failed")

    def refuse(verb: str, path: str) -> None:
        if path.startswith(REQUESTS):
            raise error

    quorum.api.refuse = refuse
    quorum.api.change_spec(tolerations=[{"key": "x", "operator": "Exists"}])
    quorum.looks(4)
    assert ("patch", set_path(1)) in quorum.api.writes
    reason, message = quorum.blocked()
    assert reason == "IssuerFailed"
    assert error.message in message
    quorum.api.refuse = lambda verb, path: None
    quorum.settle()


@pytest.mark.long
def test_changed_issuer_in_the_spec_is_used() -> None:
    quorum = Issuing()
    quorum.settle()
    quorum.api.change_spec(
        tls={**ISSUED_TLS, "issuerRef": {"name": "other", "kind": "ClusterIssuer"}}
    )
    quorum.looks(2)
    refs = {each["spec"]["issuerRef"]["name"] for each in quorum.requests().values()}
    assert refs == {"other"}


@pytest.mark.long
def test_issued_certificates_that_expired_without_an_operator_are_replaced() -> None:
    """The issuer has renewed its Secrets, and no operator has copied them."""
    quorum = Issuing()
    quorum.settle()
    quorum.nodes.now += 400 * DAY_S
    quorum.nodes.loaded.clear()
    quorum.fulfil(again=True)
    quorum.settle()
    for node_id in MEMBERS:
        leaf = leaf_in(quorum.api.objects[leaf_path(node_id)])
        assert leaf.validity.not_after > quorum.nodes.now


@pytest.mark.long
def test_two_concurrent_operators_get_the_same_result() -> None:
    quorum = Issuing()
    both = [quorum.env.operator(), quorum.env.operator()]

    async def run() -> None:
        await asyncio.gather(*(each.reconcile(SPACE, "demo") for each in both))

    for _ in range(8):
        asyncio.run(run())
        quorum.fulfil()
        assert quorum.nodes.trust_failures() == []
    quorum.settle()
