"""What the watches have brought decides whether there is anything to do; what is done, a live look decides alone."""

import asyncio
import copy
import json
from typing import Any

import pytest

from quorum_operator.desired import names
from quorum_operator.kube import paths
from quorum_operator.metrics import Metrics
from quorum_operator.planner.observed import NodeReport
from quorum_operator.quorum_client import Described
from quorum_operator.reconcile import Reconciler
from support.in_memory_kube_api import (
    NAME,
    SPACE,
    HealthyNodes,
    InMemoryKubeApi,
    pod_path,
    running_quorum,
    set_path,
)

LATCH = {names.ANNOTATION_FAILED: json.dumps({"reason": "StorageFailed", "at": 1})}


class CountedNodes(HealthyNodes):
    """`reports` and `described`: how often nodes were queried."""

    reports = 0
    described = 0

    async def report(self, ip: str, node_id: int) -> NodeReport | None:
        self.reports += 1
        return await super().report(ip, node_id)

    async def describe(self, ips: list[str]) -> Described:
        self.described += 1
        return await super().describe(ips)


class Env:
    """A quorum at rest: what is there, and what the watches have brought of it."""

    def __init__(self) -> None:
        self.live = running_quorum()
        self.kept = InMemoryKubeApi({})
        self.nodes = CountedNodes(3)
        unchecked: Any = self.live
        nodes: Any = self.nodes
        self._reconciler = Reconciler(unchecked, nodes, Metrics(), self.kept)
        self.look(2)  # the first looks are live, and write the status and the marks on claims
        known = self._reconciler._memory.known(SPACE, NAME)
        assert known is not None
        known.moved_at = float("-inf")  # long ago
        self.bring()

    def bring(self) -> None:
        """The watches have caught up."""
        self.kept.objects = copy.deepcopy(self.live.objects)

    def look(self, times: int = 1) -> None:
        async def run() -> None:
            for _ in range(times):
                await self._reconciler.reconcile(SPACE, NAME)

        self.live.calls.clear()
        self.live.writes.clear()
        self.nodes.reports = self.nodes.described = 0
        asyncio.run(run())

    def fail_a_disk(self) -> None:
        self.live.objects[set_path(2)]["metadata"]["annotations"] |= LATCH


@pytest.mark.requirement("OP-03")
def test_idle_reconcile_makes_no_api_calls_and_queries_only_the_leader() -> None:
    env = Env()
    env.look()
    env.look(5)
    assert env.live.calls.total() == 0, env.live.calls
    assert (env.nodes.reports, env.nodes.described) == (0, 5)


@pytest.mark.requirement("OP-03")
def test_no_action_is_taken_on_an_outdated_cache_only() -> None:
    """The cache shows lost pods, volumes and hosts and a failed disk; none of that is so."""
    env = Env()
    env.kept.objects[set_path(2)]["metadata"]["annotations"] |= LATCH
    for path in list(env.kept.objects):
        if "/persistentvolumes/" in path or "/nodes/" in path or path == pod_path(3):
            del env.kept.objects[path]
    env.look(3)
    assert env.live.calls["list"] > 0, "the live read was not made"
    assert env.live.writes == []


def test_no_failure_is_revoked_on_an_outdated_cache() -> None:
    """The copy has the host of a member that was held to be gone with it; it is not there any more."""
    env = Env()
    latch = json.dumps({"reason": "HostDeleted", "at": 1})
    for objects in (env.live.objects, env.kept.objects):
        objects[set_path(2)]["metadata"]["annotations"][names.ANNOTATION_FAILED] = latch
        objects.pop(pod_path(2))
    del env.live.objects[f"{paths.NODES}/h2"]
    env.nodes.silent = (2,)
    env.look(4)
    notes = env.live.objects[set_path(2)]["metadata"]["annotations"]
    assert notes[names.ANNOTATION_FAILED] == latch
    assert "Unlatch" not in {each["reason"] for each in env.live.events}


