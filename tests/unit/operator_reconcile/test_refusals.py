"""Rejections of the API server: reported on the resource, retried with backoff, without blocking other steps."""

import asyncio
import json
from typing import Any

import pytest

from quorum_operator.crd import KIND
from quorum_operator.desired import names
from quorum_operator.kube.errors import AlreadyExists, ApiError, Forbidden, Invalid, Unavailable
from quorum_operator.metrics import Metrics
from quorum_operator.workers import Workers
from support.in_memory_kube_api import (
    NAME,
    SPACE,
    HealthyNodes,
    InMemoryKubeApi,
    pod_path,
    reconcile,
    reconciler,
    running_quorum,
    set_path,
)

QUOTA = Forbidden(403, "Forbidden", "exceeded quota: few, requested: count/statefulsets.apps=1")
POLICY = Invalid(422, "Invalid", "ValidatingAdmissionPolicy 'p' denied request: no")
DOWN = Unavailable(
    503, "ServiceUnavailable", "the server is currently unable to handle the request"
)
WEBHOOK = Unavailable(500, "InternalError", 'failed calling webhook "w": connection refused')


def refusing(error: ApiError, *verbs_and_parts: tuple[str, str], api: InMemoryKubeApi) -> None:
    def refuse(verb: str, path: str) -> None:
        if any(verb == one and part in path for one, part in verbs_and_parts):
            raise error

    api.refuse = refuse


def with_a_failed_disk(api: InMemoryKubeApi, node_id: int) -> None:
    owned = api.objects[set_path(node_id)]
    owned["spec"]["replicas"] = 0
    owned["metadata"]["annotations"] |= {
        names.ANNOTATION_FAILED: json.dumps({"reason": "StorageFailed", "at": 1}),
        names.ANNOTATION_STOPPED: "StorageFailed",
    }
    del api.objects[pod_path(node_id)]


def writes(api: InMemoryKubeApi) -> list[tuple[str, str]]:
    """All writes but the annotations of claims that describe their volumes."""
    return [each for each in api.writes if "/persistentvolumeclaims/" not in each[1]]


def run_worker(api: InMemoryKubeApi, nodes: HealthyNodes, seconds: float) -> Metrics:
    metrics = Metrics()

    async def run() -> None:
        workers = Workers(KIND, reconciler(api, nodes), metrics, 10.0)
        workers.ensure(SPACE, NAME)
        await asyncio.sleep(seconds)
        await workers.stop()

    asyncio.run(run())
    return metrics


@pytest.mark.parametrize(
    ("error", "reason"),
    [(QUOTA, "QuotaExceeded"), (POLICY, "AdmissionDenied"), (WEBHOOK, "ServerError")],
)
@pytest.mark.requirement("OP-01")
def test_rejected_first_object_is_reported_on_the_resource(error: ApiError, reason: str) -> None:
    api = InMemoryKubeApi({"tls": {"mode": "Disabled"}})
    refusing(error, ("create", "/configmaps/"), api=api)
    reconcile(api, HealthyNodes(0), times=1)
    refused = api.condition("Refused")
    assert (refused["status"], refused["reason"]) == ("True", reason)
    assert "ConfigMap/demo-identity" in refused["message"]
    assert error.message.rstrip(". ") in refused["message"]
    [event] = api.events
    assert event["type"] == "Warning"
    assert error.message[:60] in event["message"]


@pytest.mark.parametrize("error", [QUOTA, POLICY])
@pytest.mark.requirement("OP-01")
@pytest.mark.requirement("OP-04")
def test_rejected_template_does_not_block_the_replacement_of_a_failed_disk(error: ApiError) -> None:
    api = running_quorum(5)
    with_a_failed_disk(api, 3)
    api.change_spec(affinity={"podAntiAffinity": {}})
    refusing(error, ("patch", "/statefulsets/"), api=api)
    reconcile(api, HealthyNodes(5, silent=(3,)), times=2)
    assert api.created("statefulsets") == ["demo-3-2"]
    refused = api.condition("Refused")
    assert (refused["status"], "StatefulSet/demo-1-1" in refused["message"]) == ("True", True)


@pytest.mark.requirement("OP-04")
def test_repair_precedes_template_updates() -> None:
    api = running_quorum(5)
    with_a_failed_disk(api, 2)
    api.change_spec(tolerations=[{"key": "x", "operator": "Exists"}])
    reconcile(api, HealthyNodes(5, silent=(2,)), times=1)
    assert [verb for verb, _ in writes(api)] == ["create"]


@pytest.mark.requirement("OP-01")
def test_rejected_new_member_does_not_block_template_updates() -> None:
    api = running_quorum(3)
    api.change_spec(replicas=5, image="other:1")
    refusing(QUOTA, ("create", "/statefulsets/"), api=api)
    reconcile(api, HealthyNodes(3), times=4)
    patched = {path for verb, path in api.writes if verb == "patch"}
    assert patched == {set_path(each) for each in (1, 2, 3)}
    assert "demo-5-1" in api.condition("Refused")["message"]


