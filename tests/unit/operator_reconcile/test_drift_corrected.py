"""Objects that another client changes: reverted by the reconcile, but not endlessly."""

import asyncio
import copy
import time
from base64 import b64encode
from collections.abc import Callable
from typing import Any

import pytest

from quorum_operator.kube.errors import Invalid
from quorum_operator.metrics import Metrics
from quorum_operator.quorum_client import Described
from quorum_operator.reconcile import Reconciler
from quorum_operator.remembered import LEFT_S
from support.in_memory_kube_api import (
    NAME,
    OWNER,
    SPACE,
    HealthyNodes,
    InMemoryKubeApi,
    pod_path,
    reconcile,
    reconciler,
    repeat,
    running_quorum,
    set_path,
    time_text,
)

CONFIG = f"/api/v1/namespaces/{SPACE}/configmaps/demo-config"
IDENTITY = f"/api/v1/namespaces/{SPACE}/configmaps/demo-identity"
SECRET = f"/api/v1/namespaces/{SPACE}/secrets/demo-admin"
ADMIN = f"/api/v1/namespaces/{SPACE}/services/demo-admin"
POLICY = f"/apis/networking.k8s.io/v1/namespaces/{SPACE}/networkpolicies/demo-members"
BUDGET = f"/apis/policy/v1/namespaces/{SPACE}/poddisruptionbudgets/demo"


def content(api: InMemoryKubeApi, path: str) -> Any:
    found = copy.deepcopy(api.objects[path])
    for key in ("resourceVersion", "generation"):
        found["metadata"].pop(key, None)
    return found


CHANGES: dict[str, tuple[str, Callable[[dict[str, Any]], Any]]] = {
    "config": (CONFIG, lambda found: found["data"].update({"node.properties": "node.id=9\n"})),
    "config more": (CONFIG, lambda found: found["data"].update(more="x")),
    "service": (ADMIN, lambda found: found["spec"]["selector"].update(no="body")),
    "budget": (BUDGET, lambda found: found["spec"].update(minAvailable=1)),
    "budget more": (BUDGET, lambda found: found["spec"].update(maxUnavailable=3)),
    "another budget": (
        BUDGET,
        lambda found: (found["spec"].pop("minAvailable"), found["spec"].update(maxUnavailable=3)),
    ),
    "policy opened": (POLICY, lambda found: found["spec"]["ingress"].append({})),
    "policy of one way": (POLICY, lambda found: found["spec"].update(policyTypes=["Ingress"])),
    "policy without an owner": (
        POLICY,
        lambda found: found["spec"]["podSelector"]["matchLabels"].update(no="body"),
    ),
    "replicas": (set_path(2), lambda found: found["spec"].update(replicas=2)),
    "scaled down": (set_path(2), lambda found: found["spec"].update(replicas=0)),
    "image": (
        set_path(3),
        lambda found: found["spec"]["template"]["spec"]["containers"][0].update(image="bad"),
    ),
    "variable": (
        set_path(1),
        lambda found: found["spec"]["template"]["spec"]["containers"][0].update(
            env=[{"name": "A", "value": "1"}]
        ),
    ),
    "retention": (
        set_path(1),
        lambda found: found["spec"]["persistentVolumeClaimRetentionPolicy"].update(
            whenScaled="Delete"
        ),
    ),
}


@pytest.mark.requirement("OP-01")
def test_edited_start_ordinal_is_reverted() -> None:
    """Its pod would be another one, on another claim."""
    api = running_quorum(3)
    api.objects[set_path(2)]["spec"] |= {"ordinals": {"start": 1}, "minReadySeconds": 900}
    reconcile(api)
    found = api.objects[set_path(2)]["spec"]
    assert (found["ordinals"], found["minReadySeconds"]) == ({"start": 0}, 0)


@pytest.mark.parametrize(("path", "change"), CHANGES.values(), ids=CHANGES.keys())
@pytest.mark.requirement("OP-01")
def test_foreign_changes_are_reverted(path: str, change: Callable[[dict[str, Any]], Any]) -> None:
    api = running_quorum(3)
    before = content(api, path)
    change(api.objects[path])
    assert content(api, path) != before
    reconcile(api)
    assert content(api, path) == before
    assert not [path for verb, path in api.writes if verb == "delete"], "a pod was restarted"


