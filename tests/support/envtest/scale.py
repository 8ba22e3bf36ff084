"""Many quorums of simulated nodes on one operator: its cost when idle, and the duration of repairs.

Owns the measurements. The API server is real, and its calls pass through the recording proxy. Simulated nodes count
their calls.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from uuid import uuid4

import httpx

from quorum_node.records.identity import uuid_text
from quorum_operator.crd import KIND, MetadataQuorumSpec
from quorum_operator.desired import base_objects, identity, names, stateful_set, token_secret
from quorum_operator.desired.names import Owner
from quorum_operator.desired.stateful_set import Member
from quorum_operator.kube.facts import identity_facts
from quorum_operator.planner.observed import Identity
from support.envtest.environment import SIMULATED_NODE_IMAGE, Env
from support.envtest.http_proxy import Call, RecordingProxy
from support.envtest.kube_api import Json
from support.envtest.operator_figures import MetricSums, cpu_s, metrics_at, rss_mib
from support.envtest.operator_process import OperatorProcess
from support.envtest.simulated_nodes import SimulatedNodes
from support.envtest.simulated_quorum import Key, SimulatedQuorum
from support.envtest.volumes import DIRECTORY_CLASS
from support.kind_env import kube
from support.kind_env.waiting import wait_for
from support.ports import free_ports

_AT_ONCE = 10
"""Quorums that are made side by side."""
_DIRECT = {"HTTP_PROXY": "", "http_proxy": ""}
_SETTLE_S = 20.0
_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class IdleInterval:
    """Calls during one interval."""

    seconds: float
    api: Counter[str]
    """By verb: a list is a GET of a collection."""
    nodes: Counter[str]
    rss_mib: float

    @property
    def api_per_s(self) -> float:
        return self.api.total() / self.seconds

    def beside(self, rest: "IdleInterval") -> float:
        """Calls to the API server in addition to those of an idle operator."""
        return self.api.total() - rest.api_per_s * self.seconds

    @property
    def nodes_per_s(self) -> float:
        return self.nodes.total() / self.seconds


class Fleet:
    """`quorums` resources of `members` each, on one operator that is a pod of the chart in all but its image."""

    def __init__(
        self, env: Env, simulated_nodes: SimulatedNodes, quorums: int, members: int = 5
    ) -> None:
        self._env, self._simulated_nodes, self._members = env, simulated_nodes, members
        self.names = [f"q{number}" for number in range(quorums)]
        self._lone = 0
        self.operator, self.proxy = self._operator()

    def _operator(self, *, direct: bool = False) -> tuple[OperatorProcess, RecordingProxy]:
        (self._port,) = free_ports(1)
        settings = {
            "METADATAQUORUM_OPERATOR_RESYNC_SECONDS": "10",
            "METADATAQUORUM_OPERATOR_LISTEN": f"127.0.0.1:{self._port}",
        }
        self._env.warm = False  # a forked copy would share the memory of its parent
        return self._env.add_operator(lease=True, direct=direct, **settings, **_DIRECT)

    def pass_proxy_by(self, *, timeout_s: float) -> None:
        """Use another operator without the proxy, whose time would be measured too."""
        self.operator.stop()
        self.operator, _ = self._operator(direct=True)
        self.operator.start()
        wait_for("it has looked at all", self._has_reconciled, timeout_s=timeout_s)
        time.sleep(_SETTLE_S)

    def _has_reconciled(self) -> bool:
        try:
            return self.told().of("reconcile_duration_seconds_count") >= len(self.names)
        except httpx.HTTPError:
            return False

    def told(self) -> MetricSums:
        """The operator's metrics."""
        return metrics_at(self._port)

    def create(self, *, timeout_s: float) -> None:
        """Create them as an operator would leave them, start the operator and wait until it has observed all of them.

        The operator could create them too, one step at a time, but that would take most of the time.
        """
        self._env.cluster.call_within(self._make_all(), timeout_s)
        wait_for(
            "all stand-ins run",
            lambda: all(self.quorum(name).is_whole() for name in self.names),
            timeout_s=timeout_s,
        )
        self.operator.start()
        wait_for(
            "nothing is left to do",
            self.idle_interval,
            timeout_s=timeout_s,
            seen=self._active_quorums,
        )

    async def _make_all(self) -> None:
        turns = asyncio.Semaphore(_AT_ONCE)

        async def make(name: str) -> None:
            async with turns:
                await self._make(name)

        await asyncio.gather(*(make(name) for name in self.names))

    def _spec(self) -> Json:
        return {
            "replicas": self._members,
            "image": SIMULATED_NODE_IMAGE,
            "storage": {"size": "1Gi", "storageClassName": DIRECTORY_CLASS},
        }

    async def _make(self, name: str) -> None:
        api, space = self._env.cluster.api, self._env.namespace
        wanted = self._spec()
        resource = {
            "apiVersion": kube.API_VERSION,
            "kind": KIND,
            "metadata": {"name": name},
            "spec": wanted,
        }
        made = await api.create(kube.quorums(space), resource)
        owner = Owner(name, space, made["metadata"]["uid"])
        spec = MetadataQuorumSpec.model_validate(wanted)
        keys = [Key(number, uuid_text(uuid4())) for number in range(1, self._members + 1)]
        born = identity.build(
            owner,
            index=1,
            cluster_id=uuid_text(uuid4()),
            founder_id=1,
            founder_uuid=keys[0].uuid,
            initial_voters=self._members,
        )
        born["metadata"]["annotations"] = {names.ANNOTATION_FORMED: "true"}
        await api.create(kube.core(space, "configmaps"), born)
        for each in base_objects.build_all(owner, spec):
            await api.create(base_objects.path_of(each).rpartition("/")[0], each)
        await api.create(kube.core(space, "secrets"), token_secret.build(owner, "token"))
        facts = identity_facts({**born, "metadata": {**born["metadata"], "resourceVersion": ""}}, 1)
        assert facts is not None
        self._simulated_nodes.quorums[space, name] = SimulatedQuorum(
            facts.cluster_id, self._members, list(keys), formed=True
        )
        for key in keys:
            member = Member(key.id, 1, facts, founder=key.id == 1)
            body = stateful_set.build(owner, spec, member)
            body["metadata"]["annotations"][names.ANNOTATION_UUID] = key.uuid
            claim = owner.claim(owner.member(key.id, 1))
            assert self._simulated_nodes.uuid_of(f"{space}/{claim}", key.uuid) == key.uuid
            await api.create(kube.apps(space, "statefulsets"), body)

    def quorum(self, name: str) -> SimulatedQuorum:
        return self._simulated_nodes.quorums[self._env.namespace, name]

    def _active_quorums(self) -> list[object]:
        found = self._env.api.list(kube.quorums(self._env.namespace))
        plans = [each.get("status", {}).get("plan") or {} for each in found]
        return [plan for plan in plans if plan.get("step") != "Nothing"]

    def idle_interval(self) -> bool:
        """Whether no status has a pending step."""
        return not self._active_quorums()

    def rest(self, seconds: float) -> IdleInterval:
        """Count the calls of an idle operator."""
        time.sleep(_SETTLE_S)  # waits until the last changes have reached the watches
        return self._calls_during(lambda: time.sleep(seconds))

    def calls_of_repair(self, name: str, *, timeout_s: float) -> IdleInterval:
        """Count the calls from the failure of a disk until no step is pending."""

        def repair() -> None:
            self.repair([name], timeout_s=timeout_s)
            wait_for("nothing is left to do", self.idle_interval, timeout_s=timeout_s)

        return self._calls_during(repair)

    def _calls_during(self, work: Callable[[], None]) -> IdleInterval:
        calls, nodes = len(self.proxy.to_api), Counter(self._simulated_nodes.calls)
        begun = time.monotonic()
        work()
        took = time.monotonic() - begun
        made = [call for call, _ in self.proxy.to_api[calls:]]
        api = Counter(verb(call) for call in made)
        return IdleInterval(took, api, Counter(self._simulated_nodes.calls) - nodes, self.rss_mib())

    def rss_mib(self) -> float:
        """Memory of the operator's process."""
        return rss_mib(self.operator.process_id)

    def cpu_s(self) -> float:
        """CPU that the operator's process has used."""
        return cpu_s(self.operator.process_id)

    def newcomers(self, names: list[str], *, timeout_s: float) -> list[float]:
        """What Kubernetes takes by itself: seconds until the pod of a new StatefulSet with a new claim runs, ascending.
        One for each of these at once; the operator has no part in it. They are gone when this ends."""
        self._lone += 1  # an existing claim would avoid most of the work
        names = [f"lone{self._lone}-{name}" for name in names]
        made = [Owner(name, self._env.namespace, "") for name in names]
        began = time.monotonic()
        took: dict[str, float] = {}

        def run() -> bool:
            for owner in made:
                quorum = self._simulated_nodes.quorums.get((owner.namespace, owner.name))
                if owner.name not in took and quorum is not None and quorum.alive:
                    took[owner.name] = time.monotonic() - began
            return len(took) == len(made)

        bodies = [self._lone_set(owner) for owner in made]
        self._env.cluster.call_within(self._create_sets(bodies), timeout_s)
        wait_for(
            "all newcomers run",
            run,
            timeout_s=timeout_s,
            seen=lambda: sorted(took),
            poll_s=_POLL_S,
        )
        for body in bodies:
            self._env.api.delete(
                kube.apps(self._env.namespace, "statefulsets", body["metadata"]["name"])
            )
        for owner in made:
            wait_for("it is gone", partial(self._is_silent, owner), timeout_s=timeout_s)
        return sorted(took.values())

    def _is_silent(self, owner: Owner) -> bool:
        return not self._simulated_nodes.quorums[owner.namespace, owner.name].alive

    async def _create_sets(self, bodies: list[Json]) -> None:
        path = kube.apps(self._env.namespace, "statefulsets")
        await asyncio.gather(*(self._env.cluster.api.create(path, body) for body in bodies))

    def _lone_set(self, owner: Owner) -> Json:
        """The claim of a member, without an owner: the operator must not delete it."""
        spec = MetadataQuorumSpec.model_validate(self._spec())
        founding = Identity(1, uuid_text(uuid4()), 1, uuid_text(uuid4()), 1, formed=True)
        body = stateful_set.build(owner, spec, Member(1, 1, founding, founder=True))
        del body["metadata"]["ownerReferences"]
        return body

    def repair(self, names: list[str], *, timeout_s: float) -> list[float]:
        """A disk in each of these fails at the same time; returns the seconds until each has all its voters again, ascending."""
        lost: dict[str, Key] = {}
        for name in names:
            pod = self._pod_of(name)
            fail = partial(self._simulated_nodes.fail_disk, self._env.namespace, pod)
            lost[name] = self._env.cluster.run(fail)
        begun = time.monotonic()
        took: dict[str, float] = {}

        def repaired() -> bool:
            for name in lost.keys() - took.keys():
                quorum = self.quorum(name)
                if quorum.is_whole() and lost[name] not in quorum.voters:
                    took[name] = time.monotonic() - begun
            return len(took) == len(lost)

        wait_for(
            "all are repaired",
            repaired,
            timeout_s=timeout_s,
            seen=lambda: sorted(took),
            poll_s=_POLL_S,
        )
        return sorted(took.values())

    def _pod_of(self, name: str) -> str:
        """The pod of a voter that is not the leader."""
        quorum = self.quorum(name)
        follower = next(key for key in quorum.voters if key != quorum.leader)
        return self._simulated_nodes.pod_of(follower)


def verb(call: Call) -> str:
    """Of a call to the API server, with what it is about."""
    parts = call.path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    kind = rest[0] if rest else "discovery"
    if call.method != "GET":
        return f"{call.method} {'/'.join([kind, *rest[2:]])}"
    if "watch=" in call.query:
        return f"WATCH {kind}"
    return f"{'GET' if len(rest) > 1 or not rest else 'LIST'} {kind}"


def p95(ascending: list[float]) -> float:
    """Of at least one figure."""
    return ascending[max(-(-len(ascending) * 95 // 100) - 1, 0)]
