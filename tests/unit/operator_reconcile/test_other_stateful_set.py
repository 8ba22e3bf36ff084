"""`kubectl replace --force` of a StatefulSet with other immutable fields: it is reported, and the reported command mends it."""

from typing import Any

import pytest

from quorum_operator.admin_call import Answer
from quorum_operator.desired.names import CONTAINER
from quorum_operator.kube import paths
from support.in_memory_kube_api import (
    SPACE,
    HealthyNodes,
    InMemoryKubeApi,
    pod_path,
    reconcile,
    running_quorum,
    set_path,
    start_pod,
    time_text,
)

Object = dict[str, Any]
REVISION = "r"


class TransferringNodes(HealthyNodes):
    """Healthy nodes, one of which takes over the leadership when it is asked to."""

    def __init__(self) -> None:
        super().__init__(3)
        self._elected = 1

    @property
    def _leader(self) -> int:
        return self._elected

    async def resign(self, ip: str, token: str, successor_id: int) -> Answer:
        self._elected = successor_id
        return Answer(True)


def observed_by_its_controller(api: InMemoryKubeApi) -> None:
    """The StatefulSet controller adopts pods that match, and makes missing ones."""
    for node_id in (1, 2, 3):
        owned = api.objects[set_path(node_id)]
        owned["status"] = {"updateRevision": REVISION, "observedGeneration": 1}
        if pod_path(node_id) not in api.objects:
            start_pod(api, owned, node_id)
            api.objects[pod_path(node_id)]["metadata"]["creationTimestamp"] = time_text(0)
        pod = api.objects[pod_path(node_id)]
        pod["metadata"]["labels"]["controller-revision-hash"] = REVISION


def replaced(*node_ids: int, pods_too: bool = True) -> InMemoryKubeApi:
    """A settled quorum whose StatefulSets were then replaced by ones with another Service."""
    api = running_quorum(3)
    for node_id in (1, 2, 3):
        claim = f"data-demo-{node_id}-1-0"
        requested = {"resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "local"}
        api.objects[paths.namespaced("persistentvolumeclaims", SPACE, claim)]["spec"] |= requested
    reconcile(api)
    for node_id in node_ids:
        api.objects[set_path(node_id)]["spec"]["serviceName"] = "none"
        if pods_too:
            api.objects[pod_path(node_id)]["spec"]["subdomain"] = "none"
    observed_by_its_controller(api)
    api.writes.clear()
    return api


def deleted_with_orphans(api: InMemoryKubeApi, node_id: int) -> None:
    """`kubectl delete statefulset NAME --cascade=orphan`."""
    del api.objects[set_path(node_id)]


def deleted_pods(api: InMemoryKubeApi) -> list[str]:
    return [path for verb, path in api.writes if verb == "delete" and "/pods/" in path]


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("serviceName", "none", "spec.serviceName is none instead of demo-nodes"),
        ("serviceName", None, "spec.serviceName is empty instead of demo-nodes"),
        ("volumeClaimTemplates", "other", "spec.volumeClaimTemplates has other instead of data"),
        ("volumeClaimTemplates", None, "spec.volumeClaimTemplates has none instead of data"),
    ],
)
def test_changed_immutable_field_is_reported_with_the_command(
    field: str, value: str | None, says: str
) -> None:
    api = running_quorum(3)
    spec = api.objects[set_path(2)]["spec"]
    if value is None:
        del spec[field]
    elif field == "serviceName":
        spec[field] = value
    else:
        spec[field][0]["metadata"]["name"] = value
    reconcile(api, times=6)
    degraded = api.condition("Degraded")
    assert degraded["status"] == "True"
    assert f"2: OtherStatefulSet: {says}" in degraded["message"]
    assert "kubectl delete statefulset demo-2-1 --cascade=orphan" in degraded["message"]
    assert [path for _, path in api.writes if "/statefulsets/demo-2-1" in path] == []
    assert deleted_pods(api) == []


def test_pod_is_not_restarted_by_a_stateful_set_with_another_service() -> None:
    """A new pod would lose its DNS name."""
    api = replaced(2, pods_too=False)
    api.change_spec(image="node:2")
    nodes = TransferringNodes()
    for _ in range(12):
        reconcile(api, nodes)
        observed_by_its_controller(api)
    images = [
        next(each["image"] for each in pod["spec"]["containers"] if each["name"] == CONTAINER)
        for pod in (api.objects[pod_path(each)] for each in (1, 2, 3))
    ]
    assert images[0] == images[2] == "node:2"
    assert images[1] != "node:2"


def test_command_in_the_message_mends_members_one_at_a_time() -> None:
    api = replaced(1, 2, 3)
    pods = {each: api.objects[pod_path(each)]["metadata"]["uid"] for each in (1, 2, 3)}
    for node_id in (1, 2, 3):
        deleted_with_orphans(api, node_id)
    reconcile(api, times=6)
    for node_id in (1, 2, 3):
        assert api.objects[set_path(node_id)]["spec"]["serviceName"] == "demo-nodes"
        assert api.objects[pod_path(node_id)]["metadata"]["uid"] == pods[node_id], "pod kept"
    assert api.condition("Degraded")["status"] == "False"
    nodes = TransferringNodes()
    for restarted in (1, 2, 3):
        observed_by_its_controller(api)
        reconcile(api, nodes, times=6)
        assert len(deleted_pods(api)) == restarted
        assert len(set(deleted_pods(api))) == restarted
    observed_by_its_controller(api)
    reconcile(api, nodes, times=6)
    assert len(deleted_pods(api)) == 3
    for node_id in (1, 2, 3):
        assert api.objects[pod_path(node_id)]["spec"]["subdomain"] == "demo-nodes"
    assert api.status["plan"]["step"] == "Nothing"


def test_name_that_a_webhook_gives_to_every_new_pod_is_left() -> None:
    api = running_quorum(3)
    for node_id in (1, 2, 3):
        api.objects[set_path(node_id)]["metadata"]["creationTimestamp"] = time_text(200_000)
        api.objects[pod_path(node_id)]["spec"]["subdomain"] = "rewritten"
    observed_by_its_controller(api)
    reconcile(api, times=6)
    assert deleted_pods(api) == []