@pytest.mark.requirement("OP-01")
@pytest.mark.parametrize("damage", [None, {}, {"clusterId": "x"}, {"founderId": "one"}])
def test_identity_without_data_is_recreated(damage: dict[str, str] | None) -> None:
    """A user deleted it and created another one of that name."""
    api = running_quorum(3)
    before = api.objects[IDENTITY]["data"]["clusterId"]
    undamaged = dict(api.objects[IDENTITY]["data"])
    if damage and "founderId" in damage:
        api.objects[IDENTITY]["data"] = undamaged | damage
    else:
        api.objects[IDENTITY]["data"] = damage
    reconcile(api, times=4)
    found = api.objects[IDENTITY]["data"]
    assert (found["clusterId"], found["formed"]) == (before, "true")
    assert api.condition("IdentityMissing")["status"] == "False"
    deleted = [path for verb, path in api.writes if verb == "delete"]
    assert IDENTITY in deleted
    assert not [path for path in deleted if "/statefulsets/" in path or "/pods/" in path]


@pytest.mark.requirement("OP-01")
def test_object_with_changed_immutable_fields_is_recreated() -> None:
    api = running_quorum(3)
    api.objects[CONFIG] |= {"immutable": True, "data": {"node.properties": "x"}}

    def frozen(verb: str, path: str) -> None:
        if verb in {"apply", "merge"} and api.objects.get(path, {}).get("immutable"):
            raise Invalid(
                422, "Invalid", "data: Forbidden: field is immutable when `immutable` is set"
            )

    api.refuse = frozen
    reconcile(api)
    assert "metadata.log.dir" in api.objects[CONFIG]["data"]["node.properties"]
    assert not api.objects[CONFIG].get("immutable")


@pytest.mark.requirement("OP-01")
def test_secret_that_was_made_immutable_without_its_token_has_to_be_deleted_by_the_user() -> None:
    """The operator may not delete Secrets."""
    api = running_quorum(3)
    api.objects[SECRET] |= {"immutable": True, "data": {}}

    def frozen(verb: str, path: str) -> None:
        if verb in {"apply", "merge"} and api.objects.get(path, {}).get("immutable"):
            raise Invalid(
                422, "Invalid", "data: Forbidden: field is immutable when `immutable` is set"
            )

    api.refuse = frozen
    reconcile(api)
    refused = api.condition("Refused")
    assert refused["reason"] == "Sealed"
    assert "Secret/demo-admin" in refused["message"]
    assert "delete it" in refused["message"]
    del api.objects[SECRET]
    reconcile(api)
    assert api.objects[SECRET]["data"]["token"]
    assert api.condition("Refused")["status"] == "False"


@pytest.mark.requirement("OP-01")
@pytest.mark.parametrize("controller", [False, True])
def test_member_that_was_given_to_another_owner_belongs_to_the_quorum_again(
    controller: bool,
) -> None:
    api = running_quorum(3)
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "theirs", "uid": "other"}
    paths = (IDENTITY, set_path(1), set_path(2))
    for path in paths:
        owned_by_other = [{**other, "controller": controller}]
        api.objects[path]["metadata"]["ownerReferences"] = owned_by_other
    reconcile(api, times=8)
    for path in paths:
        assert api.objects[path]["metadata"]["ownerReferences"] == [OWNER.reference()]
    assert api.condition("ForeignObjects")["status"] == "False"
    assert not api.created("statefulsets")


@pytest.mark.requirement("OP-01")
def test_member_that_was_given_to_another_quorum_is_only_reported() -> None:
    api = running_quorum(3)
    other = {"apiVersion": "metadataquorum.dev/v1beta1", "kind": "MetadataQuorum", "name": "theirs"}
    api.objects[set_path(3)]["metadata"]["ownerReferences"] = [{**other, "uid": "other"}]
    reconcile(api, times=4)
    (owner,) = api.objects[set_path(3)]["metadata"]["ownerReferences"]
    assert owner["uid"] == "other"
    message = api.condition("ForeignObjects")["message"]
    assert "StatefulSet/demo-3-1 (MetadataQuorum/theirs)" in message


@pytest.mark.requirement("OP-01")
def test_identity_of_another_application_is_not_deleted() -> None:
    api = running_quorum(3)
    theirs = {"metadata": {"name": "demo-identity", "uid": "theirs"}, "data": {"their": "own"}}
    api.objects[IDENTITY] = copy.deepcopy(theirs)
    api.objects[IDENTITY]["metadata"] |= {"labels": {}, "resourceVersion": "1"}
    reconcile(api, times=4)
    assert api.objects[IDENTITY]["data"] == theirs["data"]
    assert "ConfigMap/demo-identity" in api.condition("ForeignObjects")["message"]
    del api.objects[IDENTITY]
    reconcile(api, times=4)
    assert api.objects[IDENTITY]["data"]["clusterId"] == "c1"


