"""The workers of the harness, and the choice of a worker for a pod. Pure: the kubelet executes it.

Owns the form of the Node objects and the rules: existing, schedulable, on the host of the pod's volumes, spread over
hosts.
"""

from collections.abc import Iterable, Mapping

from support.envtest.container import now_text
from support.envtest.kube_api import Json

HOSTNAME = "kubernetes.io/hostname"
_SPREAD_BY = "app.kubernetes.io/instance"


def node(name: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOSTNAME: name, "kubernetes.io/os": "linux"}},
        "spec": {"taints": []},
    }


def node_status() -> Json:
    """The status of a Ready worker, with the current time as heartbeat."""
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "HarnessReady",
        "message": "",
        "lastHeartbeatTime": now_text(),
        "lastTransitionTime": now_text(),
    }
    room = {"cpu": "64", "memory": "256Gi", "pods": "250", "ephemeral-storage": "1Ti"}
    return {
        "status": {
            "conditions": [ready],
            "capacity": room,
            "allocatable": room,
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "nodeInfo": _NODE_INFO,
        }
    }


_NODE_INFO = dict.fromkeys(
    (
        "machineID",
        "systemUUID",
        "bootID",
        "kernelVersion",
        "osImage",
        "containerRuntimeVersion",
        "kubeletVersion",
        "kubeProxyVersion",
        "operatingSystem",
        "architecture",
    ),
    "harness",
)


def choose(
    pod: Json, nodes: Iterable[Json], pods: Iterable[Json], volumes: Iterable[Json]
) -> str | None:
    """The name of the node for `pod`, or None if no node fits.

    `volumes` are the PVs that the pod's claims are bound to already.
    """
    counts = _neighbours(pod, pods)
    bound_to = [_hosts_of(volume) for volume in volumes]
    alone = _has_host_anti_affinity(pod)
    nodes = list(nodes)
    most = _most_per_node(pod, nodes, counts)
    selector = pod["spec"].get("nodeSelector", {})
    fitting = []
    for each in nodes:
        labels = each["metadata"].get("labels", {})
        name = each["metadata"]["name"]
        if each["spec"].get("unschedulable") or not selector.items() <= labels.items():
            continue
        if any(labels.get(HOSTNAME) not in hosts for hosts in bound_to):
            continue
        if alone and counts.get(name, 0):
            continue
        if most is not None and counts.get(name, 0) >= most:
            continue
        fitting.append((counts.get(name, 0), name))
    return min(fitting)[1] if fitting else None


def _neighbours(pod: Json, pods: Iterable[Json]) -> Mapping[str, int]:
    """How many pods of the same instance each node has."""
    instance = pod["metadata"].get("labels", {}).get(_SPREAD_BY)
    counts: dict[str, int] = {}
    for other in pods:
        same = other["metadata"].get("labels", {}).get(_SPREAD_BY) == instance
        same = same and other["metadata"]["namespace"] == pod["metadata"]["namespace"]
        where = other["spec"].get("nodeName")
        if same and where and other["metadata"]["uid"] != pod["metadata"]["uid"]:
            counts[where] = counts.get(where, 0) + 1
    return counts


def _most_per_node(pod: Json, nodes: list[Json], counts: Mapping[str, int]) -> int | None:
    """The number of pods of the instance from which a node takes no more; None: no limit."""
    for each in pod["spec"].get("topologySpreadConstraints", []):
        if each["whenUnsatisfiable"] != "DoNotSchedule" or each["topologyKey"] != HOSTNAME:
            continue
        least = min((counts.get(node["metadata"]["name"], 0) for node in nodes), default=0)
        if len(nodes) < each.get("minDomains", 1):
            least = 0
        skew: int = each["maxSkew"]
        return least + skew
    return None


def _hosts_of(volume: Json) -> set[str]:
    terms = volume["spec"].get("nodeAffinity", {}).get("required", {}).get("nodeSelectorTerms", [])
    return {
        value
        for term in terms
        for expression in term["matchExpressions"]
        if expression["key"] == HOSTNAME
        for value in expression["values"]
    }


def _has_host_anti_affinity(pod: Json) -> bool:
    anti = pod["spec"].get("affinity", {}).get("podAntiAffinity", {})
    required = anti.get("requiredDuringSchedulingIgnoredDuringExecution", [])
    return any(term.get("topologyKey") == HOSTNAME for term in required)
