"""Pods in which an admission webhook has injected a container, such as the proxy of a service mesh."""

import copy
from typing import Any

import pytest

from support.in_memory_kube_api import (
    InMemoryKubeApi,
    pod_path,
    reconcile,
    running_quorum,
    set_path,
)

RUNS: dict[str, Any] = {"state": {"running": {}}}
DISK_FAILED: dict[str, Any] = {
    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
    "lastState": {"terminated": {"exitCode": 74, "reason": "Error"}},
}
NO_IMAGE: dict[str, Any] = {"state": {"waiting": {"reason": "ImagePullBackOff"}}}
INJECTED = ["a-proxy", "z-proxy"]
"""The kubelet sorts the states by name: the member's container, `node`, comes after the first and before the second."""


def inject(
    api: InMemoryKubeApi, node_id: int, name: str, *, node: dict[str, Any], proxy: dict[str, Any]
) -> None:
    pod = api.objects[pod_path(node_id)]
    pod["spec"] = copy.deepcopy(pod["spec"])
    pod["spec"]["containers"].append({"name": name, "image": "proxy:1"})
    states = [{"name": "node", **node}, {"name": name, **proxy}]
    pod["status"]["containerStatuses"] = sorted(states, key=lambda each: str(each["name"]))
    if node is not RUNS or proxy is not RUNS:
        pod["status"]["conditions"] = [{"type": "Ready", "status": "False"}]


@pytest.mark.parametrize("name", INJECTED)
def test_exit_code_of_the_member_container_counts(name: str) -> None:
    api = running_quorum(3)
    inject(api, 3, name, node=DISK_FAILED, proxy=RUNS)
    reconcile(api, silent=(3,), times=4)
    assert api.created("statefulsets") == ["demo-3-2"]


@pytest.mark.parametrize("name", INJECTED)
def test_exit_code_of_an_injected_container_is_no_disk_failure(name: str) -> None:
    api = running_quorum(3)
    inject(api, 3, name, node=RUNS, proxy=DISK_FAILED)
    reconcile(api, times=4)
    assert not api.created("statefulsets")
    assert ("merge", set_path(3)) not in api.writes


def made_from_older_template(api: InMemoryKubeApi, node_id: int) -> None:
    """The template has changed since, in what no pod is restarted for."""
    api.objects[pod_path(node_id)]["metadata"]["labels"]["controller-revision-hash"] = "old"
    owned = api.objects[set_path(node_id)]
    generation = owned["metadata"]["generation"]
    owned["status"] = {"updateRevision": "new", "observedGeneration": generation}


@pytest.mark.parametrize("name", INJECTED)
def test_injected_container_is_not_a_changed_program(name: str) -> None:
    api = running_quorum(3)
    inject(api, 2, name, node=RUNS, proxy=RUNS)
    made_from_older_template(api, 2)
    reconcile(api, times=4)
    assert ("delete", pod_path(2)) not in api.writes


@pytest.mark.parametrize("name", INJECTED)
def test_pod_without_its_image_is_not_recreated_for_an_injected_container(
    name: str,
) -> None:
    """The new pod would get one as well, again and again."""
    api = running_quorum(3)
    inject(api, 2, name, node=NO_IMAGE, proxy=RUNS)
    made_from_older_template(api, 2)
    api.objects[pod_path(2)]["metadata"]["labels"]["controller-revision-hash"] = "new"
    reconcile(api, silent=(2,), times=4)
    assert ("delete", pod_path(2)) not in api.writes
