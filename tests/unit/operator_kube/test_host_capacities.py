"""Which Nodes count as hosts that a member may be put on, where no two members may share one."""

import asyncio
from typing import Any

import pytest

from quorum_operator.crd import MetadataQuorumSpec
from quorum_operator.kube.errors import ApiError
from quorum_operator.kube.host_capacities import read_host_capacities, takes
from quorum_operator.planner.host_capacity import HostCapacity
from support.in_memory_kube_api import (
    NAME,
    SPACE,
    HealthyNodes,
    InMemoryKubeApi,
    reconciler,
    running_quorum,
)

pytestmark = pytest.mark.requirement("OP-06")

Object = dict[str, Any]
NODES = "/api/v1/nodes"


def node(name: str = "h", **changes: Any) -> Object:
    labels = {"kubernetes.io/hostname": name, "disk": "ssd", "cores": "8"}
    return {
        "metadata": {"name": name, "labels": labels, **changes.pop("metadata", {})},
        "spec": changes.pop("spec", {}),
        "status": {"conditions": [{"type": "Ready", "status": changes.pop("ready", "True")}]},
    }


def spec(**fields: Any) -> MetadataQuorumSpec:
    return MetadataQuorumSpec.model_validate({"spread": "Required", **fields})


def tainted(key: str, effect: str = "NoSchedule", value: str | None = None) -> Object:
    taint = {"key": key, "effect": effect} | ({} if value is None else {"value": value})
    return node(spec={"taints": [taint]})


def chosen(*expressions: tuple[str, str, list[str]]) -> Object:
    """Required node affinity by one term."""
    match = [{"key": key, "operator": how, "values": values} for key, how, values in expressions]
    terms = {"nodeSelectorTerms": [{"matchExpressions": match}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


TOLERATED = {
    "by its key": {"key": "dedicated", "operator": "Exists"},
    "by its value": {"key": "dedicated", "value": "quorum", "effect": "NoSchedule"},
    "as any": {"operator": "Exists"},
    "by a comparison of a newer version": {"key": "dedicated", "operator": "Gt", "value": "5"},
}
NOT_TOLERATED = {
    "another key": {"key": "other", "operator": "Exists"},
    "another value": {"key": "dedicated", "value": "other"},
    "another effect": {"key": "dedicated", "operator": "Exists", "effect": "NoExecute"},
    "no key": {"operator": "Equal", "value": "quorum"},
}


def test_only_ready_and_schedulable_nodes_count() -> None:
    assert takes(node(), spec())
    assert takes({**node(), "status": {}}, spec()), "its kubelet has not reported yet"
    assert not takes(node(ready="False"), spec())
    assert not takes(node(ready="Unknown"), spec())
    assert not takes(node(metadata={"deletionTimestamp": "2026-01-02T03:04:05Z"}), spec())
    assert not takes(node(spec={"unschedulable": True}), spec())
    assert takes(node(spec={"unschedulable": True}), spec(tolerations=[{"operator": "Exists"}]))


@pytest.mark.parametrize("how", TOLERATED)
def test_tolerated_taint_does_not_exclude_a_pod(how: str) -> None:
    found = tainted("dedicated", value="quorum")
    assert not takes(found, spec())
    assert takes(found, spec(tolerations=[TOLERATED[how]]))


@pytest.mark.parametrize("how", NOT_TOLERATED)
def test_untolerated_taint_excludes_a_pod(how: str) -> None:
    assert not takes(tainted("dedicated", value="quorum"), spec(tolerations=[NOT_TOLERATED[how]]))


def test_node_that_became_ready_counts_before_its_taint_is_removed() -> None:
    assert takes(tainted("node.kubernetes.io/not-ready"), spec())
    assert not takes({**tainted("node.kubernetes.io/not-ready"), **_silent()}, spec())


def _silent() -> Object:
    return {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}


def test_prefer_no_schedule_taint_excludes_no_pod() -> None:
    assert takes(tainted("a", "PreferNoSchedule"), spec())
    assert not takes(tainted("a", "NoExecute"), spec())


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        (("disk", "In", ["ssd", "nvme"]), True),
        (("disk", "In", ["hdd"]), False),
        (("disk", "NotIn", ["hdd"]), True),
        (("disk", "NotIn", ["ssd"]), False),
        (("zone", "NotIn", ["a"]), True),
        (("disk", "Exists", []), True),
        (("zone", "Exists", []), False),
        (("zone", "DoesNotExist", []), True),
        (("disk", "DoesNotExist", []), False),
        (("cores", "Gt", ["4"]), True),
        (("cores", "Gt", ["8"]), False),
        (("cores", "Lt", ["9"]), True),
        (("cores", "Lt", ["8"]), False),
        (("zone", "Lt", ["8"]), False),
        (("disk", "Gt", ["4"]), False),
        (("disk", "OfTomorrow", ["?"]), True),
    ],
)
def test_required_affinity_is_evaluated_and_unknown_operators_count_as_met(
    expression: tuple[str, str, list[str]], holds: bool
) -> None:
    """Unknown requirements count as met: a host that is left out would block a move without reason."""
    assert takes(node(), spec(affinity=chosen(expression))) == holds


