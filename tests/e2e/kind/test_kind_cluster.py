"""What the end-to-end tests rely on, shown of the cluster itself: nodes, names, ports, disks, cuts.

When one of these fails, the cluster is to blame, and not the product.
"""

import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import partial

import pytest
from cluster_objects import claim, pod_spec, spread_servers, writer_pod
from testbed import network, nodes
from testbed.commands import TestbedError
from testbed.disks import Disk, DiskState
from testbed.volumes import STORAGE_CLASS

from support.kind import Cluster, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

SLOT = 90
"""Far from the slots that other tests use."""

NODE_PORTS = (30019, 30020)
"""One for each test: the namespace of the one before, with its service, may still be about to go."""

ASK = """
import sys, urllib.request
sys.stdout.write(urllib.request.urlopen("http://" + sys.argv[1], timeout=3).read().decode())
"""


@pytest.fixture
def disk(cluster: Cluster) -> Iterator[Disk]:
    """A disk on worker 2 with its volume, gone again after the test. Tests name it before their
    namespace, so that the namespace, and with it the claim, is removed first."""
    one = Disk(2, SLOT)
    cluster.volumes.provide([one])
    yield one
    cluster.volumes.remove(one)
    assert cluster.disks.state(one) is DiskState.ABSENT


def _in(cluster: Cluster, namespace: str, *words: str) -> str:
    return cluster.kubectl.run("-n", namespace, *words, timeout_s=130)


def _apply(cluster: Cluster, namespace: str, *objects: dict[str, object]) -> None:
    for one in objects:
        metadata = one["metadata"]
        assert isinstance(metadata, dict)
        metadata["namespace"] = namespace
    cluster.kubectl.apply(*objects)


def _await_pod(cluster: Cluster, namespace: str, pod: str) -> None:
    _in(cluster, namespace, "wait", f"pod/{pod}", "--for=condition=Ready", "--timeout=120s")


def _last_line(cluster: Cluster, namespace: str, pod: str) -> str:
    return _in(cluster, namespace, "logs", pod, "--tail=1").strip()


def test_all_four_nodes_become_ready(cluster: Cluster) -> None:
    _in(cluster, "default", "wait", "node", "--all", "--for=condition=Ready", "--timeout=60s")
    found = {item["metadata"]["name"] for item in cluster.kubectl.get("nodes")["items"]}
    assert found == {f"{cluster.name}-control-plane", *cluster.workers}


def test_pods_on_three_hosts_reach_each_other_and_are_reachable_from_outside_the_cluster(
    cluster: Cluster, namespace: str, shell_image: str
) -> None:
    _apply(cluster, namespace, *spread_servers(shell_image, 3, NODE_PORTS[0]))
    _in(cluster, namespace, "rollout", "status", "statefulset/server", "--timeout=120s")
    pods = cluster.kubectl.get("pods", "-n", namespace, "-l", "app=server")["items"]
    assert {pod["spec"]["nodeName"] for pod in pods} == set(cluster.workers)

    def ask(asker: int, address: str) -> str:
        execute = ["exec", f"server-{asker}", "--", "python3", "-c", ASK, address]
        return _in(cluster, namespace, *execute)

    def by_name(asker: int, requested: int) -> bool:
        try:
            return ask(asker, f"server-{requested}.server:8080/") == f"server-{requested}"
        except TestbedError:
            return False

    for asker in range(3):
        for requested in range(3):
            eventually(partial(by_name, asker, requested), f"server-{asker} asks {requested}")

    # A service with several endpoints, inside and outside; each must have answered some time
    inside = {ask(0, "outside:8080/") for _ in range(30)}
    outside = {_from_host(NODE_PORTS[0]) for _ in range(30)}
    assert inside == outside == {"server-0", "server-1", "server-2"}


def test_partitioned_pod_is_unreachable_until_the_partition_is_healed(
    cluster: Cluster, namespace: str, shell_image: str
) -> None:
    _apply(cluster, namespace, *spread_servers(shell_image, 1, NODE_PORTS[1]))
    _in(cluster, namespace, "rollout", "status", "statefulset/server", "--timeout=120s")
    pod = cluster.kubectl.get("pod", "server-0", "-n", namespace)
    node, address = pod["spec"]["nodeName"], pod["status"]["podIP"]
    eventually(_answers_host, "the server answers from outside")

    with network.pod_cut_off(node, address):
        assert not _answers_host()
    assert _answers_host()
    with network.node_cut_off(node):
        assert not _answers_host()
    eventually(_answers_host, "the server answers again")


