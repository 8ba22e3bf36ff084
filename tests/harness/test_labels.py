"""Labels are edited on a real API server, with the StatefulSets' own controller: members are found by their names."""

import pytest

from support.harness.quorum import HarnessQuorum
from support.harness.scene import Home, Scene
from support.trial import kube
from support.trial.waiting import stays, wait_for

pytestmark = pytest.mark.harness

_INSTANCE = "app.kubernetes.io/instance"
_QUORUM = "metadataquorum.dev/quorum"
_OURS = ("app.kubernetes.io/", "metadataquorum.dev/")


def paths(scene: Scene, member: str) -> dict[str, str]:
    """Of a member's objects, by their kind."""
    return {
        "StatefulSet": kube.apps(scene.namespace, "statefulsets", member),
        "Pod": kube.core(scene.namespace, "pods", f"{member}-0"),
        "PersistentVolumeClaim": kube.core(
            scene.namespace, "persistentvolumeclaims", f"data-{member}-0"
        ),
    }


def controller_of(scene: Scene, path: str) -> str | None:
    """UID of the controller that owns a pod."""
    references = scene.api.get(path)["metadata"].get("ownerReferences", [])
    return next((each["uid"] for each in references if each.get("controller")), None)


def has_labels(scene: Scene, path: str, labels: dict[str, str]) -> bool:
    return (scene.api.get(path)["metadata"].get("labels") or {}).items() >= labels.items()


def is_not_lost(quorum: HarnessQuorum) -> bool:
    return quorum.phase() != "QuorumLost" and not quorum.condition_is("QuorumLost")


@pytest.mark.parametrize("label", [_QUORUM, "metadataquorum.dev/node-id"])
@pytest.mark.requirement("OP-01")
def test_a_pod_that_lost_its_label_and_its_owner_is_adopted_again(home: Home, label: str) -> None:
    scene, quorum = home.scene, home.quorum
    before = quorum.wait_ready(3)
    pod = paths(scene, quorum.pod_of(before.leader_id).removesuffix("-0"))["Pod"]
    old = scene.api.get(pod)["metadata"]
    owner = controller_of(scene, pod)
    scene.api.merge(pod, {"metadata": {"labels": {label: None}}})
    wait_for(
        "the label is back",
        lambda: scene.api.get(pod)["metadata"]["labels"] == old["labels"],
        timeout_s=30,
        seen=quorum.summary,
    )
    wait_for("it is adopted again", lambda: controller_of(scene, pod) == owner, timeout_s=30)
    assert scene.api.get(pod)["metadata"]["uid"] == old["uid"], "the pod has never ended"
    stays("the quorum is not called lost", lambda: is_not_lost(quorum), for_s=3)
    assert quorum.wait_ready(3).keys == before.keys


@pytest.mark.requirement("OP-01")
def test_a_member_whose_labels_are_all_gone_is_found_and_labelled(home: Home) -> None:
    scene, quorum = home.scene, home.quorum
    before = quorum.wait_ready(3)
    labels, objects = {}, paths(scene, "q-2-1")
    for kind, path in objects.items():
        found = scene.api.get(path)["metadata"]["labels"]
        # Others are the StatefulSets' controller's own.
        labels[kind] = {key: value for key, value in found.items() if key.startswith(_OURS)}
        carries = _INSTANCE in labels[kind]
        assert carries == (kind != "PersistentVolumeClaim"), "Argo CD prunes claims that carry it"
        removed = dict.fromkeys([*labels[kind], _INSTANCE])
        scene.api.merge(path, {"metadata": {"labels": removed}})
    wait_for(
        "all labels are back",
        lambda: all(has_labels(scene, path, labels[kind]) for kind, path in objects.items()),
        timeout_s=40,
        seen=quorum.summary,
    )
    assert quorum.wait_ready(3).keys == before.keys
    assert set(quorum.incarnations()) == {"q-1-1", "q-2-1", "q-3-1"}
