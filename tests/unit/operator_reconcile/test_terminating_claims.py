"""A member whose StatefulSet was deleted while its claim waits for its running pod to end: it is run on, and replaced."""

from typing import Any

from quorum_operator.desired import names
from quorum_operator.kube import paths
from support.in_memory_kube_api import (
    OWNER,
    SPACE,
    InMemoryKubeApi,
    pod_path,
    reconcile,
    running_quorum,
    set_path,
    time_text,
)

CLAIM = paths.namespaced("persistentvolumeclaims", SPACE, "data-demo-1-1-0")


def leader_without_a_set(**pod: Any) -> InMemoryKubeApi:
    """`kubectl delete pvc` of the leader's claim, then `kubectl delete statefulset --cascade=orphan`."""
    api = running_quorum(3)
    api.objects[CLAIM]["metadata"] |= {
        "deletionTimestamp": time_text(60),
        "finalizers": ["kubernetes.io/pvc-protection"],
        "annotations": {
            names.ANNOTATION_UUID: "U1",
            names.ANNOTATION_CLUSTER_ID: "c1",
            names.ANNOTATION_RESOURCE_UID: OWNER.uid,
            names.ANNOTATION_FORMATION: "1",
        },
    }
    del api.objects[set_path(1)]
    api.objects[pod_path(1)]["metadata"].pop("ownerReferences", None)
    api.objects[pod_path(1)]["metadata"] |= pod
    return api


def test_leader_with_a_running_pod_gets_its_stateful_set_back_and_then_a_successor() -> None:
    """Without the StatefulSet nobody calls the leader: no voter could be added or removed for good."""
    api = leader_without_a_set()
    reconcile(api, times=4)
    assert api.created("statefulsets") == ["demo-1-1", "demo-1-2"]
    notes = api.objects[set_path(1)]["metadata"]["annotations"]
    assert notes[names.ANNOTATION_UUID] == "U1"
    assert api.condition("ClaimsInDoubt")["status"] == "False"
    assert ("delete", CLAIM) not in api.writes


def test_stateful_set_is_not_recreated_once_the_pod_ends() -> None:
    """The claim goes with the pod: the next pod would get an empty volume."""
    api = leader_without_a_set(deletionTimestamp=time_text(1))
    reconcile(api, times=4)
    assert api.created("statefulsets") == ["demo-1-2"]
