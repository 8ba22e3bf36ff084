"""The claims of stopped members follow the deletion policy of the spec, not the one of the time at which they ran."""

import json
from typing import Any

import pytest

from quorum_operator.desired import names
from quorum_operator.kube import paths
from support.in_memory_kube_api import (
    OWNER,
    SPACE,
    HealthyNodes,
    InMemoryKubeApi,
    pod_path,
    reconcile,
    running_quorum,
    set_path,
)

POLICY = "persistentVolumeClaimRetentionPolicy"
FAILED = {
    names.ANNOTATION_FAILED: json.dumps({"reason": "StorageFailed", "at": 1}),
    names.ANNOTATION_STOPPED: "StorageFailed",
}


def claim_of(api: InMemoryKubeApi, node_id: int) -> dict[str, Any]:
    name = OWNER.claim(OWNER.member(node_id, 1))
    return api.objects[paths.namespaced("persistentvolumeclaims", SPACE, name)]


@pytest.fixture
def api() -> InMemoryKubeApi:
    """Member 3 has failed under `deletionPolicy: Delete`: Kubernetes has made its StatefulSet the owner of its claim."""
    made = running_quorum(3, deletionPolicy="Delete")
    del made.objects[pod_path(3)]
    owned = made.objects[set_path(3)]
    owned["spec"]["replicas"] = 0
    owned["metadata"]["annotations"] |= FAILED
    other = {"kind": "Other", "uid": "other"}
    claim_of(made, 3)["metadata"]["ownerReferences"] = [
        {"kind": "StatefulSet", "uid": owned["metadata"]["uid"]},
        other,
    ]
    return made


NODES = HealthyNodes(3, silent=(3,))


def test_volume_of_a_failed_member_is_kept_when_the_policy_becomes_retain(
    api: InMemoryKubeApi,
) -> None:
    api.change_spec(deletionPolicy="Retain")
    reconcile(api, NODES, times=6)
    assert api.objects[set_path(3)]["spec"][POLICY]["whenDeleted"] == "Retain"
    owners = claim_of(api, 3)["metadata"]["ownerReferences"]
    assert [each["uid"] for each in owners] == ["other"]


def test_policy_that_still_deletes_leaves_the_owner(api: InMemoryKubeApi) -> None:
    reconcile(api, NODES, times=6)
    assert set_path(3) not in {path for verb, path in api.writes if verb == "patch"}
    assert len(claim_of(api, 3)["metadata"]["ownerReferences"]) == 2


def test_failed_volume_is_kept_although_its_set_was_edited_to_delete_it() -> None:
    api = running_quorum(3)
    owned = api.objects[set_path(3)]
    owned["metadata"]["annotations"] |= {names.ANNOTATION_FAILED: FAILED[names.ANNOTATION_FAILED]}
    owned["spec"][POLICY]["whenScaled"] = "Delete"
    stopped: list[str] = []

    def look(verb: str, path: str) -> None:
        now = api.objects[set_path(3)]["spec"]
        if now["replicas"] == 0:
            stopped.append(now[POLICY]["whenScaled"])

    api.refuse = look
    reconcile(api, NODES, times=4)
    kept = api.objects[set_path(3)]["spec"]
    assert (kept["replicas"], kept[POLICY]["whenScaled"]) == (0, "Retain")
    assert "Delete" not in stopped, "for a moment Kubernetes would have deleted the claim"
