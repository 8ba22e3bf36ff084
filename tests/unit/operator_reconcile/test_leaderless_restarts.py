"""The real reconcile without a leader: members that run and serve nobody get a corrected spec, one after the other."""

import asyncio
from typing import Any

from quorum_operator.planner.observed import HeldLog, Key, NodeReport
from quorum_operator.quorum_client import Described
from quorum_operator.reconcile import Reconciler
from support.in_memory_kube_api import (
    NAME,
    SPACE,
    HealthyNodes,
    InMemoryKubeApi,
    pod_path,
    reconciler,
    running_quorum,
    set_path,
    start_pod,
    time_text,
)

MEMBERS = (1, 2, 3)
LOG = HeldLog(3, 10, 9, 4, frozenset(Key(each, f"U{each}") for each in MEMBERS))
ROUNDS = 12


class Leaderless(HealthyNodes):
    """Every process answers, and none has a leader. `elects`: a leader is back at the second description."""

    def __init__(self) -> None:
        super().__init__(len(MEMBERS))
        self.elects = False
        self.described = 0

    async def report(self, ip: str, node_id: int) -> NodeReport | None:
        return NodeReport(f"U{node_id}", "c1", "unattached", True, False, "ok", log=LOG)

    async def describe(self, ips: list[str]) -> Described:
        self.described += 1
        if self.elects and self.described > 1:
            return await super().describe(ips)
        return Described(None, LOG.voters)


def without_leader() -> InMemoryKubeApi:
    """No pod is ready, and no majority has confirmed a leader for a minute. The spec was corrected."""
    api = running_quorum()
    for each in MEMBERS:
        _not_ready(api, each)
    api.resource["status"] = {
        "conditions": [
            {
                "type": "QuorumConfirmed",
                "status": "False",
                "reason": "NoConfirmedDescribe",
                "message": "",
                "lastTransitionTime": time_text(60),
            }
        ]
    }
    api.change_spec(image="metadataquorum-node:2")
    return api


def _not_ready(api: InMemoryKubeApi, node_id: int) -> None:
    conditions = [{"type": "Ready", "status": "False", "lastTransitionTime": time_text(70)}]
    api.objects[pod_path(node_id)]["status"]["conditions"] = conditions


def deleted(api: InMemoryKubeApi) -> list[str]:
    return [path for verb, path in api.writes if verb == "delete"]


def reconciled(operator: Reconciler) -> None:
    async def run() -> None:
        for _ in range(ROUNDS):
            await operator.reconcile(SPACE, NAME)

    asyncio.run(run())


def test_outdated_pods_are_restarted_one_after_the_other() -> None:
    api, nodes = without_leader(), Leaderless()
    reconciled(reconciler(api, nodes))
    assert deleted(api) == [pod_path(1)], api.status["plan"]
    assert "the pod of demo-1-1 is being created" in api.condition("Progressing")["message"]
    for started_s, expected in ((5, [1]), (31, [1, 2])):
        start_pod(api, api.objects[set_path(1)], 1)
        _not_ready(api, 1)
        meta: dict[str, Any] = api.objects[pod_path(1)]["metadata"]
        meta["creationTimestamp"] = time_text(started_s)
        reconciled(reconciler(api, nodes))
        assert deleted(api) == [pod_path(each) for each in expected], api.status["plan"]


def test_leader_that_is_back_before_the_step_keeps_its_majority() -> None:
    """Two of three follow it, according to the last look. The third one may restart."""
    api, nodes = without_leader(), Leaderless()
    nodes.silent, nodes.elects = (3,), True
    operator = reconciler(api, nodes)

    async def run() -> None:
        for _ in range(ROUNDS):
            nodes.described = 0  # the first description of each reconcile is without a leader
            await operator.reconcile(SPACE, NAME)

    asyncio.run(run())
    assert deleted(api) == [pod_path(3)]
