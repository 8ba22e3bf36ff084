"""The environment of one harness test: a namespace, a recording proxy, operators and quorums.

Owns their creation and removal. All tests of a session share the cluster.
"""

from dataclasses import dataclass
from pathlib import Path

from support import chart
from support.envtest.cluster import ApiServerCluster
from support.envtest.direct_access import kubeconfig_of_account
from support.envtest.http_proxy import RecordingProxy
from support.envtest.kube_api import ApiError, Json
from support.envtest.operator_process import OperatorProcess
from support.envtest.quorum import CREATE_TIMEOUT_S, ApiServerQuorum
from support.envtest.volumes import DIRECTORY_CLASS, DISK_CLASS
from support.kind_env import kube
from support.kind_env.kube import Kube
from support.kind_env.load import Load
from support.kind_env.waiting import wait_for
from support.workload.evaluation import Verdict
from support.yaml_text import read_yaml

NODE_IMAGE = "quorum-node:harness"
OTHER_NODE_IMAGE = "quorum-node:harness-next"
"""The same program under another name."""
SIMULATED_NODE_IMAGE = "quorum-node:crowd"
"""No program: its nodes are stand-ins in the harness itself."""
_REMOVAL_TIMEOUT_S = 120.0
_LOG_TAIL_LINES = 60
_POD_TAIL_LINES = 12
_SETTINGS = {
    "METADATAQUORUM_OPERATOR_RESYNC_SECONDS": "1",
    "METADATAQUORUM_OPERATOR_LISTEN": "127.0.0.1:0",
}


_ACCOUNT = f"system:serviceaccount:{chart.NAMESPACE}:{chart.RELEASE}"
_ACTING_AS = (
    ("Impersonate-User", _ACCOUNT),
    ("Impersonate-Group", "system:serviceaccounts"),
    ("Impersonate-Group", "system:authenticated"),
)
"""The operator's calls carry the rights of its own service account, not an administrator's."""


_RIGHTS = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
_LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{chart.NAMESPACE}/leases/{chart.RELEASE}"


def _path_of(found: Json) -> str:
    """Path of a namespace, or of an object that grants rights."""
    meta, plural = found["metadata"], found["kind"].lower() + "s"
    if found["kind"] == "Namespace":
        return f"{kube.NAMESPACES}/{meta['name']}"
    space = f"/namespaces/{meta['namespace']}" if "namespace" in meta else ""
    return f"/apis/rbac.authorization.k8s.io/v1{space}/{plural}/{meta['name']}"


def install_definitions(api: Kube) -> None:
    """Install the resource definitions and the operator's rights from the plain manifests."""
    definitions = []
    for file in chart.CRDS:
        definition = read_yaml(file.read_text())
        definitions.append(f"{kube.CRDS}/{definition['metadata']['name']}")
        api.apply(definitions[-1], definition)
    for found in chart.of_kind(chart.plain(), "Namespace", *_RIGHTS):
        api.apply(_path_of(found), found)

    def established(path: str) -> bool:
        conditions = api.get(path).get("status", {}).get("conditions") or []
        return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)

    def listed() -> bool:
        """Whether lists are answered. The condition Established is earlier: then 429 says that the storage is initializing."""
        try:
            return api.list(kube.quorums("default")) is not None
        except ApiError as error:
            if error.status not in {404, 429}:
                raise
            return False

    wait_for("the definitions are there", lambda: all(map(established, definitions)), timeout_s=90)
    wait_for("MetadataQuorums are served", listed, timeout_s=90)


