"""The real reconcile restores edited labels, and a quorum without them is not reported as lost."""

import pytest

from quorum_operator.desired.names import LABEL_INSTANCE, LABEL_QUORUM
from support.in_memory_kube_api import pod_path, reconcile, running_quorum, set_path

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
    meta["labels"], meta["ownerReferences"] = {}, [{"kind": "Other", "name": "x", "uid": "other"}]
    reconcile(api, times=1)
    assert api.objects[set_path(3)]["metadata"]["labels"] == {}
