"""Claims that another client has expanded: never asked to shrink, which the API server refuses."""

import json

import pytest

from quorum_operator.desired import names
from quorum_operator.kube import paths
from support.in_memory_kube_api import SPACE, InMemoryKubeApi, reconcile, running_quorum, set_path

CLASS = paths.storage_class("local")


def expandable(by_hand: str) -> InMemoryKubeApi:
    """A quorum of 1Gi volumes, whose first claim was expanded to `by_hand`."""
    api = running_quorum(3)
    api.objects[CLASS]["allowVolumeExpansion"] = True
    for node_id in (1, 2, 3):
        size = by_hand if node_id == 1 else "1Gi"
        api.objects[claim_path(node_id)]["spec"] |= {
            "storageClassName": "local",
            "resources": {"requests": {"storage": size}},
        }
    return api


def claim_path(node_id: int) -> str:
    return paths.namespaced("persistentvolumeclaims", SPACE, f"data-demo-{node_id}-1-0")


@pytest.mark.parametrize(
    ("by_hand", "then"), [("5Gi", "5Gi"), ("3072Mi", "3072Mi"), ("2Gi", "3Gi")]
)
def test_claim_that_was_expanded_by_hand_is_never_shrunk(by_hand: str, then: str) -> None:
    api = expandable(by_hand)
    api.change_spec(storage={"size": "3Gi", "storageClassName": "local"})
    reconcile(api, times=8)
    sizes = [
        api.objects[claim_path(each)]["spec"]["resources"]["requests"]["storage"]
        for each in (1, 2, 3)
    ]
    assert sizes == [then, "3Gi", "3Gi"]
    notes = api.objects[set_path(1)]["metadata"]["annotations"]
    assert json.loads(notes[names.ANNOTATION_STORAGE])["size"] == "3Gi"
    assert not api.created("statefulsets")
