"""The demo's script: set up, hurt, watch it heal, verify. One method a step."""

from collections.abc import Callable
from pathlib import Path

from demo.report import Report
from support.kind_env import installation, operator_cluster, tls_facts
from support.kind_env.faults import Faults
from support.kind_env.load import Load
from support.kind_env.operator_cluster import OperatorCluster
from support.kind_env.quorum import Described, Quorum
from support.kind_env.timeline import Step, Timeline

NAMESPACE = "default"
NODE_PORT = 30000
_SLOTS_PER_WORKER = 4
_CREATE_TIMEOUT_S = 180.0
_MOVE_TIMEOUT_S = 180.0


class Demo:
    """Holds what is up so far, so that a failure can be explained from it."""

    def __init__(self, timeline: Timeline, folder: Path) -> None:
        self.folder = folder
        self.cluster: OperatorCluster | None = None
        self.quorum: Quorum | None = None
        self._timeline = timeline
        self._load: Load | None = None

    def close(self) -> None:
        if self._load is not None:
            self._load.stop()
        if self.quorum is not None:
            self.quorum.close()

    def run(self) -> Report:
        ready = self._set_up()
        quorum = self._create(ready)
        load = self._start_load(ready, quorum)
        faults = Faults(quorum, ready.name, ready.kubeconfig)
        hurt_from = len(self._timeline.steps)
        self._scale(quorum, 5)
        self._kill_leader(quorum, faults)
        self._fail_disk(quorum, faults, of_leader=False)
        self._fail_disk(quorum, faults, of_leader=True)
        self._scale(quorum, 3)
        hurting = self._timeline.steps[hurt_from:]
        with self._timeline.step(
            "ask each member about TLS", "a certificate, and no admin API in clear text"
        ) as step:
            secured = tls_facts.look(quorum)
            step.note = secured.text
        with self._timeline.step(
            "re-read every acknowledged record", "the whole log of each replica, from its own pod"
        ) as step:
            verdict = load.verdict()
            step.note = f"{verdict.acknowledged} records, {verdict.reads} linearizable reads"
        return Report(self._timeline.steps, hurting, load.events(), verdict, secured)

    def _set_up(self) -> OperatorCluster:
        say = self._timeline
        with say.step("cluster", "kind with three workers; the first time its parts are built"):
            self.cluster = ready = operator_cluster.bring_up()
        with say.step("images", "the node's and the operator's image, then onto the workers"):
            _, operator_image = operator_cluster.load_images(ready)
        with say.step("operator", "Helm, until its pod is ready"):
            operator_cluster.install_operator(ready, operator_image)
        with say.step("disks", "an XFS filesystem on a loop device each"):
            operator_cluster.remove_quorum(
                ready, NAMESPACE, installation.example()["metadata"]["name"]
            )
            ready.provide_disks(_SLOTS_PER_WORKER)
        return ready

    def _create(self, ready: OperatorCluster) -> Quorum:
        document = installation.example()
        wanted = document["spec"]["replicas"]
        with self._timeline.step(
            "kubectl apply -f examples/quorum.yaml", f"{wanted} voters that keep up, phase Ready"
        ) as step:
            self.quorum = quorum = installation.apply_quorum(ready.api, document, NAMESPACE)
            self._await_healthy(step, quorum, wanted, timeout_s=_CREATE_TIMEOUT_S)
        return quorum

    def _start_load(self, ready: OperatorCluster, quorum: Quorum) -> Load:
        with self._timeline.step(
            "start writer and checker", "the first acknowledged record, through a NodePort"
        ):
            url = installation.publish(quorum, NODE_PORT, ready.host_port(NODE_PORT))
            self._load = load = Load(quorum, url, self.folder)
            load.start()
        return load

    def _scale(self, quorum: Quorum, replicas: int) -> None:
        with self._timeline.step(
            f"kubectl scale mq/demo --replicas={replicas}", f"{replicas} voters, one move at a time"
        ) as step:
            quorum.scale(replicas)
            self._await_healthy(step, quorum, replicas)

    def _kill_leader(self, quorum: Quorum, faults: Faults) -> None:
        before = quorum.wait_healthy(5, timeout_s=60)
        pod = quorum.pod_of(before.leader_id, before.leader_uuid)
        with self._timeline.step(
            f"kill -9 the leader ({pod})", "a new leader, and the old one back as a follower"
        ) as step:
            faults.kill_9(pod)
            self._await_healthy(
                step, quorum, 5, also=lambda now: now.leader_epoch > before.leader_epoch
            )

    def _fail_disk(self, quorum: Quorum, faults: Faults, *, of_leader: bool) -> None:
        before = quorum.wait_healthy(5, timeout_s=60)
        victim = next(v for v in before.voters if (v.id == before.leader_id) == of_leader)
        who = "leader" if of_leader else "follower"
        with self._timeline.step(
            f"shut down the filesystem under a {who} (node {victim.id})",
            "a successor on another disk, made voter without being asked",
        ) as step:
            faults.fail_disk(victim.id, victim.uuid)
            gone = (victim.id, victim.uuid)
            self._await_healthy(step, quorum, 5, also=lambda now: gone not in now.keys)

    def _await_healthy(
        self,
        step: Step,
        quorum: Quorum,
        wanted: int,
        *,
        timeout_s: float = _MOVE_TIMEOUT_S,
        also: Callable[[Described], bool] = lambda now: True,
    ) -> None:
        """Waits until a majority confirms the voters, then until the status reports the same."""
        step.watch = quorum.plan
        quorum.wait_healthy(wanted, timeout_s=timeout_s, also=also)
        step.mark_healthy()
        quorum.wait_phase("Ready", timeout_s=60)