class Env:
    """`api` and `cluster` belong to the session. Each of `operators` has its own proxy."""

    def __init__(
        self, api: Kube, cluster: ApiServerCluster, folder: Path, *, warm: bool = False
    ) -> None:
        self.api = api
        self.cluster = cluster
        self.namespace = cluster.new_namespace("env")
        for found in chart.watched(self.namespace):
            api.apply(_path_of(found), found)
        self.folder = folder
        self.operators: list[OperatorProcess] = []
        self.proxies: list[RecordingProxy] = []
        self.quorums: list[ApiServerQuorum] = []
        self.loads: list[Load] = []
        self.warm = warm
        """How operators begin."""
        self.refuses = False
        """The test itself lets the API server refuse calls."""

    def add_operator(
        self, *, lease: bool = False, direct: bool = False, **settings: str
    ) -> tuple[OperatorProcess, RecordingProxy]:
        """Create an operator for this namespace and its proxy, without starting it. With `lease` it works only while it
        holds the one that all such operators share, as a pod of the chart does. `direct`: it passes the proxy by."""
        proxy = self.cluster.proxy(_ACTING_AS)
        self.proxies.append(proxy)
        name = f"operator-{len(self.operators)}"
        shared = {
            "METADATAQUORUM_OPERATOR_LEASE": f"{chart.NAMESPACE}/{chart.RELEASE}",
            "METADATAQUORUM_OPERATOR_IDENTITY": name,
        }
        properties = {**_SETTINGS, **(shared if lease else {}), **settings}
        access = self._own_access() if direct else None
        # Another version loads its own code: a warm copy has the code of this one.
        warm = self.warm and "PYTHONPATH" not in properties
        operator = OperatorProcess(
            self.folder / name, proxy.port, self.namespace, properties, warm=warm, access=access
        )
        self.operators.append(operator)
        return operator, proxy

    def _own_access(self) -> str:
        where = self.cluster.kubeconfig
        return kubeconfig_of_account(self.api, where, chart.NAMESPACE, chart.RELEASE)

    def lease_holder(self) -> str:
        """Holder of the operators' lease; empty if there is none."""
        found = self.api.find(_LEASE) or {}
        return str(found.get("spec", {}).get("holderIdentity") or "")

    def document(self, name: str, replicas: int, *, disks: bool = False, **spec: object) -> Json:
        """A resource with the harness's image and storage; `disks` can fail. Without certificates unless asked for."""
        storage = {"size": "200Mi", "storageClassName": DISK_CLASS if disks else DIRECTORY_CLASS}
        return {
            "apiVersion": kube.API_VERSION,
            "kind": "MetadataQuorum",
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "image": NODE_IMAGE,
                "storage": storage,
                "tls": {"mode": "Disabled"},
                **spec,
            },
        }

    def apply(
        self, replicas: int = 3, *, name: str = "q", disks: bool = False, **spec: object
    ) -> ApiServerQuorum:
        """Creates the resource and returns at once."""
        document = self.document(name, replicas, disks=disks, **spec)
        self.api.create(kube.quorums(self.namespace), document)
        quorum = ApiServerQuorum(
            self.api, self.cluster, self.namespace, name, tls=_has_certificates(document["spec"])
        )
        self.quorums.append(quorum)
        return quorum

    def create(
        self, replicas: int = 3, *, name: str = "q", disks: bool = False, **spec: object
    ) -> ApiServerQuorum:
        """Creates the resource and waits until it serves."""
        quorum = self.apply(replicas, name=name, disks=disks, **spec)
        quorum.wait_ready(replicas, timeout_s=CREATE_TIMEOUT_S)
        return quorum

    def start_load(self, quorum: ApiServerQuorum) -> Load:
        """Start a writer and a checker on the ready pods as processes; they end with the environment."""
        labels = {"app.kubernetes.io/instance": quorum.name}
        port = self.cluster.service(self.namespace, labels, quorum.admin_port, quorum.tls_access)
        load = Load(quorum, f"http://127.0.0.1:{port}", self.folder / f"load-{len(self.loads)}")
        self.loads.append(load)
        load.start()
        return load

    def prove_nothing_lost(self, load: Load) -> Verdict:
        """Ends the workload: every acknowledged record is on every voter, no read was stale, and
        the voters changed one at a time."""
        load.wait_for_acknowledgement(timeout_s=90)
        verdict = load.verdict()
        assert verdict.problems == (), verdict.problems[:10]
        assert verdict.acknowledged > 0
        assert verdict.reads > 0
        return verdict

    def events(self, name: str) -> list[Json]:
        """Events on a resource of this namespace."""
        found = self.api.list(kube.core(self.namespace, "events"))
        return [each for each in found if each["involvedObject"]["name"] == name]

    def discard(self, quorum: ApiServerQuorum) -> None:
        """Deletes a quorum and its claims and waits until its name is free again."""
        self.api.delete(quorum.path)
        quorum.wait_gone(timeout_s=_REMOVAL_TIMEOUT_S)
        for claim in quorum.claims():
            path = kube.core(self.namespace, "persistentvolumeclaims", claim["metadata"]["name"])
            self.api.delete(path)
        wait_for(
            "its objects are gone", lambda: self._is_gone(quorum), timeout_s=_REMOVAL_TIMEOUT_S
        )
        self.quorums.remove(quorum)

    @staticmethod
    def _is_gone(quorum: ApiServerQuorum) -> bool:
        left = (quorum.stateful_sets(), quorum.claims(), quorum.identities())
        return not any(left)

    def denied(self) -> set[str]:
        """Calls of the operators that the API server refused for missing rights."""
        if self.refuses:
            return set()
        answered = [answer for proxy in self.proxies for answer in proxy.to_api]
        return {f"{call.method} {call.path}" for call, status in answered if status == 403}

    def account(self) -> str:
        """The report for a failed test."""
        parts = [quorum.summary() for quorum in self.quorums]
        for pod, log in self._logs():
            parts += [f"--- {pod}", *_tail(log, _POD_TAIL_LINES)]
        for operator in self.operators:
            parts += [f"--- {operator.log_path}", *_tail(operator.log_path, _LOG_TAIL_LINES)]
        return "\n".join(parts)

    def _logs(self) -> list[tuple[str, Path]]:
        folder = self.cluster.folder / "kubelet" / "pods" / self.namespace
        return [(path.parent.parent.name, path) for path in sorted(folder.glob("*/*/log"))]

    def remove(self) -> None:
        """Kill the operators, then delete everything that they created."""
        for load in self.loads:
            load.stop()
        for operator in self.operators:
            operator.kill()
        if self.api.find(_LEASE) is not None:
            self.api.delete(_LEASE)
        for quorum in self.api.list(kube.quorums(self.namespace)):
            self._release(quorum["metadata"]["name"])
        collections = [
            kube.reassignments(self.namespace),
            kube.quorums(self.namespace),
            kube.apps(self.namespace, "statefulsets"),
            kube.core(self.namespace, "pods"),
            kube.core(self.namespace, "persistentvolumeclaims"),
        ]
        for collection in collections:
            self.api.call("DELETE", f"{collection}", query={"gracePeriodSeconds": "0"})
        wait_for("no pod is left", self._no_pods, timeout_s=_REMOVAL_TIMEOUT_S)
        self.api.delete(f"{kube.NAMESPACES}/{self.namespace}")

    def _release(self, name: str) -> None:
        try:
            self.api.merge(kube.quorums(self.namespace, name), {"metadata": {"finalizers": None}})
        except ApiError as error:
            if error.status != 404:
                raise

    def _no_pods(self) -> bool:
        return not self.api.list(kube.core(self.namespace, "pods"))


def _has_certificates(spec: dict[str, object]) -> bool:
    requested = spec.get("tls")
    return isinstance(requested, dict) and requested.get("mode") == "Managed"


@dataclass(frozen=True, slots=True)
class SharedQuorum:
    """Three voters and their operator, shared by the tests of a file. A test leaves an equivalent state."""

    env: Env
    operator: OperatorProcess
    proxy: RecordingProxy
    quorum: ApiServerQuorum


def _tail(path: Path, lines: int) -> list[str]:
    if not path.exists():
        return ["(never started)"]
    return path.read_text(errors="replace").splitlines()[-lines:]