@pytest.mark.requirement("OP-01")
def test_rejected_service_does_not_block_the_replacement_of_a_failed_member() -> None:
    api = running_quorum(5)
    with_a_failed_disk(api, 4)
    del api.objects[f"/api/v1/namespaces/{SPACE}/services/demo-admin"]
    refusing(QUOTA, ("apply", "/services/"), api=api)
    reconcile(api, HealthyNodes(5, silent=(4,)), times=1)
    assert api.created("statefulsets") == ["demo-4-2"]


@pytest.mark.requirement("OP-04")
def test_member_with_a_rejected_latch_is_skipped_and_others_are_repaired() -> None:
    api = running_quorum(5)
    with_a_failed_disk(api, 5)
    broken = api.objects[pod_path(4)]["status"]
    broken["containerStatuses"] = [{"state": {"terminated": {"exitCode": 74}}}]
    api.change_spec(image="other:1")
    refusing(POLICY, ("merge", "demo-4-1"), api=api)
    nodes = HealthyNodes(5, silent=(4, 5))
    reconcile(api, nodes, times=9)
    assert api.created("statefulsets") == ["demo-5-2"]
    assert not [path for _, path in api.writes if "demo-4-1" in path]


@pytest.mark.requirement("OP-01")
async def test_refusal_is_cleared_when_the_object_is_accepted() -> None:
    api = InMemoryKubeApi({"tls": {"mode": "Disabled"}})
    refusing(QUOTA, ("create", "/configmaps/"), api=api)
    made = reconciler(api, HealthyNodes(0))
    await made.reconcile(SPACE, NAME)
    assert api.condition("Refused")["status"] == "True"
    api.refuse = lambda verb, path: None
    await made.reconcile(SPACE, NAME)
    assert not api.created("configmaps"), "not before it is due"
    api.change_spec(replicas=5)  # who changes the resource need not wait
    await made.reconcile(SPACE, NAME)
    assert api.created("configmaps") == ["demo-identity"]
    assert api.condition("Refused")["status"] == "False"


@pytest.mark.parametrize("error", [QUOTA, AlreadyExists(409, "AlreadyExists", "exists already")])
@pytest.mark.requirement("OP-01")
def test_rejected_write_is_retried_with_increasing_backoff(error: ApiError) -> None:
    api = InMemoryKubeApi({"tls": {"mode": "Disabled"}})
    attempts = 0

    def refuse(verb: str, path: str) -> None:
        nonlocal attempts
        if verb == "create" and "configmaps" in path:
            attempts += 1
            raise error

    api.refuse = refuse
    run_worker(api, HealthyNodes(0), 3.5)
    assert 2 <= attempts <= 7
    assert sum(api.calls.values()) < 50 * 3.5
    assert len(api.events) <= 1


@pytest.mark.requirement("OP-01")
def test_step_without_effect_makes_few_calls_and_is_reported() -> None:
    """A user reverts the template each time, at once."""
    api = running_quorum(3)
    old = json.loads(json.dumps(api.objects[set_path(2)]))
    api.change_spec(image="other:1")

    def undo(verb: str, path: str) -> None:
        if path == api.resource_path:
            api.objects[set_path(2)] = json.loads(json.dumps(old))

    api.refuse = undo
    run_worker(api, HealthyNodes(3), 10.0)
    tries = [path for verb, path in api.writes if verb == "patch" and path == set_path(2)]
    assert 3 <= len(tries) <= 8
    refused = api.condition("Refused")
    assert (refused["status"], refused["reason"]) == ("True", "Contested")
    assert "demo-2-1" in refused["message"]


def test_unavailable_api_server_is_not_a_refusal() -> None:
    api = InMemoryKubeApi({"tls": {"mode": "Disabled"}})
    refusing(DOWN, ("create", "/configmaps/"), api=api)
    with pytest.raises(Unavailable):
        reconcile(api, HealthyNodes(0), times=1)
    assert not api.condition("Refused")


@pytest.mark.requirement("OP-01")
def test_forbidden_read_is_reported() -> None:
    api = running_quorum(3)
    denied = Forbidden(403, "Forbidden", 'pods is forbidden: User "x" cannot list resource "pods"')
    refusing(denied, ("list", "/pods"), api=api)
    with pytest.raises(Forbidden):
        reconcile(api, HealthyNodes(3), times=1)
    refused = api.condition("Refused")
    assert (refused["status"], refused["reason"]) == ("True", "Forbidden")
    assert "cannot list" in refused["message"]
    assert [each["reason"] for each in api.events] == ["Forbidden"]