@pytest.mark.requirement("OP-01")
def test_object_rejected_by_a_policy_is_not_deleted() -> None:
    api = running_quorum(3)
    api.objects[CONFIG]["data"] = {}

    def refuse(verb: str, path: str) -> None:
        if verb in {"apply", "merge"} and path == CONFIG:
            raise Invalid(
                422, "Invalid", "ValidatingAdmissionPolicy 'p' denied request: frozen zone"
            )

    api.refuse = refuse
    reconcile(api)
    assert CONFIG in api.objects
    assert api.condition("Refused")["reason"] == "AdmissionDenied"


NO_TOKENS = ["", "!", *(b64encode(each).decode() for each in ("p\u00e4ss".encode(), b"two\twords"))]


@pytest.mark.parametrize("data", [None, {}, {"other": "eA=="}, *({"token": e} for e in NO_TOKENS)])
@pytest.mark.requirement("OP-01")
def test_secret_without_token_gets_one(data: dict[str, str] | None) -> None:
    api = running_quorum(3)
    api.objects[SECRET]["data"] = data
    reconcile(api)
    assert len(api.objects[SECRET]["data"]["token"]) > 40


@pytest.mark.requirement("OP-01")
def test_secret_that_lost_its_owner_gets_it_back_and_keeps_its_token() -> None:
    api = running_quorum(3)
    before = copy.deepcopy(api.objects[SECRET])
    api.objects[SECRET]["metadata"].update(ownerReferences=[], labels={})
    reconcile(api)
    assert content(api, SECRET)["data"] == before["data"]
    assert content(api, SECRET)["metadata"]["ownerReferences"]


@pytest.mark.requirement("OP-01")
def test_template_changed_by_a_webhook_each_time_is_not_rewritten_repeatedly() -> None:
    api = running_quorum(3)
    keep = api._keep

    def webhook(path: str, body: dict[str, Any]) -> dict[str, Any]:
        if path == set_path(2):
            body["spec"]["template"]["spec"]["nodeSelector"] = {"pool": "a"}
        return keep(path, body)

    api._keep = webhook  # type: ignore[method-assign]
    api.objects[set_path(2)]["spec"]["template"]["spec"]["nodeSelector"] = {"pool": "a"}
    reconcile(api, times=20)
    assert [path for verb, path in api.writes if verb == "patch"] == [set_path(2)]
    assert any("nodeSelector" in each["message"] for each in api.events)


@pytest.mark.requirement("OP-01")
def test_template_is_corrected_some_time_after_the_webhook_that_changed_it_is_gone() -> None:
    api = running_quorum(3)
    keep, now = api._keep, time.time()

    def webhook(path: str, body: dict[str, Any]) -> dict[str, Any]:
        if path == set_path(2):
            body["spec"]["template"]["spec"]["nodeSelector"] = {"pool": "a"}
        return keep(path, body)

    api._keep = webhook  # type: ignore[method-assign]
    api.objects[set_path(2)]["spec"]["template"]["spec"]["nodeSelector"] = {"pool": "a"}
    unchecked: Any = api
    nodes: Any = HealthyNodes(3)
    operator = Reconciler(unchecked, nodes, Metrics(), clock=lambda: now)
    repeat(operator, 5)
    api._keep = keep  # type: ignore[method-assign]
    repeat(operator, 5)
    assert "nodeSelector" in api.objects[set_path(2)]["spec"]["template"]["spec"]
    now += LEFT_S + 1
    repeat(operator, 5)
    assert "nodeSelector" not in api.objects[set_path(2)]["spec"]["template"]["spec"]


@pytest.mark.requirement("OP-01")
def test_plan_of_a_resource_being_deleted_names_the_finalizers_that_hold_it() -> None:
    api = running_quorum(3)
    api.resource["metadata"] |= {"deletionTimestamp": time_text(9), "finalizers": ["x.example/y"]}
    reconcile(api)
    assert api.status["phase"] == "Deleting"
    assert "It waits for its finalizers: x.example/y" in api.status["plan"]["reason"]
    assert not api.writes


def waiting(api: InMemoryKubeApi, node_id: int, **status: Any) -> None:
    """Its pod was made from an older template, and does not run."""
    pod = api.objects[pod_path(node_id)]
    pod["metadata"]["labels"] = {
        **pod["metadata"]["labels"],
        "controller-revision-hash": "old",
    }
    pod["status"] = {"phase": "Pending", "conditions": [], **status}
    owned = api.objects[set_path(node_id)]
    owned["status"] = {
        "updateRevision": "new",
        "observedGeneration": owned["metadata"]["generation"],
    }


