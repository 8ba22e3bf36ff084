"""The environment of one end-to-end test: namespace, disks, quorum, workload, faults and checks."""

from collections.abc import Callable
from pathlib import Path

from support.envtest.kube_api import Json
from support.kind_env import installation, kube
from support.kind_env.faults import FailedDisk, Faults
from support.kind_env.load import Load
from support.kind_env.operator_cluster import OperatorCluster, remove_quorum
from support.kind_env.quorum import NO_ANSWER, Described, Quorum, Voter
from support.kind_env.testbed import STORAGE_CLASS, nodes
from support.kind_env.waiting import wait_for
from support.workload.evaluation import Verdict

SLOTS_PER_WORKER = 4
CREATE_TIMEOUT_S = 300.0
MOVE_TIMEOUT_S = 300.0
API_SERVER_TIMEOUT_S = 180.0
_FIRST_NODE_PORT = 30001
_NODE_PORTS = 20
_NAME = "q"


class KindEnv:
    """`number` chooses the NodePort, so that consecutive tests don't share one."""

    def __init__(
        self, cluster: OperatorCluster, namespace: str, *, number: int, folder: Path
    ) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.folder = folder
        self.quorum: Quorum | None = None
        self.load: Load | None = None
        self._node_port = _FIRST_NODE_PORT + number % _NODE_PORTS

    def prepare(self, slots: int = SLOTS_PER_WORKER) -> None:
        """Create the namespace; removes one from an interrupted run first."""
        self.await_api_server()
        self._remove_namespace()
        self._await_no_namespace()
        self.cluster.provide_disks(slots)
        namespace: Json = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": self.namespace},
        }
        self.cluster.api.create(kube.NAMESPACES, namespace)

    def remove(self) -> None:
        """Remove everything. The deletion of the namespace may take some more seconds; its name is unique."""
        if self.load is not None:
            self.load.stop()
        if self.quorum is not None:
            self.quorum.close()
        self.await_api_server()
        self._remove_namespace()

    def await_api_server(self) -> None:
        """Wait for the API server, which the test may have killed."""
        wait_for(
            "the API server to answer", self._api_server_answers, timeout_s=API_SERVER_TIMEOUT_S
        )

    def _api_server_answers(self) -> bool:
        try:
            self.cluster.api.get(f"{kube.NAMESPACES}/default")
        except NO_ANSWER:
            return False
        return True

    def _remove_namespace(self) -> None:
        path = f"{kube.NAMESPACES}/{self.namespace}"
        if self.cluster.api.find(path) is None:
            return
        remove_quorum(self.cluster, self.namespace, _NAME)
        self.cluster.api.delete(path)

    def _await_no_namespace(self) -> None:
        path = f"{kube.NAMESPACES}/{self.namespace}"
        wait_for(
            f"namespace {self.namespace} to be gone",
            lambda: self.cluster.api.find(path) is None,
            timeout_s=90,
            seen=lambda: self.cluster.api.find(path),
        )

    @property
    def the_quorum(self) -> Quorum:
        assert self.quorum is not None, "no quorum was created"
        return self.quorum

    @property
    def the_load(self) -> Load:
        assert self.load is not None, "no workload was started"
        return self.load

    @property
    def faults(self) -> Faults:
        return Faults(self.the_quorum, self.cluster.name, self.cluster.kubeconfig)

    def document(self, **spec: object) -> Json:
        """A resource like the example's, with other fields where given."""
        document = installation.example()
        document["metadata"] = {"name": _NAME}
        document["spec"] = {**document["spec"], **spec}
        return document

    def apply(self, **spec: object) -> Quorum:
        """Applies the resource and returns at once."""
        if self.quorum is not None:
            self.quorum.close()
        self.quorum = installation.apply_quorum(
            self.cluster.api, self.document(**spec), self.namespace
        )
        return self.quorum

    def create(self, replicas: int = 3, **spec: object) -> Quorum:
        """Applies the resource and waits until it serves."""
        quorum = self.apply(replicas=replicas, **spec)
        quorum.wait_healthy(replicas, timeout_s=CREATE_TIMEOUT_S)
        quorum.wait_phase("Ready", timeout_s=60)
        return quorum

    def start_load(self) -> Load:
        host_port = self.cluster.host_port(self._node_port)
        url = installation.publish(self.the_quorum, self._node_port, host_port)
        self.load = Load(self.the_quorum, url, self.folder / "load")
        self.load.start()
        return self.load

    def create_under_load(self, replicas: int = 3, **spec: object) -> Quorum:
        quorum = self.create(replicas, **spec)
        self.start_load()
        return quorum

    def prove_nothing_lost(
        self, *, at_least: int = 20, recoveries: int = 0, alters: bool = False
    ) -> Verdict:
        """Ends the workload; every acknowledged record is on every voter, no read was stale, and
        the voters changed one at a time, but for recoveries that a person has confirmed. `alters`: by AlterQuorum, too."""
        self.the_load.wait_for_acknowledgement(timeout_s=30)
        self.the_load.wait_for_amount(at_least, timeout_s=60)
        verdict = self.the_load.verdict(recoveries=recoveries, alters=alters)
        assert verdict.problems == (), verdict.problems[:10]
        assert verdict.acknowledged >= at_least
        assert verdict.reads >= at_least
        return verdict

    def voter(self, *, leader: bool, described: Described | None = None) -> Voter:
        """The leader, or a voter that is not the leader."""
        now = described or wait_for("a description", self.the_quorum.describe, timeout_s=30)
        return next(v for v in now.voters if (v.id == now.leader_id) == leader)

    def fail_disk(self, voter: Voter) -> FailedDisk:
        return self.faults.fail_disk(voter.id, voter.uuid)

    def wait_replaced(
        self, failed: FailedDisk, wanted: int, *, timeout_s: float = MOVE_TIMEOUT_S
    ) -> Described:
        """Wait until the desired number of voters is healthy without the failed replica."""
        gone = (failed.node_id, failed.uuid)
        return self.the_quorum.wait_healthy(
            wanted,
            timeout_s=timeout_s,
            also=lambda now: gone not in now.keys,
            what=f"a successor of node {failed.node_id} {failed.uuid}",
        )

    def kill_operator(self) -> None:
        """SIGKILL to the operator's process."""
        self.signal_operator("SIGKILL")

    def signal_operator(self, signal: str) -> None:
        """Send a signal to the operator's processes."""
        for pod in installation.operator_pods(self.cluster.api):
            target = nodes.running_container(
                self.cluster.kubeconfig, installation.OPERATOR_NAMESPACE, pod["metadata"]["name"]
            )
            nodes.signal_container(target, signal)

    def wait_until(self, what: str, probe: Callable[[], bool], *, timeout_s: float) -> None:
        wait_for(what, probe, timeout_s=timeout_s, seen=self.summary)

    def claims_by_uid(self) -> dict[str, str]:
        """Names of the claims by UID: equal dictionaries mean that no claim was deleted or recreated."""
        return {c["metadata"]["uid"]: c["metadata"]["name"] for c in self.the_quorum.claims()}

    def incarnations(self) -> set[str]:
        return {found["metadata"]["name"] for found in self.the_quorum.stateful_sets()}

    def summary(self) -> str:
        try:
            return self.the_quorum.summary() if self.quorum else "no quorum yet"
        except NO_ANSWER as error:
            return repr(error)


__all__ = ["STORAGE_CLASS", "KindEnv"]