@pytest.mark.requirement("OP-01")
def test_invalid_resource_is_reported_in_its_status() -> None:
    api = running_quorum(3)
    api.change_spec(replicas="many")
    reconcile(api, HealthyNodes(3), times=3)
    condition = api.condition("SpecInvalid")
    assert condition["status"] == "True"
    assert "spec.replicas" in condition["message"]
    assert len(api.events) == 1
    api.change_spec(replicas=3)
    reconcile(api, HealthyNodes(3), times=1)
    assert api.condition("SpecInvalid")["status"] == "False"


@pytest.mark.requirement("OP-01")
def test_unexpected_object_is_reported_on_the_resource() -> None:
    api = running_quorum(3)
    api.objects[set_path(2)]["metadata"]["creationTimestamp"] = "soon"
    with pytest.raises(ValueError, match="soon"):
        reconcile(api, HealthyNodes(3), times=1)
    assert api.condition("Refused")["reason"] == "InternalError"


def test_invalid_status_is_rewritten() -> None:
    api = running_quorum(3)
    reconcile(api, HealthyNodes(3), times=1)
    assert api.status["newestEpoch"] == 4
    api.resource["status"]["members"] = "none"
    reconcile(api, HealthyNodes(3), times=1)
    assert len(api.status["members"]) == 3
    assert api.status["newestEpoch"] == 4


@pytest.mark.parametrize("size", ["1024Mi", "1073741824", "1048576Ki"])
@pytest.mark.requirement("OP-05")
def test_equivalent_size_replaces_no_member(size: str) -> None:
    api = running_quorum(3)
    api.change_spec(storage={"size": size, "storageClassName": "local"})
    reconcile(api, HealthyNodes(3), times=3)
    assert not writes(api)


@pytest.mark.requirement("OP-05")
def test_equivalent_resources_restart_no_pod() -> None:
    api = running_quorum(3, resources={"limits": {"cpu": "500m", "memory": "1Gi"}})
    api.change_spec(resources={"limits": {"cpu": 0.5, "memory": "1024Mi"}})
    reconcile(api, HealthyNodes(3), times=3)
    assert not writes(api)


@pytest.mark.requirement("OP-04")
def test_replacement_uses_an_accepted_template_when_that_of_the_spec_is_rejected() -> None:
    api = running_quorum(5, nodeSelector={"pool": "a"})
    with_a_failed_disk(api, 3)
    api.change_spec(nodeSelector={"": "b"}, image="other:1")
    create = api.create

    async def refusing_one(path: str, body: dict[str, Any]) -> dict[str, Any]:
        pod = body.get("spec", {}).get("template", {}).get("spec", {})
        if "" in pod.get("nodeSelector", {}):
            raise Invalid(422, "Invalid", "spec.template.spec.nodeSelector: Invalid value")
        return await create(path, body)

    api.create = refusing_one  # type: ignore[method-assign]
    refusing(POLICY, ("patch", "/statefulsets/"), api=api)
    reconcile(api, HealthyNodes(5, silent=(3,)), times=1)
    made = api.objects[set_path(3, 2)]
    pod = made["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"pool": "a"}
    assert "--override" in pod["containers"][0]["args"]
    assert "node.id=3" in pod["containers"][0]["args"]
    assert made["spec"]["template"]["metadata"]["labels"]["metadataquorum.dev/node-id"] == "3"
    reconcile(api, HealthyNodes(5, silent=(3,)), times=1)
    assert "demo-3-2" in api.condition("Refused")["message"], "its template is still to be updated"


def test_additional_member_waits_for_a_valid_spec() -> None:
    api = running_quorum(3)
    api.change_spec(replicas=5)
    refusing(Invalid(422, "Invalid", "no"), ("create", "/statefulsets/"), api=api)
    reconcile(api, HealthyNodes(3), times=2)
    assert api.condition("Refused")["reason"] == "Invalid"


@pytest.mark.requirement("OP-01")
@pytest.mark.parametrize("error", [POLICY, WEBHOOK])
def test_rejected_status_is_reported_once_and_delays_no_step(error: ApiError) -> None:
    api, nodes = running_quorum(3), HealthyNodes(3)
    reconcile(api, nodes)
    api.events.clear()
    refusing(error, ("merge", "/metadataquorums/"), api=api)
    with_a_failed_disk(api, 3)
    run_worker(api, nodes, 1.5)
    assert api.created("statefulsets") == [f"{NAME}-3-2"]
    told = [(each["reason"], each["message"]) for each in api.events]
    assert sum(reason == "StatusRefused" for reason, _ in told) == 1
    assert len(told) == len(set(told)), "an event is repeated"
    api.refuse = lambda verb, path: None
    reconcile(api, nodes, times=2)
    assert api.status["members"][-1]["incarnation"] == 2