UNSCHEDULABLE = {
    "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3"}
    ]
}
STATES = {
    "unschedulable": UNSCHEDULABLE,
    "no image": {"containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]},
    "config error": {
        "containerStatuses": [{"state": {"waiting": {"reason": "CreateContainerConfigError"}}}]
    },
    "create error": {
        "containerStatuses": [{"state": {"waiting": {"reason": "CreateContainerError"}}}]
    },
    "crash loop": {
        "containerStatuses": [
            {
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": {"exitCode": 64}},
            }
        ]
    },
    "no status yet": {},
}


@pytest.mark.parametrize("state", STATES.values(), ids=STATES.keys())
@pytest.mark.parametrize("node_id", [2, 3])
@pytest.mark.requirement("OP-05")
def test_pod_that_cannot_start_with_an_old_template_is_replaced(
    state: dict[str, Any], node_id: int
) -> None:
    """Also where only its placement has changed, which no running pod is restarted for."""
    api = running_quorum(3)
    waiting(api, node_id, **state)
    made = reconciler(api, HealthyNodes(3, silent=(node_id,)))
    asyncio.run(made.reconcile(SPACE, NAME))
    assert ("delete", pod_path(node_id)) in api.writes


@pytest.mark.requirement("OP-05")
def test_pod_that_cannot_start_with_the_current_template_is_not_replaced() -> None:
    api = running_quorum(3)
    waiting(api, 2, **UNSCHEDULABLE)
    api.objects[pod_path(2)]["metadata"]["labels"]["controller-revision-hash"] = "new"
    made = reconciler(api, HealthyNodes(3, silent=(2,)))
    for _ in range(3):
        asyncio.run(made.reconcile(SPACE, NAME))
    assert not [path for verb, path in api.writes if verb == "delete"]
    api = running_quorum(3)
    waiting(api, 2, **UNSCHEDULABLE)
    api.objects[set_path(2)]["metadata"]["generation"] += 1  # the controller has not seen it yet
    asyncio.run(reconciler(api, HealthyNodes(3, silent=(2,))).reconcile(SPACE, NAME))
    assert not [path for verb, path in api.writes if verb == "delete"]


@pytest.mark.requirement("OP-05")
def test_running_pod_created_from_a_foreign_template_restarts() -> None:
    api = running_quorum(3)
    running = copy.deepcopy(api.objects[pod_path(2)]["status"])
    waiting(api, 2)
    api.objects[pod_path(2)]["status"] = running
    reconcile(api)
    assert ("delete", pod_path(2)) not in api.writes, "only its placement is another one"
    api.objects[pod_path(2)]["spec"]["containers"][0]["image"] = "other"
    reconcile(api)
    assert ("delete", pod_path(2)) in api.writes


@pytest.mark.parametrize("path", [CONFIG, SECRET])
def test_pod_that_crashes_between_two_configuration_reads_is_recreated(path: str) -> None:
    """It was running again for a moment at the read, and has the replaced configuration, or the token of an immutable Secret."""
    api = running_quorum(3)
    pod = api.objects[pod_path(3)]
    pod["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    for each in (CONFIG, SECRET):
        api.objects[each]["metadata"]["creationTimestamp"] = "2025-12-31T23:59:00Z"
    api.objects[path]["metadata"]["creationTimestamp"] = "2026-01-01T00:00:05Z"
    made = reconciler(api, HealthyNodes(3, silent=(3,)))
    asyncio.run(made.reconcile(SPACE, NAME))
    assert ("delete", pod_path(3)) not in api.writes
    pod["status"] = {"phase": "Running", "conditions": [], **STATES["crash loop"]}
    asyncio.run(made.reconcile(SPACE, NAME))
    assert ("delete", pod_path(3)) in api.writes


class SilentNodes(HealthyNodes):
    """No process answers."""

    def through(self, pod_client: object) -> "SilentNodes":
        return self

    async def report(self, ip: str, node_id: int) -> None:
        return None

    async def describe(self, ips: list[str]) -> Described:
        return Described(None, None)


@pytest.mark.requirement("OP-01")
def test_members_get_required_settings_without_identity_and_configuration() -> None:
    """The state after `kubectl delete configmaps,secrets`: the identity is rebuilt from their logs, and no pod starts without these."""
    api = running_quorum(3, tls=True)
    for path in (CONFIG, SECRET, f"/api/v1/namespaces/{SPACE}/configmaps/demo-identity"):
        del api.objects[path]
    made = reconciler(api, SilentNodes(3))
    repeat(made, 3)
    assert CONFIG in api.objects
    assert SECRET in api.objects
    assert api.condition("IdentityMissing")["status"] == "True"
