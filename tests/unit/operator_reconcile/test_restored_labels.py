"""The real reconcile restores edited labels, and a quorum without them is not reported as lost."""

import pytest

from quorum_operator.desired.names import LABEL_INSTANCE, LABEL_QUORUM
from support.in_memory_kube_api import OWNER, pod_path, reconcile, running_quorum, set_path

IDENTITY = "/api/v1/namespaces/space/configmaps/demo-identity"
SERVICE = "/api/v1/namespaces/space/services/demo-admin"
BUDGET = "/apis/policy/v1/namespaces/space/poddisruptionbudgets/demo"
CLAIM = "/api/v1/namespaces/space/persistentvolumeclaims/data-demo-1-1-0"


@pytest.mark.parametrize("path", [pod_path(1), set_path(1), CLAIM])
@pytest.mark.parametrize("edited", [None, "somebody-elses"])
@pytest.mark.requirement("OP-01")
def test_edited_label_is_restored(path: str, edited: str | None) -> None:
    api = running_quorum()
    before = dict(api.objects[path]["metadata"]["labels"])
    if edited is None:
        api.objects[path]["metadata"]["labels"] = {}
    else:
        label = LABEL_QUORUM if path == CLAIM else LABEL_INSTANCE
        api.objects[path]["metadata"]["labels"][label] = edited
    reconcile(api)
    assert api.objects[path]["metadata"]["labels"] == before
    assert {verb for verb, _ in api.writes} == {"merge"}
    assert (api.status["phase"], api.status["voters"]) == ("Ready", 3)


@pytest.mark.parametrize("path", [IDENTITY, SERVICE, BUDGET, set_path(1)])
@pytest.mark.requirement("OP-01")
def test_additional_owner_is_removed(path: str) -> None:
    """Otherwise the object, and the pod of a StatefulSet, would be left when the resource is deleted."""
    api = running_quorum()
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "theirs", "uid": "other"}
    api.objects[path]["metadata"]["ownerReferences"].append(other)
    reconcile(api)
    assert api.objects[path]["metadata"]["ownerReferences"] == [OWNER.reference()]


@pytest.mark.requirement("OP-01")
def test_paused_resource_gets_no_labels_restored() -> None:
    api = running_quorum(paused=True)
    before = dict(api.objects[pod_path(1)]["metadata"]["labels"])
    service = "/api/v1/namespaces/space/services/demo-nodes"
    selector = api.objects[service]["spec"]["selector"]
    api.objects[pod_path(1)]["metadata"]["labels"] = {}
    api.objects[service]["spec"]["selector"] = {"no": "body"}
    reconcile(api)
    assert api.objects[pod_path(1)]["metadata"]["labels"] == {}
    assert api.objects[service]["spec"]["selector"] == {"no": "body"}
    assert api.status["voters"] == 3
    reported = api.status["plan"]["reason"]
    for word in ("spec.paused", "Pod/demo-1-1-0", "Service/demo-nodes"):
        assert word in reported, "the postponed label is not named"
    api.change_spec(paused=False)
    reconcile(api)
    assert api.objects[pod_path(1)]["metadata"]["labels"] == before
    assert api.objects[service]["spec"]["selector"] == selector


@pytest.mark.requirement("OP-01")
def test_foreign_stateful_set_is_not_labelled() -> None:
    api = running_quorum()
    meta = api.objects[set_path(3)]["metadata"]
    owner = {"kind": "MetadataQuorum", "name": "x", "uid": "other"}
    meta["labels"], meta["ownerReferences"] = {}, [owner]
    reconcile(api)
    assert api.objects[set_path(3)]["metadata"]["labels"] == {}