def test_default_storage_class_keeps_data_when_a_pod_is_recreated(
    cluster: Cluster, namespace: str, shell_image: str
) -> None:
    default = [
        item["metadata"]["name"]
        for item in cluster.kubectl.get("storageclass")["items"]
        if item["metadata"]
        .get("annotations", {})
        .get("storageclass.kubernetes.io/is-default-class")
        == "true"
    ]
    assert default == ["standard"]
    _apply(cluster, namespace, claim("data", None), writer_pod("writer", shell_image, "data"))
    _await_pod(cluster, namespace, "writer")
    eventually(lambda: _last_line(cluster, namespace, "writer") > "ok 4096", "a write")
    before = int(_last_line(cluster, namespace, "writer").split()[1])

    _in(cluster, namespace, "delete", "pod", "writer")
    _apply(cluster, namespace, writer_pod("writer", shell_image, "data"))
    _await_pod(cluster, namespace, "writer")
    eventually(
        lambda: _last_line(cluster, namespace, "writer").startswith("ok"), "a write after it"
    )
    assert int(_last_line(cluster, namespace, "writer").split()[1]) > before


def test_failed_disk_returns_eio_in_the_pod_and_has_its_synced_data_after_recovery(
    cluster: Cluster, disk: Disk, namespace: str, shell_image: str
) -> None:
    data = claim("data", STORAGE_CLASS, volume=disk.volume_name)
    _apply(cluster, namespace, data, writer_pod("writer", shell_image, "data"))
    _await_pod(cluster, namespace, "writer")
    assert (
        cluster.kubectl.get("pod", "writer", "-n", namespace)["spec"]["nodeName"]
        == (cluster.workers[disk.worker - 1])
    )
    assert cluster.volumes.disk_of_claim(namespace, "data") == disk
    eventually(lambda: _last_line(cluster, namespace, "writer").startswith("ok"), "a write")

    cluster.disks.fail(disk)
    assert cluster.disks.state(disk) is DiskState.FAILED
    eventually(lambda: _last_line(cluster, namespace, "writer") == "EIO", "EIO in the pod")
    synced = [
        int(line.split()[1])
        for line in _in(cluster, namespace, "logs", "writer").splitlines()
        if line.startswith("ok")
    ]

    # Healed under the pod: it keeps its errors, only a new one finds the healthy filesystem
    cluster.disks.heal(disk)
    log = cluster.disks.mount_point(disk) / "log"
    assert log.stat().st_size >= synced[-1]
    assert _last_line(cluster, namespace, "writer") == "EIO"
    _in(cluster, namespace, "delete", "pod", "writer")
    _apply(cluster, namespace, writer_pod("writer", shell_image, "data"))
    _await_pod(cluster, namespace, "writer")
    eventually(lambda: _last_line(cluster, namespace, "writer").startswith("ok"), "a write again")


def test_full_disk_returns_enospc_and_accepts_writes_after_space_is_freed(
    cluster: Cluster, disk: Disk, namespace: str, shell_image: str
) -> None:
    data = claim("data", STORAGE_CLASS, volume=disk.volume_name)
    _apply(cluster, namespace, data, writer_pod("writer", shell_image, "data"))
    _await_pod(cluster, namespace, "writer")
    cluster.disks.fill(disk)
    eventually(lambda: _last_line(cluster, namespace, "writer") == "ENOSPC", "ENOSPC in the pod")
    assert cluster.disks.state(disk) is DiskState.HEALTHY
    cluster.disks.empty(disk)
    eventually(lambda: _last_line(cluster, namespace, "writer").startswith("ok"), "a write again")


def test_kubelet_restarts_a_killed_container(
    cluster: Cluster, namespace: str, shell_image: str
) -> None:
    sleeper: dict[str, object] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "sleeper"},
        "spec": pod_spec(shell_image, "import time; time.sleep(3600)"),
    }
    _apply(cluster, namespace, sleeper)
    _await_pod(cluster, namespace, "sleeper")
    running = nodes.running_container(cluster.kubeconfig, namespace, "sleeper")
    nodes.signal_container(running, "SIGKILL")

    def restarted() -> bool:
        pod = cluster.kubectl.get("pod", "sleeper", "-n", namespace)
        (status,) = pod["status"]["containerStatuses"]
        ended = status["lastState"].get("terminated", {})
        return bool(status["restartCount"] == 1 and ended.get("exitCode") == 137)

    eventually(restarted, "the container is started again")


def _from_host(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=2) as answer:
        body: bytes = answer.read()
    return body.decode()


def _answers_host() -> bool:
    try:
        return _from_host(NODE_PORTS[1]).startswith("server-")
    except (urllib.error.URLError, OSError):
        return False