def test_affinity_terms_are_alternatives_and_preferences_are_ignored() -> None:
    terms = chosen(("disk", "In", ["hdd"]))
    required = terms["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    required["nodeSelectorTerms"] += [{}]
    assert not takes(node(), spec(affinity=terms)), "an empty term matches nothing"
    by_name = {"key": "metadata.name", "operator": "In", "values": ["h"]}
    required["nodeSelectorTerms"] += [{"matchFields": [by_name]}]
    assert takes(node(), spec(affinity=terms))
    assert not takes(node("other"), spec(affinity=terms))
    assert takes(node(), spec(affinity={"nodeAffinity": {}}))


def test_node_selector_requires_each_label() -> None:
    assert takes(node(), spec(nodeSelector={"disk": "ssd"}))
    assert not takes(node(), spec(nodeSelector={"disk": "ssd", "gpu": "yes"}))


def read(api: InMemoryKubeApi, requested: MetadataQuorumSpec) -> tuple[HostCapacity, ...] | None:
    return asyncio.run(read_host_capacities(api, requested))


def test_nodes_are_not_read_when_members_may_share_a_host_or_access_is_denied() -> None:
    api = running_quorum(spread="Required")
    rooms = read(api, spec())
    assert rooms is not None
    assert {each.name for each in rooms} >= {"h1", "h2", "h3"}
    for spread in ("Preferred", "None"):
        assert read(api, spec(spread=spread)) is None
    api.refuse = _unavailable
    assert read(api, spec()) is None


def _unavailable(verb: str, path: str) -> None:
    if path == NODES:
        raise ApiError(403, "Forbidden", "nodes")


def test_reconcile_delays_a_move_until_a_host_is_available() -> None:
    api = running_quorum(spread="Required")
    for path in [path for path in api.objects if "persistentvolumes" in path]:
        api.objects[path]["spec"] = {}  # else the Nodes that volumes are tied to are read by name
    reconcile = reconciler(api, HealthyNodes(3))

    def look() -> None:
        asyncio.run(reconcile.reconcile(SPACE, NAME))

    looked: list[str] = []
    api.refuse = lambda verb, path: looked.append(path) if path == NODES else None
    look()
    assert looked == [], "Nodes were listed although no pod has to be created"
    api.change_spec(retire=[3])
    for _ in range(4):
        look()
    condition = api.condition("PlacementBlocked")
    assert (condition["status"], condition["reason"]) == ("True", "TooFewHosts")
    assert "h1, h2, h3" in condition["message"]
    assert api.created("statefulsets") == []
    assert "spec.spread is Required" in api.status["plan"]["blockedBy"]
    api.objects[f"{NODES}/h4"] = node("h4")
    look()
    look()
    assert api.created("statefulsets") == ["demo-4-1"]
