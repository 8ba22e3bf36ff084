"""A quorum is reported as lost only when no address is left to query."""

import asyncio
from dataclasses import replace

import pytest

from quorum_operator.fallback_addresses import PERIOD_S
from quorum_operator.kube import paths
from quorum_operator.planner.observed import NodeReport
from quorum_operator.quorum_client import Described
from support.in_memory_kube_api import (
    NAME,
    SPACE,
    HealthyNodes,
    InMemoryKubeApi,
    pod_path,
    reconciler,
    repeat,
    running_quorum,
)

ADMIN = paths.namespaced("services", SPACE, f"{NAME}-admin")
SERVICE_IP = "10.96.0.7"


class ReachableNodes(HealthyNodes):
    """Only these addresses respond; `queried`: all that were queried for a description."""

    def __init__(self, *reachable: str, cluster_id: str = "c1") -> None:
        super().__init__(3)
        self.reachable, self.cluster_id = set(reachable), cluster_id
        self.queried: list[str] = []

    async def report(self, ip: str, node_id: int) -> NodeReport | None:
        return await super().report(ip, node_id) if ip in self.reachable else None

    async def describe(self, ips: list[str]) -> Described:
        self.queried += ips
        reported = await super().describe([each for each in ips if each in self.reachable])
        view = reported.view
        return replace(reported, view=view and replace(view, cluster_id=self.cluster_id))


def without_pods(api: InMemoryKubeApi) -> None:
    """A user has deleted the StatefulSets without their pods, and the pods can't be read."""
    for node_id in (1, 2, 3):
        del api.objects[pod_path(node_id)]


def phase_after(api: InMemoryKubeApi, nodes: HealthyNodes, *, seen_before: bool) -> str:
    async def run() -> None:
        operator = reconciler(api, nodes)
        if seen_before:
            await operator.reconcile(SPACE, NAME)
        without_pods(api)
        await operator.reconcile(SPACE, NAME)

    asyncio.run(run())
    return str(api.status["phase"])


def test_last_known_addresses_are_queried() -> None:
    nodes = ReachableNodes("10.0.0.1", "10.0.0.2", "10.0.0.3")
    api = running_quorum()
    assert phase_after(api, nodes, seen_before=True) != "QuorumLost"
    assert api.condition("QuorumConfirmed")["status"] == "True"
    assert api.condition("QuorumLost")["status"] == "False"


def test_admin_service_is_queried() -> None:
    api = running_quorum()
    api.objects[ADMIN]["spec"]["clusterIP"] = SERVICE_IP
    assert phase_after(api, ReachableNodes(SERVICE_IP), seen_before=False) != "QuorumLost"
    assert api.condition("QuorumConfirmed")["status"] == "True"


@pytest.mark.parametrize(
    "nodes", [ReachableNodes(), ReachableNodes(SERVICE_IP, cluster_id="another")]
)
def test_quorum_is_lost_when_no_node_of_the_cluster_answers(nodes: ReachableNodes) -> None:
    api = running_quorum()
    api.objects[ADMIN]["spec"]["clusterIP"] = SERVICE_IP
    assert phase_after(api, nodes, seen_before=False) == "QuorumLost"
    assert SERVICE_IP in nodes.queried


def test_unreachable_addresses_are_retried_occasionally() -> None:
    api = running_quorum()
    api.objects[ADMIN]["spec"]["clusterIP"] = SERVICE_IP
    without_pods(api)
    nodes = ReachableNodes()
    repeat(reconciler(api, nodes), 5)
    assert PERIOD_S > 5
    assert nodes.queried.count(SERVICE_IP) == 1
