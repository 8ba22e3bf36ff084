"""The network policy of a quorum in the real reconcile: on for new ones, by choice for others, never lost by accident."""

from typing import Any

import pytest

from quorum_operator.desired import names
from quorum_operator.kube.errors import Forbidden
from support.in_memory_kube_api import NAME, SPACE, InMemoryKubeApi, reconcile, running_quorum

POLICY = f"/apis/networking.k8s.io/v1/namespaces/{SPACE}/networkpolicies/demo-members"
IDENTITY = f"/api/v1/namespaces/{SPACE}/configmaps/demo-identity"

CLAIM = f"/api/v1/namespaces/{SPACE}/persistentvolumeclaims/data-demo-2-1-0"


def earlier() -> InMemoryKubeApi:
    """A quorum that was formed by the version before."""
    api = running_quorum(3)
    del api.objects[POLICY]
    api.objects[IDENTITY]["data"].pop("networkPolicy", None)
    for path, found in api.objects.items():
        if "/persistentvolumeclaims/" in path:
            found["metadata"].get("annotations", {}).pop(names.ANNOTATION_NETWORK_POLICY, None)
    return api


@pytest.mark.requirement("OP-01")
def test_quorum_of_the_previous_version_keeps_no_policy() -> None:
    api = earlier()
    reconcile(api)
    assert POLICY not in api.objects
    assert not [path for _, path in api.writes if "networkpolicies" in path]


def test_spec_switches_the_policy_on_and_off() -> None:
    api = earlier()
    api.change_spec(networkPolicy={"mode": "Enabled"})
    reconcile(api)
    assert api.objects[POLICY]["metadata"]["ownerReferences"][0]["name"] == NAME
    api.change_spec(networkPolicy={"mode": "Disabled"})
    reconcile(api)
    assert POLICY not in api.objects
    assert not [path for _, path in api.writes if "statefulsets" in path or "/pods/" in path]


def test_foreign_policy_is_not_deleted() -> None:
    api = earlier()
    foreign: dict[str, Any] = {
        "kind": "NetworkPolicy",
        "metadata": {"name": "demo-members", "namespace": SPACE, "uid": "foreign"},
        "spec": {"podSelector": {}},
    }
    api.objects[POLICY] = foreign
    reconcile(api)
    assert api.objects[POLICY] == foreign


def test_deleted_policy_is_recreated() -> None:
    api = running_quorum(3)
    before = api.objects.pop(POLICY)
    reconcile(api)
    assert api.objects[POLICY]["spec"] == before["spec"]


@pytest.mark.requirement("OP-01")
def test_recreated_identity_keeps_the_policy_setting() -> None:
    """Otherwise deleting a ConfigMap would open the ports of all members."""
    api = running_quorum(3)
    claim = api.objects[CLAIM]["metadata"]
    claim["annotations"] = {names.ANNOTATION_NETWORK_POLICY: "true"}
    del api.objects[IDENTITY]
    reconcile(api, times=6)
    assert api.objects[IDENTITY]["data"]["networkPolicy"] == "true"
    assert POLICY in api.objects


def test_recreated_identity_of_the_previous_version_isolates_no_pod() -> None:
    api = earlier()
    del api.objects[IDENTITY]
    reconcile(api, times=6)
    assert IDENTITY in api.objects
    assert POLICY not in api.objects


def test_missing_policy_permission_is_reported_and_other_steps_continue() -> None:
    """An operator with an image that was upgraded before its role."""
    api = running_quorum(3)
    service = f"/api/v1/namespaces/{SPACE}/services/demo-admin"

    def forbidden(verb: str, path: str) -> None:
        if "networkpolicies" in path:
            raise Forbidden(403, "Forbidden", "networkpolicies is forbidden")

    api.refuse = forbidden
    del api.objects[service]
    reconcile(api)
    assert service in api.objects
    refused = api.condition("Refused")
    assert refused["status"] == "True"
    assert "NetworkPolicy/demo-members" in refused["message"]