def test_repair_reads_no_volume_or_host_that_is_healthy_in_the_cache() -> None:
    env = Env()
    read: list[str] = []
    env.fail_a_disk()
    env.bring()
    env.live.refuse = lambda verb, path: read.append(f"{verb} {path}")
    for objects in (env.live.objects, env.kept.objects):
        objects[pod_path(2)]["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    env.look(3)
    assert env.live.created("statefulsets") == ["demo-2-2"]
    shared = ("/persistentvolumes/", "/storageclasses/", "/nodes")
    assert [each for each in read if any(kind in each for kind in shared)] == []


def test_watched_changes_are_acted_upon_after_a_live_read() -> None:
    env = Env()
    env.fail_a_disk()
    env.look()
    assert env.live.writes == [], "the watch has not delivered the failure yet"
    env.bring()
    env.look()
    assert env.live.calls["list"] > 0
    assert env.live.created("statefulsets") or env.live.writes


def test_read_after_a_step_is_live() -> None:
    """A further step is likely, and caches do not show the last one yet: reading them is useless."""
    env = Env()
    env.fail_a_disk()
    env.bring()
    env.look()
    assert env.live.writes
    env.look()
    assert env.live.calls["list"] > 0
    assert env.nodes.described == 1


@pytest.mark.requirement("OP-03")
def test_waiting_repair_makes_no_api_calls() -> None:
    env = Env()
    env.fail_a_disk()
    for _ in range(20):
        env.bring()
        env.look()
        if env.live.calls.total() == 0:
            break
    assert env.live.objects.keys() >= {set_path(2, 2)}, "the new member has no pod yet"
    waits = env.live.status["plan"]["blockedBy"]
    assert "no pod yet" in waits
    read: list[str] = []
    env.kept.refuse = lambda verb, path: read.append(path)
    env.look(5)
    assert env.live.calls.total() == 0, env.live.calls
    assert not [path for path in read if path.endswith("/events")], "events are not cached"


def test_periodic_checks_are_done_by_the_read_before_an_action() -> None:
    """Only that check detects a pod with a recreated configuration: the cached read must not count as this check."""
    env = Env()
    env.fail_a_disk()
    env.bring()
    known = env._reconciler._memory.known(SPACE, NAME)
    assert known is not None
    known.checked = (0, float("-inf"))
    read: list[str] = []
    env.live.refuse = lambda verb, path: read.append(path)
    env.look()
    assert paths.namespaced("configmaps", SPACE, f"{NAME}-config") in read


def test_step_is_not_repeated_because_of_a_lagging_cache() -> None:
    env = Env()
    env.fail_a_disk()
    env.bring()
    env.look(10)  # the watches bring nothing of all that
    assert env.live.created("statefulsets") == ["demo-2-2"]
    env.look(5)
    assert env.live.writes == []


def test_reconcile_does_not_modify_a_cached_object() -> None:
    """Objects share what they have in common: a change of one would be a change of many."""
    env = Env()
    env.fail_a_disk()
    env.bring()
    before = copy.deepcopy(env.kept.objects)
    env.kept.hands_out = True
    env.look(5)
    assert env.kept.objects == before


def test_resource_missing_in_the_cache_is_not_treated_as_deleted() -> None:
    env = Env()
    del env.kept.objects[env.live.resource_path]
    env.look()
    assert env.live.calls["get"] > 0


def test_all_nodes_are_queried_again_when_a_pod_or_the_leader_report_changes() -> None:
    env = Env()
    env.look()
    pod = env.live.objects[pod_path(3)]
    pod["metadata"]["uid"] = "another"
    env.bring()
    env.look()
    assert env.nodes.reports == 3
    env.look()
    assert env.nodes.reports == 0
    env.nodes.silent = (3,)
    env.look()
    assert env.nodes.reports >= 3
    env.look()
    assert env.nodes.reports >= 3, "an old answer was used while a node does not answer"
