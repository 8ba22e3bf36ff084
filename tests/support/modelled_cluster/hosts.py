"""Hosts of a modelled cluster and the network between pods: what is off, stands still, or is cut off."""

from dataclasses import dataclass, field

from quorum_operator.kube import paths
from support.modelled_cluster.store import Object, Store, time_text

NOT_READY_S = 40.0
"""From the last report of a kubelet to the condition Ready=Unknown (node-monitor-grace-period)."""
PODS_GONE_S = 40.0
"""From the deletion of a Node to that of its pods by Kubernetes' garbage collector of pods."""
CONTROL_PLANE = "modelled-control-plane"


@dataclass
class Host:
    """One worker. `number`: 1, 2, 3 as in the names of its disks."""

    name: str
    number: int
    on: bool = True
    still: bool = False
    kubelet: bool = True
    seen_at: float = 0.0
    gone_at: float | None = None
    """Since when its Node object does not exist."""

    @property
    def runs(self) -> bool:
        return self.on and not self.still


@dataclass
class Links:
    """Cut links by address, and cut hosts by name. Each is healed with its host."""

    pods: dict[str, set[str]] = field(default_factory=dict)
    pairs: dict[str, set[frozenset[str]]] = field(default_factory=dict)
    hosts: set[str] = field(default_factory=set)

    def heal(self, host: str) -> None:
        self.pods.pop(host, None)
        self.pairs.pop(host, None)
        self.hosts.discard(host)

    def is_cut_off(self, host: str, address: str) -> bool:
        return host in self.hosts or any(address in each for each in self.pods.values())

    def are_apart(self, one: str, other: str) -> bool:
        pair = frozenset((one, other))
        return any(pair in each for each in self.pairs.values())


class Hosts:
    """The workers with their Node objects."""

    def __init__(self, store: Store, count: int, now: float) -> None:
        self._store = store
        self.links = Links()
        names = [f"modelled-worker{number if number > 1 else ''}" for number in range(1, count + 1)]
        self.by_name = {
            name: Host(name, number, seen_at=now) for number, name in enumerate(names, 1)
        }
        for name in self.by_name:
            store.create(paths.NODES, _node(name, now))
        taint = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
        body = _node(CONTROL_PLANE, now)
        store.create(paths.NODES, {**body, "spec": {**body["spec"], "taints": [taint]}})

    def step(self, now: float) -> None:
        """The kubelets report, and the controllers of Nodes judge."""
        for host in self.by_name.values():
            path = f"{paths.NODES}/{host.name}"
            node = self._store.get(path)
            if host.runs and host.kubelet and host.name not in self.links.hosts:
                host.seen_at = now
            if node is None:
                host.gone_at = now if host.gone_at is None else host.gone_at
                if now - host.gone_at > PODS_GONE_S:
                    self._delete_pods(host.name)
                continue
            host.gone_at = None
            status = "True" if now - host.seen_at < NOT_READY_S else "Unknown"
            if _ready_of(node) != status:
                self._store.set_status(path, {**node["status"], **_conditions(status, now)})

    def is_ready(self, name: str) -> bool:
        node = self._store.get(f"{paths.NODES}/{name}")
        return node is not None and _ready_of(node) == "True"

    def register(self, name: str, now: float) -> None:
        """Its kubelet starts and makes its Node object if there is none."""
        host = self.by_name[name]
        host.kubelet, host.seen_at = True, now
        if self._store.get(f"{paths.NODES}/{name}") is None:
            self._store.create(paths.NODES, _node(name, now))

    def _delete_pods(self, name: str) -> None:
        for path, pod in list(self._store.objects.items()):
            if "/pods/" in path and pod["spec"].get("nodeName") == name:
                self._store.delete(path, grace_s=0)


def _node(name: str, now: float) -> Object:
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
    ranges = {"podCIDR": "10.244.0.0/24", "podCIDRs": ["10.244.0.0/24"]}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {}},
        "spec": ranges,
        "status": _conditions("True", now),
    }


def _conditions(ready: str, now: float) -> Object:
    entry = {"type": "Ready", "status": ready, "lastTransitionTime": time_text(now)}
    return {"conditions": [entry]}


def _ready_of(node: Object) -> str:
    found = (node.get("status") or {}).get("conditions") or []
    return next((each["status"] for each in found if each["type"] == "Ready"), "True")
