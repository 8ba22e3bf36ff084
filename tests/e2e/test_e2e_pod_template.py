"""`spec.podTemplate` on real pods: admission, scheduler and container runtime apply every field."""

import json
from collections import Counter
from collections.abc import Iterator

import pytest

from support.envtest.kube_api import Json
from support.kind_env import kube
from support.kind_env.environment import MOVE_TIMEOUT_S, KindEnv
from support.kind_env.installation import kubectl_command
from support.kind_env.operator_cluster import OperatorCluster
from support.kind_env.quorum import Voter
from support.kind_env.testbed import run

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

_ZONE = "topology.kubernetes.io/zone"
_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
_CLASS = "metadataquorum-test"
_PRIORITY = 1000
_ID = 1_000_650_000
"""A user id as OpenShift assigns it: the image has no such user."""
_POD_TEMPLATE = {
    "labels": {"team": "a"},
    "annotations": {"example.org/cost-center": "42"},
    "imagePullSecrets": [{"name": "registry"}],
    "priorityClassName": _CLASS,
    "serviceAccountName": "members",
    "env": [{"name": "TZ", "value": "Asia/Tokyo"}],
    "securityContext": {"runAsUser": _ID, "runAsGroup": _ID, "fsGroup": _ID},
    "zoneSpread": "Required",
}
_READ_PROCESS = """
import json
words = open("/proc/1/environ").read().split(chr(0))
status = dict(line.split(":", 1) for line in open("/proc/1/status"))
variables = dict(word.split("=", 1) for word in words if word)
print(json.dumps({"uid": status["Uid"].split()[0], "gid": status["Gid"].split()[0], "TZ": variables.get("TZ")}))
"""


@pytest.fixture
def zones(ready_cluster: OperatorCluster) -> Iterator[dict[str, str]]:
    """Zone by worker: the first two share one, the third has its own."""
    api = ready_cluster.api
    workers = sorted(
        each["metadata"]["name"]
        for each in api.list(kube.NODES)
        if "node-role.kubernetes.io/control-plane" not in each["metadata"]["labels"]
    )
    zone_of = dict(zip(workers, ("near", "near", "far"), strict=True))
    try:
        for worker, zone in zone_of.items():
            api.merge(f"{kube.NODES}/{worker}", {"metadata": {"labels": {_ZONE: zone}}})
        yield zone_of
    finally:
        for worker in workers:
            api.merge(f"{kube.NODES}/{worker}", {"metadata": {"labels": {_ZONE: None}}})


@pytest.fixture
def priority_class(ready_cluster: OperatorCluster) -> Iterator[None]:
    path = f"{_CLASSES}/{_CLASS}"
    body = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": _CLASS},
        "value": _PRIORITY,
    }
    ready_cluster.api.apply(path, body)
    yield
    ready_cluster.api.delete(path)


@pytest.mark.requirement("OP-01", "OP-06")
@pytest.mark.usefixtures("priority_class")
def test_members_and_their_replacements_run_with_the_pod_template(
    env: KindEnv, zones: dict[str, str]
) -> None:
    for plural, kind, name in (
        ("serviceaccounts", "ServiceAccount", "members"),
        ("secrets", "Secret", "registry"),
    ):
        body = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}
        env.cluster.api.create(kube.core(env.namespace, plural), body)
    # Four members without spread over hosts: only the zones let two of them share the third worker.
    quorum = env.create_under_load(
        4, allowEvenReplicas=True, spread="None", podTemplate=_POD_TEMPLATE
    )
    assert_template(env)
    assert over_zones(quorum.pods(), zones) == {"near": 2, "far": 2}
    failed = env.fail_disk(in_zone(env, "far", zones))
    env.wait_replaced(failed, 4, timeout_s=MOVE_TIMEOUT_S)
    quorum.wait_phase("Ready", timeout_s=MOVE_TIMEOUT_S)
    assert_template(env)
    assert over_zones(quorum.pods(), zones) == {"near": 2, "far": 2}
    env.prove_nothing_lost()


def assert_template(env: KindEnv) -> None:
    """Each pod has all fields, and its process has the ids and the environment."""
    pods = env.the_quorum.pods()
    assert len(pods) == 4
    for pod in pods:
        metadata, spec = pod["metadata"], pod["spec"]
        assert metadata["labels"]["team"] == "a"
        assert metadata["annotations"]["example.org/cost-center"] == "42"
        assert spec["imagePullSecrets"] == [{"name": "registry"}]
        assert spec["priority"] == _PRIORITY, "the API server resolved the class"
        assert spec["serviceAccountName"] == "members"
        wanted = {"uid": str(_ID), "gid": str(_ID), "TZ": "Asia/Tokyo"}
        assert process_of(env, metadata["name"]) == wanted


def in_zone(env: KindEnv, zone: str, zones: dict[str, str]) -> Voter:
    """A voter in a zone that is not the leader. With its failed pod counted, the other zone would seem to be as free."""
    described = env.the_quorum.wait_healthy(4, timeout_s=60)
    host_of = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in env.the_quorum.pods()}
    return next(
        each
        for each in described.voters
        if each.id != described.leader_id
        and zones[host_of[env.the_quorum.pod_of(each.id, each.uuid)]] == zone
    )


def process_of(env: KindEnv, pod: str) -> dict[str, str]:
    """Ids and environment of the node's process."""
    kubectl = kubectl_command(env.cluster.kubeconfig)
    command = [*kubectl, "-n", env.namespace, "exec", pod, "--", "python", "-c", _READ_PROCESS]
    found: dict[str, str] = json.loads(run(command, timeout_s=60).stdout)
    return found


def over_zones(pods: list[Json], zones: dict[str, str]) -> Counter[str]:
    """Number of pods by zone."""
    return Counter(zones[pod["spec"]["nodeName"]] for pod in pods)
