"""What acts hold of a modelled cluster: the environment, the quorum and the operations of a round on kind, with a model behind them."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx

from quorum_node.api import ErrorBody
from quorum_operator.desired.names import LABEL_INSTANCE
from quorum_operator.kube.errors import ApiError as Rejected
from support.envtest.kube_api import ApiError, Json
from support.kind_env import installation, kube
from support.kind_env.forwarded import NotConnected
from support.kind_env.kube import Kube
from support.kind_env.quorum import Quorum
from support.kind_env.testbed import Disk
from support.modelled_cluster.answers import document_of
from support.modelled_cluster.cluster import ModelledCluster
from support.modelled_cluster.process import Process
from support.random_changes.operations import Operations, TargetMissing

DRAIN_S = 8.0


class AskedQuorum(Quorum):
    """Its pods are asked without a connection."""

    def __init__(self, cluster: ModelledCluster, api: Kube) -> None:
        self.api, self.namespace, self.name = api, cluster.namespace, cluster.name
        self._cluster = cluster
        self._answered = ""

    def close(self) -> None:
        """There is nothing to close."""

    def fetch_from(self, pod: str, path: str, *, timeout_s: float = 20.0) -> dict[str, Any]:
        process = self._cluster.kubelets.process_of(pod)
        if process is None or not process.serves:
            raise NotConnected(pod)
        parts = path.partition("?")[0].split("/")[2:]
        answer = self._cluster.answers.call(process, "GET", parts)
        if answer is None or isinstance(answer, ErrorBody):
            raise NotConnected(f"{pod}{path}")
        return document_of(answer)


class ModelledDisks:
    """The disks that can fail, by slot. `folder`: has a folder for each, with what acts look for there."""

    def __init__(self, cluster: ModelledCluster, folder: Path) -> None:
        self._volumes, self._folder = cluster.volumes, folder

    def all(self) -> list[Disk]:
        return [Disk(worker, slot) for worker in (1, 2, 3) for slot in range(7)]

    def fail(self, disk: Disk) -> None:
        self._of(disk).failed = True

    def heal(self, disk: Disk) -> None:
        self._of(disk).failed = False

    def fill(self, disk: Disk) -> None:
        (self.mount_point(disk) / ".filler").touch()
        self._of(disk).full = True

    def empty(self, disk: Disk) -> None:
        (self.mount_point(disk) / ".filler").unlink(missing_ok=True)
        self._of(disk).full = False

    def mount_point(self, disk: Disk) -> Path:
        place = self._folder / str(disk)
        place.mkdir(exist_ok=True)
        (place / "0.log").write_bytes(b"0" * 4096)
        return place

    def _of(self, disk: Disk) -> Any:
        return self._volumes.named(disk.volume_name)


class Faults:
    """Signals to processes in pods."""

    def __init__(self, cluster: ModelledCluster) -> None:
        self._cluster = cluster

    def kill_9(self, pod: str) -> None:
        if not self._cluster.kubelets.kill(pod, self._cluster.now()):
            raise TargetMissing(f"no process in {pod}")

    def freeze(self, pod: str) -> None:
        self._process(pod).frozen = True

    def thaw(self, pod: str) -> None:
        self._process(pod).frozen = False

    def _process(self, pod: str) -> Process:
        found = self._cluster.kubelets.process_of(pod)
        if found is None:
            raise TargetMissing(f"no process in {pod}")
        return found


class ModelledEnv:
    """The part of `KindEnv` that acts use."""

    def __init__(self, cluster: ModelledCluster, folder: Path) -> None:
        self._modelled = cluster
        self.namespace = cluster.namespace
        self.disks = ModelledDisks(cluster, folder)
        self.api = cluster.act_calls()
        self.the_quorum = AskedQuorum(cluster, self.api)
        self.faults = Faults(cluster)
        self.the_load = SimpleNamespace(url="", authorities="")
        volumes = SimpleNamespace(disks=self.disks)
        self.cluster = SimpleNamespace(
            api=self.api, name="modelled", kubeconfig=Path("none"), volumes=volumes
        )

    def kill_operator(self) -> None:
        self.signal_operator("SIGKILL")

    def signal_operator(self, signal: str) -> None:
        operator = self._modelled.operator
        assert operator is not None
        {"SIGKILL": operator.kill, "SIGSTOP": operator.freeze, "SIGCONT": operator.thaw}[signal]()

    def await_api_server(self) -> None:
        away_s = self._modelled.server.away_until - self._modelled.loop.time()
        if away_s > 0:
            self._modelled.sleep(away_s)


class ModelledOperations(Operations):
    """`kubectl` and requests to the leader, without programs and connections."""

    def __init__(self, cluster: ModelledCluster, env: ModelledEnv, spec: Json) -> None:
        self._cluster = cluster
        unchecked: Any = env
        super().__init__(unchecked, spec)

    def admin(self, method: str, path: str, body: Json | None = None) -> str:
        leader = self._cluster.leader()
        if leader is None:
            raise TargetMissing("nobody leads")
        if leader.token != self.token():
            raise TargetMissing("the leader does not know the token yet")
        content = json.dumps(body or {}).encode()
        answer = self._cluster.answers.call(
            leader, method, path.split("/")[2:], content, httpx.QueryParams()
        )
        return str(answer)

    def await_restart(self) -> None:
        self.env.await_api_server()

    def kubectl(self, *words: str, timeout_s: float = 60.0) -> str:
        try:
            return self._kubectl(*words)
        except (ApiError, Rejected) as error:
            return str(error)

    def _kubectl(self, *words: str) -> str:
        match [
            each
            for each in words
            if each not in ("-n", self.namespace, installation.OPERATOR_NAMESPACE)
        ]:
            case ["delete", "statefulset", name, "--cascade=orphan"]:
                self._cluster.store.delete(
                    kube.apps(self.namespace, "statefulsets", name), orphan=True
                )
            case ["delete", "metadataquorum", _, "--cascade=orphan"]:
                self._cluster.store.delete(self.quorum.path, orphan=True)
            case ["delete", "all", "-l", selector, _]:
                return self._delete_all(("services", "pods", "statefulsets"), selector)
            case ["delete", "configmaps,secrets", "-l", selector, _]:
                return self._delete_all(("configmaps", "secrets"), selector)
            case ["rollout", "restart", what]:
                self._restart(what)
            case ["cordon", host]:
                self.api.merge(f"{kube.NODES}/{host}", {"spec": {"unschedulable": True}})
            case ["uncordon", host]:
                self.api.merge(f"{kube.NODES}/{host}", {"spec": {"unschedulable": None}})
            case ["drain", host, *_]:
                self._drain(host)
            case ["taint", "node", host, taint, *_]:
                self._taint(host, taint)
            case ["scale", "metadataquorum", _, replicas]:
                self.quorum.scale(int(replicas.partition("=")[2]))
            case ["exec", pod, "--", "quorumctl", "alter", "--cancel", *_]:
                process = self._cluster.kubelets.process_of(pod)
                if process is not None:
                    self._cluster.answers.call(process, "DELETE", ["alter-quorum"])
            case _:
                raise AssertionError(f"kubectl {words}")
        return "done"

    def _delete_all(self, plurals: tuple[str, ...], selector: str) -> str:
        assert LABEL_INSTANCE in selector
        gone = []
        for plural in plurals:
            group = kube.apps if plural == "statefulsets" else kube.core
            for each in self.api.list(group(self.namespace, plural), selector):
                self.api.delete(group(self.namespace, plural, each["metadata"]["name"]))
                gone.append(each["metadata"]["name"])
        return "\n".join(gone)

    def _restart(self, what: str) -> None:
        kind, _, name = what.partition("/")
        if kind == "deployment":
            self.env.kill_operator()
            return
        note = {"kubectl.kubernetes.io/restartedAt": str(self._cluster.now())}
        template = {"metadata": {"annotations": note}}
        path = kube.apps(self.namespace, "statefulsets", name)
        self.api.merge(path, {"spec": {"template": template}})

    def _drain(self, host: str) -> None:
        self.api.merge(f"{kube.NODES}/{host}", {"spec": {"unschedulable": True}})
        deadline = self._cluster.now() + DRAIN_S
        while self._cluster.now() < deadline:
            here = [each for each in self.pods() if each["spec"].get("nodeName") == host]
            here = [each for each in here if "deletionTimestamp" not in each["metadata"]]
            if not here:
                return
            for each in here:
                try:
                    path = self.core("pods", each["metadata"]["name"])
                    self.api.create(f"{path}/eviction", {})
                except ApiError:
                    continue  # kubectl tries it again, whatever was answered.
            self._cluster.sleep(1.0)

    def _taint(self, host: str, taint: str) -> None:
        path = f"{kube.NODES}/{host}"
        found = re.fullmatch(r"([^=]+)=(\w+):(\w+)", taint)
        made = [] if found is None else [{"key": found[1], "value": found[2], "effect": found[3]}]
        self.api.merge(path, {"spec": {"taints": made or None}})
