"""The scheduler of a modelled cluster, evictions by taints, and evictions by hand under the disruption budget."""

from quorum_operator.kube import paths
from quorum_operator.kube.errors import ApiError
from quorum_operator.quantity import value_of
from support.modelled_cluster.hosts import Hosts
from support.modelled_cluster.store import Object, Store, time_text
from support.modelled_cluster.volumes import Volumes

_CPUS = 8
_KEEP_OUT = ("NoSchedule", "NoExecute")
_SCHEDULED = "PodScheduled"


class Scheduler:
    """Of one namespace."""

    def __init__(self, store: Store, namespace: str, hosts: Hosts, volumes: Volumes) -> None:
        self._store, self._hosts, self._volumes = store, hosts, volumes
        self._namespace = namespace

    def _path(self, plural: str, name: str | None = None) -> str:
        return paths.namespaced(plural, self._namespace, name)

    def step(self, now: float) -> None:
        """Assign pods to hosts."""
        for pod in self._store.of(self._path("pods")):
            if not pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]:
                self._place(pod, now)

    def evict_tainted(self) -> None:
        for pod in self._store.of(self._path("pods")):
            node = self._store.get(f"{paths.NODES}/{pod['spec'].get('nodeName')}")
            if node is None or "deletionTimestamp" in pod["metadata"]:
                continue
            taints = [each for each in _taints(node) if each["effect"] == "NoExecute"]
            if not all(_is_tolerated(each, pod) for each in taints):
                self._store.delete(self._path("pods", pod["metadata"]["name"]))

    def evict(self, path: str) -> None:
        """Raises ApiError if the disruption budget forbids it."""
        pod = self._store.get(path)
        if pod is None:
            raise ApiError(404, "NotFound", path)
        for budget in self._store.of(self._path("poddisruptionbudgets")):
            selector = budget["spec"]["selector"]["matchLabels"]
            pods = [
                each
                for each in self._store.of(self._path("pods"))
                if selector.items() <= (each["metadata"].get("labels") or {}).items()
            ]
            least = budget["spec"].get("minAvailable")
            ready = [each for each in pods if is_ready(each)]
            if pod in ready and isinstance(least, int) and len(ready) - 1 < least:
                text = "Cannot evict pod as it would violate the pod's disruption budget."
                raise ApiError(429, "TooManyRequests", text)
        self._store.delete(path)

    def _place(self, pod: Object, now: float) -> None:
        name = pod["metadata"]["name"]
        claim = self._volumes.claim(f"data-{name}")
        problems: list[str] = []
        fits: list[tuple[int, str]] = []
        for host in self._hosts.by_name:
            problem = self._problem(pod, host, claim)
            if problem is None:
                fits.append((self._members_on(pod, host), host))
            else:
                problems.append(problem)
        path = self._path("pods", name)
        if not fits:
            message = f"0/4 nodes are available: {'; '.join(sorted(set(problems)))}."
            entry = {
                "type": _SCHEDULED,
                "status": "False",
                "reason": "Unschedulable",
                "message": message,
            }
            self._note(path, pod, entry, now)
            return
        _, host = min(fits)
        assert claim is not None
        self._volumes.bind(claim, host)
        self._store.merge(path, {"spec": {"nodeName": host}})
        bound = self._store.get(path)
        assert bound is not None
        self._note(path, bound, {"type": _SCHEDULED, "status": "True"}, now)

    def _note(self, path: str, pod: Object, entry: Object, now: float) -> None:
        status = pod["status"]
        others = [each for each in status.get("conditions") or [] if each["type"] != _SCHEDULED]
        old: Object = next(
            (e for e in status.get("conditions") or [] if e["type"] == _SCHEDULED), {}
        )
        at = old.get("lastTransitionTime") if old.get("status") == entry["status"] else None
        noted = {**entry, "lastTransitionTime": at or time_text(now)}
        self._store.set_status(path, {**status, "conditions": [*others, noted]})

    def _problem(self, pod: Object, host: str, claim: Object | None) -> str | None:
        node, spec = self._store.get(f"{paths.NODES}/{host}"), pod["spec"]
        if node is None:
            return "no such node"
        if not self._hosts.is_ready(host):
            return "node(s) were not ready"
        if any(not _is_tolerated(each, pod) for each in _taints(node)):
            return "node(s) had untolerated taints"
        if not (spec.get("nodeSelector") or {}).items() <= node["metadata"]["labels"].items():
            return "node(s) didn't match Pod's node affinity/selector"
        requests = (spec["containers"][0].get("resources") or {}).get("requests") or {}
        cpu = value_of(str(requests.get("cpu", "0")))
        if cpu is not None and cpu > _CPUS:
            return "Insufficient cpu"
        if claim is None:
            return "persistentvolumeclaim not found"
        if "deletionTimestamp" in claim["metadata"]:
            return "persistentvolumeclaim is being deleted"
        return self._spread_problem(pod, node) or self._volumes.room_for(claim, host)

    def _spread_problem(self, pod: Object, node: Object) -> str | None:
        for rule in pod["spec"].get("topologySpreadConstraints") or []:
            if rule["whenUnsatisfiable"] != "DoNotSchedule":
                continue
            if rule["topologyKey"] not in node["metadata"]["labels"]:
                return (
                    "node(s) didn't match pod topology spread constraints (missing required label)"
                )
            if self._members_on(pod, node["metadata"]["name"]):
                return "node(s) didn't match pod topology spread constraints"
        return None

    def _members_on(self, pod: Object, host: str) -> int:
        rules = pod["spec"].get("topologySpreadConstraints") or []
        selector = rules[0]["labelSelector"]["matchLabels"] if rules else {}
        return sum(
            1
            for each in self._store.of(self._path("pods"))
            if each["spec"].get("nodeName") == host
            if selector.items() <= (each["metadata"].get("labels") or {}).items()
            if "deletionTimestamp" not in each["metadata"]
        )


def is_ready(pod: Object) -> bool:
    conditions = pod["status"].get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _taints(node: Object) -> list[Object]:
    spec = node.get("spec") or {}
    cordoned = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    taints = [*(spec.get("taints") or []), *([cordoned] if spec.get("unschedulable") else [])]
    return [each for each in taints if each["effect"] in _KEEP_OUT]


def _is_tolerated(taint: Object, pod: Object) -> bool:
    return any(
        each.get("operator") == "Exists" and each.get("key") in (None, taint["key"])
        for each in pod["spec"].get("tolerations") or []
    )
