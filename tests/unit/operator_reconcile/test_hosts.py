"""The real reconcile finds out which hosts are away, from the Nodes as the API server has them."""

import asyncio

import pytest

from quorum_operator.kube.hosts import ZONE
from quorum_operator.kube.volumes import HOSTNAME
from support.in_memory_kube_api import (
    NAME,
    SPACE,
    HealthyNodes,
    InMemoryKubeApi,
    Object,
    pod_path,
    reconciler,
    running_quorum,
)

NODES = "/api/v1/nodes"


def set_ready(api: InMemoryKubeApi, host: str, status: str) -> None:
    api.objects[f"{NODES}/{host}"]["status"] = {"conditions": [{"type": "Ready", "status": status}]}


def stop_answering(api: InMemoryKubeApi, node_id: int) -> None:
    """The conditions that the node controller writes to the pods of an unreachable host."""
    api.objects[pod_path(node_id)]["status"]["conditions"] = [
        {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-02T03:04:05Z"}
    ]


def reconciled(api: InMemoryKubeApi, *silent: int) -> Object:
    asyncio.run(reconciler(api, HealthyNodes(3, silent)).reconcile(SPACE, NAME))
    return api.status


def unreachable(status: Object) -> list[int]:
    return [each["id"] for each in status["members"] if "unreachableSince" in each]


@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_member_on_an_unready_host_is_unreachable(status: str) -> None:
    api = running_quorum()
    stop_answering(api, 3)
    set_ready(api, "h3", status)
    for host in ("h1", "h2"):
        set_ready(api, host, "True")
    reported = reconciled(api, 3)
    assert unreachable(reported) == [3]
    condition = api.condition("MembersUnreachable")
    assert (condition["status"], condition["reason"]) == ("True", "HostsAway")
    assert "host h3 is not ready" in reported["plan"]["reason"]
    since = reported["members"][2]["unreachableSince"]
    assert reconciled(api, 3)["members"][2]["unreachableSince"] == since


def test_host_that_is_ready_again_makes_no_member_unreachable() -> None:
    api = running_quorum()
    stop_answering(api, 3)
    set_ready(api, "h3", "False")
    reconciled(api, 3)
    set_ready(api, "h3", "True")
    assert unreachable(reconciled(api, 3)) == []
    assert api.condition("MembersUnreachable")["status"] == "False"


def test_host_of_a_missing_pod_is_found_by_its_volume() -> None:
    api = running_quorum()
    stop_answering(api, 3)
    api.objects[pod_path(3)]["spec"].pop("nodeName")
    node = api.objects.pop(f"{NODES}/h3")
    node["metadata"] |= {"name": "other-name", "labels": {HOSTNAME: "h3"}}
    api.objects[f"{NODES}/other-name"] = node
    set_ready(api, "other-name", "Unknown")
    assert unreachable(reconciled(api, 3)) == [3]


@pytest.mark.parametrize(("others", "away"), [("False", True), ("True", False)])
def test_zone_is_away_when_all_its_hosts_are(others: str, away: bool) -> None:
    api = running_quorum(repair={"unreachableAfterSeconds": 10})
    stop_answering(api, 3)
    for host in ("h2", "h3"):
        api.objects[f"{NODES}/{host}"]["metadata"]["labels"][ZONE] = "z"
    set_ready(api, "h2", others)
    set_ready(api, "h3", "Unknown")
    reconciled(api, 3)
    assert (api.condition("MembersUnreachable")["reason"] == "ZoneAway") == away


def test_no_host_is_read_while_all_pods_are_ready() -> None:
    api = running_quorum(storage={"size": "1Gi"})
    for path in [path for path in api.objects if "persistentvolumes" in path]:
        api.objects[path]["spec"] = {}
    looked: list[str] = []
    api.refuse = lambda verb, path: looked.append(path) if path == NODES else None
    reconciled(api)
    assert looked == []
