"""Objects that are given to another owner or made something else, on a real API server: the operator takes them back."""

import pytest

from support.envtest.environment import Env, SharedQuorum
from support.envtest.kube_api import Json
from support.kind_env import kube
from support.kind_env.waiting import wait_for

pytestmark = [pytest.mark.envtest, pytest.mark.requirement("OP-01")]


def stranger(env: Env, *, controller: bool) -> Json:
    """An owner reference to an object that every namespace has."""
    meta = env.api.get(kube.core(env.namespace, "configmaps", "kube-root-ca.crt"))["metadata"]
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": meta["name"], "uid": meta["uid"]}
    return {**owner, "controller": controller}


def owners(env: Env, path: str) -> list[str]:
    references = env.api.get(path)["metadata"].get("ownerReferences") or []
    return [each["kind"] for each in references]


@pytest.mark.parametrize("controller", [True, False])
def test_identity_and_members_given_to_another_owner_belong_to_the_quorum_again(
    shared_quorum: SharedQuorum, controller: bool
) -> None:
    """Among them the leader's: without its StatefulSet the operator had no address for voter changes."""
    env, quorum = shared_quorum.env, shared_quorum.quorum
    before = quorum.wait_ready(3)
    sets = [kube.apps(env.namespace, "statefulsets", each) for each in quorum.incarnations()]
    paths = [*sets, kube.core(env.namespace, "configmaps", "q-identity")]
    for path in paths:
        references = [stranger(env, controller=controller)]
        env.api.merge(path, {"metadata": {"ownerReferences": references}})
    wait_for(
        "all belong to the resource",
        lambda: all(owners(env, path) == ["MetadataQuorum"] for path in paths),
        timeout_s=30,
        seen=quorum.summary,
    )
    after = quorum.wait_ready(3)
    assert after.keys == before.keys
    assert len(quorum.incarnations()) == 3
    assert quorum.condition_is("ForeignObjects", "False")


_ALIAS: Json = {
    **dict.fromkeys(("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")),
    "type": "ExternalName",
    "externalName": "example.com",
    "internalTrafficPolicy": None,
}


@pytest.mark.long
def test_services_and_budget_that_another_client_changed_are_as_before(
    shared_quorum: SharedQuorum,
) -> None:
    env, quorum = shared_quorum.env, shared_quorum.quorum
    quorum.wait_ready(3)
    budget = kube.policy(env.namespace, "poddisruptionbudgets", "q")
    bootstrap, admin, nodes = (
        kube.core(env.namespace, "services", f"q-{each}")
        for each in ("bootstrap", "admin", "nodes")
    )
    changes: dict[str, Json] = {
        bootstrap: {"spec": {"internalTrafficPolicy": "Local", "publishNotReadyAddresses": True}},
        admin: {"spec": {"sessionAffinity": "ClientIP", "type": "NodePort"}},
        nodes: {"spec": _ALIAS},
        budget: {"metadata": {"ownerReferences": [stranger(env, controller=True)]}},
    }
    before = {path: essence(env, path) for path in changes}
    for path, change in changes.items():
        env.api.merge(path, change)
        assert essence(env, path) != before[path]
    wait_for(
        "all are as before",
        lambda: all(essence(env, path) == before[path] for path in changes),
        timeout_s=60,
        seen=lambda: {path: essence(env, path) for path in changes},
    )
    wait_for("nothing is refused", lambda: quorum.condition_is("Refused", "False"), timeout_s=30)


def essence(env: Env, path: str) -> Json:
    """Its spec without what Kubernetes assigns anew, and its owners."""
    found = env.api.get(path)
    assigned = {"clusterIP", "clusterIPs", "sessionAffinityConfig", "externalTrafficPolicy"}
    spec = {key: value for key, value in found["spec"].items() if key not in assigned}
    return {"spec": spec, "owners": owners(env, path)}
