"""Whether members can be spread over zones: all Nodes except the control plane have one."""

import asyncio
from typing import Any

import pytest

from quorum_operator.kube.errors import Forbidden
from quorum_operator.kube.hosts import ZONE, all_have_zones

Object = dict[str, Any]


class Nodes:
    """The Nodes of a cluster; None: they can't be read."""

    def __init__(self, nodes: list[Object] | None) -> None:
        self._nodes = nodes

    async def find(
        self, path: str, *, labels: str | None = None, fields: str | None = None
    ) -> list[Object]:
        if self._nodes is None:
            raise Forbidden(403, "Forbidden", "nodes is forbidden")
        return self._nodes

    async def get(self, path: str) -> Object | None:
        raise NotImplementedError


def node(zone: str | None, taint: str | None = None) -> Object:
    labels = {} if zone is None else {ZONE: zone}
    taints = [] if taint is None else [{"key": taint, "effect": "NoSchedule"}]
    return {"metadata": {"labels": labels}, "spec": {"taints": taints}}


CONTROL_PLANE = node(None, "node-role.kubernetes.io/control-plane")


@pytest.mark.parametrize(
    ("nodes", "found"),
    [
        ([node("a"), node("b"), CONTROL_PLANE], True),
        ([node("a"), node(None)], False),
        ([node("a"), node(None, "node.kubernetes.io/not-ready")], False),
        ([node("a"), node("b", "node.kubernetes.io/not-ready")], True),
        ([CONTROL_PLANE], False),
        ([], False),
        (None, False),
    ],
)
def test_zones_are_used_only_if_all_workers_have_one(
    nodes: list[Object] | None, found: bool
) -> None:
    assert asyncio.run(all_have_zones(Nodes(nodes))) is found
