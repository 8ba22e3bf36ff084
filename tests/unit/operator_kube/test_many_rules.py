"""A spec with more scheduling rules than the operator compares with every Node: it does nothing for other quorums meanwhile."""

import asyncio
from typing import Any

import pytest

from quorum_operator.crd import MetadataQuorumSpec
from quorum_operator.kube.host_capacities import read_host_capacities
from support.in_memory_kube_api import InMemoryKubeApi, running_quorum

NODES = "/api/v1/nodes"


def node(ready: str = "True", **spec: Any) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": ready}]
    return {
        "metadata": {"name": "more", "labels": {"disk": "ssd"}},
        "spec": spec,
        "status": {"conditions": conditions},
    }


def hosts(api: InMemoryKubeApi, **fields: Any) -> set[str]:
    """Nodes that a member of a quorum with this spec may be put on."""
    spec = MetadataQuorumSpec.model_validate({"spread": "Required", **fields})
    found = asyncio.run(read_host_capacities(api, spec))
    assert found is not None
    return {each.name for each in found}


@pytest.mark.parametrize(
    ("terms", "values", "count"), [(100, 1, False), (1000, 1, True), (1, 50_000, True)]
)
def test_nodes_count_as_chosen(terms: int, values: int, count: bool) -> None:
    api = running_quorum(spread="Required")
    api.objects[f"{NODES}/more"] = node(ready="False")
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["no"] * values}]}
    required = {"nodeSelectorTerms": [term] * terms}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    found = hosts(api, affinity=affinity)
    assert ({"h1", "h2", "h3"} <= found) is count
    assert "more" not in found


def test_taints_count_as_tolerated() -> None:
    api = running_quorum(spread="Required")
    api.objects[f"{NODES}/more"] = node(taints=[{"key": "dedicated", "effect": "NoSchedule"}])
    other = {"key": "other", "operator": "Exists"}
    assert "more" not in hosts(api, tolerations=[other])
    assert "more" in hosts(api, tolerations=[other] * 1000)
