"""A modelled cluster in virtual time: its parts, the time between them, and samples of the live voters.

Everything advances in steps of `STEP_S`, in the event loop that the operator runs in. Acts run outside of the loop; when they wait,
the loop runs.
"""

import asyncio
import random

from quorum_operator.desired.names import Owner
from support.kind_env import kube
from support.modelled_cluster.admission import Admission
from support.modelled_cluster.answers import Answers
from support.modelled_cluster.calls import ActCalls, ServerState
from support.modelled_cluster.controllers import Collector, StatefulSets
from support.modelled_cluster.hosts import Hosts
from support.modelled_cluster.kubelet import Kubelets
from support.modelled_cluster.operators import OperatorProcess
from support.modelled_cluster.process import Process
from support.modelled_cluster.raft import Key, ModelledQuorum
from support.modelled_cluster.scheduling import Scheduler
from support.modelled_cluster.store import Store
from support.modelled_cluster.volumes import Volumes
from support.random_changes.harm import Sample
from support.virtual_time import VirtualTimeLoop

STEP_S = 0.25
BEGAN_AT = 1_800_000_000.0
WORKERS = 3
SLOTS = 7
COLLECT_AFTER_S = (0.2, 0.7, 2.0)
API_SERVER_AWAY_S = 4.0


class ModelledCluster:
    """Three workers, one quorum of this name in this namespace. Nothing happens before `begin`."""

    def __init__(self, seed: int, namespace: str, name: str) -> None:
        self.rng = random.Random(f"modelled cluster {seed}")
        self.loop = VirtualTimeLoop()
        asyncio.set_event_loop(self.loop)
        self.namespace, self.name = namespace, name
        self.owner = Owner(name, namespace, "", "")
        self.server = ServerState()
        self.store = Store(self.now, self._changed)
        self.operator: OperatorProcess | None = None
        space = f"{kube.NAMESPACES}/{namespace}"
        self.store.create(kube.NAMESPACES, {"metadata": {"name": namespace}})
        for plural, each in (("configmaps", "kube-root-ca.crt"), ("serviceaccounts", "default")):
            self.store.create(f"{space}/{plural}", {"metadata": {"name": each}})
        self.hosts = Hosts(self.store, WORKERS, self.now())
        self.volumes = Volumes(self.store, namespace, self.hosts, SLOTS)
        Admission(self.store, space)
        self._sets, self._collector = (
            StatefulSets(self.store, namespace),
            Collector(self.store, self.rng.choice(COLLECT_AFTER_S)),
        )
        self.scheduler = Scheduler(self.store, namespace, self.hosts, self.volumes)
        self.quorums: dict[str, ModelledQuorum] = {}
        self.kubelets = Kubelets(
            self.store, self.owner, self.hosts, self.volumes, self._quorum_of, self.rng
        )
        self.controllers_frozen = False
        self.samples: list[Sample] = []
        self.errors: list[BaseException] = []
        self._placed: dict[Key, tuple[str, str, Process]] = {}
        self._trusting: dict[tuple[int, int], tuple[bool, object]] = {}

    # ---- Time

    def now(self) -> float:
        """Seconds since 1970."""
        return BEGAN_AT + self.loop.time()

    def sleep(self, seconds: float) -> None:
        """Let the cluster and the operator work for that long."""
        self.loop.run_until_complete(asyncio.sleep(max(seconds, 0.0)))
        if self.errors:
            raise self.errors[0]

    def begin(self) -> None:
        place = self.namespace, self.name
        self.operator = OperatorProcess(self.store, self.server, place, self.now, self.loop)
        self.answers = Answers(self._reached, self.now, self.operator.gate)
        self.operator.serve = self.answers.serve
        self._ticking = self.loop.create_task(self._tick())

    def end(self) -> None:
        assert self.operator is not None
        self._ticking.cancel()
        self.operator.kill()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()
        asyncio.set_event_loop(None)

    async def _tick(self) -> None:
        try:
            while True:
                self._step(self.now())
                await asyncio.sleep(STEP_S)
        except Exception as error:
            self.errors.append(error)

    def _step(self, now: float) -> None:
        assert self.operator is not None
        away = self.server.frozen or self.loop.time() < self.server.away_until
        self.hosts.step(now)
        if not (away or self.controllers_frozen):
            self._sets.step(now)
            self._collector.step(now)
            self.volumes.step()
            self.scheduler.evict_tainted()
            self.scheduler.step(now)
        self.kubelets.step(now)
        self._place_processes()
        for each in self.quorums.values():
            each.step(now)
        if not away:
            self.operator.step(now)
        self._sample(now)

    def _changed(self, path: str) -> None:
        if self.operator is not None:
            self.operator.changed(path)

    # ---- Who reaches whom

    def _quorum_of(self, cluster_id: str) -> ModelledQuorum:
        if cluster_id not in self.quorums:
            self.quorums[cluster_id] = ModelledQuorum(
                cluster_id, 1, self._link, lambda: self._sample(self.now())
            )
        return self.quorums[cluster_id]

    def _place_processes(self) -> None:
        self._placed = {
            Key(*process.key): (pod["spec"]["nodeName"], runtime.address, process)
            for pod, runtime, process in self.kubelets.running()
        }

    def _link(self, one: Key, other: Key) -> bool:
        ends = self._placed.get(one), self._placed.get(other)
        if ends[0] is None or ends[1] is None:
            return False
        (host, address, process), (its_host, its_address, its_process) = ends[0], ends[1]
        links = self.hosts.links
        if not (self._is_up(host, process) and self._is_up(its_host, its_process)):
            return False
        if host == its_host:
            cut = address in links.pods.get(host, ()) or its_address in links.pods.get(host, ())
        else:
            cut = links.is_cut_off(host, address) or links.is_cut_off(its_host, its_address)
        if cut or links.are_apart(address, its_address):
            return False
        return self._trust_each_other(process, its_process)

    def _trust_each_other(self, one: Process, other: Process) -> bool:
        place = id(one.loaded), id(other.loaded)
        if place not in self._trusting:
            # The objects are kept, so that their ids stay theirs.
            trusting = one.trusts(other) and other.trusts(one)
            self._trusting[place] = trusting, (one.loaded, other.loaded)
        return self._trusting[place][0]

    def _is_up(self, host: str, process: Process) -> bool:
        return self.hosts.by_name[host].runs and process.serves

    def _reached(self, address: str) -> Process | None:
        """The process that the operator reaches at an address."""
        for pod, runtime, process in self.kubelets.running():
            host = pod["spec"]["nodeName"]
            if runtime.address == address and self.hosts.by_name[host].runs:
                return None if self.hosts.links.is_cut_off(host, address) else process
        return None

    def leader(self) -> Process | None:
        """The process that leads with a majority."""
        for each in self.quorums.values():
            if each.leader is not None and each.has_majority():
                placed = self._placed.get(each.leader)
                if placed is not None and self._is_up(*placed[::2]):
                    return placed[2]
        return None

    def _sample(self, now: float) -> None:
        """Also at each change of the voters: a stop that follows at once is judged by the new ones."""
        process = self.leader()
        quorum = process.quorum if process is not None else self._newest_quorum()
        if quorum is None:
            return
        live = {
            self._placed[key][2].pod["metadata"]["name"].removesuffix("-0")
            for key in quorum.voters
            if key in self._placed and self._is_live(key, quorum, led=process is not None)
        }
        self.samples.append(Sample(now, len(quorum.voters), frozenset(live)))

    def _is_live(self, key: Key, quorum: ModelledQuorum, *, led: bool) -> bool:
        """Without a leader: whether its process could vote for one."""
        if led:
            return key in quorum.contact() and quorum.has_caught_up(key)
        return self._is_up(*self._placed[key][::2])

    def _newest_quorum(self) -> ModelledQuorum | None:
        found = [each for each in self.quorums.values() if each.voters]
        return max(found, key=lambda each: each.committed, default=None)

    # ---- What acts do to all of it

    def act_calls(self) -> ActCalls:
        return ActCalls(self.store, self.server, self.loop.time, self.scheduler.evict)

    def kill_api_server(self) -> None:
        self.server.away_until = self.loop.time() + API_SERVER_AWAY_S
