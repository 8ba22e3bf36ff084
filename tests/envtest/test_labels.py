"""Labels are edited on a real API server, with the StatefulSets' own controller: members are found by their names."""

import pytest

from support.envtest.environment import Env, SharedQuorum
from support.envtest.quorum import ApiServerQuorum
from support.kind_env import kube
from support.kind_env.waiting import stays, wait_for

pytestmark = pytest.mark.envtest

_INSTANCE = "app.kubernetes.io/instance"
_QUORUM = "metadataquorum.dev/quorum"
_OURS = ("app.kubernetes.io/", "metadataquorum.dev/")


def paths(env: Env, member: str) -> dict[str, str]:
    """Of a member's objects, by their kind."""
    return {
        "StatefulSet": kube.apps(env.namespace, "statefulsets", member),
        "Pod": kube.core(env.namespace, "pods", f"{member}-0"),
        "PersistentVolumeClaim": kube.core(
            env.namespace, "persistentvolumeclaims", f"data-{member}-0"
        ),
    }


def controller_of(env: Env, path: str) -> str | None:
    """UID of the controller that owns a pod."""
    references = env.api.get(path)["metadata"].get("ownerReferences", [])
    return next((each["uid"] for each in references if each.get("controller")), None)


def has_labels(env: Env, path: str, labels: dict[str, str]) -> bool:
    return (env.api.get(path)["metadata"].get("labels") or {}).items() >= labels.items()


def is_not_lost(quorum: ApiServerQuorum) -> bool:
    return quorum.phase() != "QuorumLost" and not quorum.condition_is("QuorumLost")


@pytest.mark.parametrize("label", [_QUORUM, "metadataquorum.dev/node-id"])
@pytest.mark.requirement("OP-01")
def test_pod_without_labels_and_owner_is_adopted_again(
    shared_quorum: SharedQuorum, label: str
) -> None:
    env, quorum = shared_quorum.env, shared_quorum.quorum
    before = quorum.wait_ready(3)
    pod = paths(env, quorum.pod_of(before.leader_id).removesuffix("-0"))["Pod"]
    old = env.api.get(pod)["metadata"]
    owner = controller_of(env, pod)
    env.api.merge(pod, {"metadata": {"labels": {label: None}}})
    wait_for(
        "the label is back",
        lambda: env.api.get(pod)["metadata"]["labels"] == old["labels"],
        timeout_s=30,
        seen=quorum.summary,
    )
    wait_for("it is adopted again", lambda: controller_of(env, pod) == owner, timeout_s=30)
    assert env.api.get(pod)["metadata"]["uid"] == old["uid"], "the pod was restarted"
    stays("the quorum is not called lost", lambda: is_not_lost(quorum), for_s=3)
    assert quorum.wait_ready(3).keys == before.keys


@pytest.mark.requirement("OP-01")
def test_member_that_lost_all_labels_is_found_and_relabelled(shared_quorum: SharedQuorum) -> None:
    env, quorum = shared_quorum.env, shared_quorum.quorum
    before = quorum.wait_ready(3)
    labels, objects = {}, paths(env, "q-2-1")
    for kind, path in objects.items():
        found = env.api.get(path)["metadata"]["labels"]
        # Others are the StatefulSets' controller's own.
        labels[kind] = {key: value for key, value in found.items() if key.startswith(_OURS)}
        carries = _INSTANCE in labels[kind]
        assert carries == (kind != "PersistentVolumeClaim"), "Argo CD prunes claims that carry it"
        removed = dict.fromkeys([*labels[kind], _INSTANCE])
        env.api.merge(path, {"metadata": {"labels": removed}})
    wait_for(
        "all labels are back",
        lambda: all(has_labels(env, path, labels[kind]) for kind, path in objects.items()),
        timeout_s=40,
        seen=quorum.summary,
    )
    assert quorum.wait_ready(3).keys == before.keys
    assert set(quorum.incarnations()) == {"q-1-1", "q-2-1", "q-3-1"}
