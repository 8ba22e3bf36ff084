"""The operator on a Kubernetes API: a latch is written, and taken back when the Node object is there again."""

import asyncio
import json
from collections.abc import Callable

import pytest

from quorum_operator.desired import names
from quorum_operator.kube import paths
from support.in_memory_kube_api import (
    NAME,
    SPACE,
    HealthyNodes,
    InMemoryKubeApi,
    pod_path,
    reconciler,
    running_quorum,
    set_path,
)


@pytest.mark.requirement("OP-04")
def test_recreated_node_object_revokes_the_latch() -> None:
    asyncio.run(_fail_and_return())


async def _fail_and_return() -> None:
    api = running_quorum(3, repair={"debounceSeconds": 0})
    host = api.objects.pop(f"{paths.NODES}/h3")
    del api.objects[pod_path(3)]
    operator = reconciler(api, HealthyNodes(3, silent=(3,)))

    async def until(holds: Callable[[], bool]) -> None:
        for _ in range(60):
            due = await operator.reconcile(SPACE, NAME)
            if holds():
                return
            await asyncio.sleep(min(due.after_s or 0.05, 0.15))
        raise AssertionError(api.status)

    await until(lambda: _replicas(api, 1) == 0 and _replicas(api, 2) == 1)
    notes = api.objects[set_path(3)]["metadata"]["annotations"]
    assert json.loads(notes[names.ANNOTATION_FAILED])["reason"] == "HostDeleted"
    assert api.status["repairs"]

    api.objects[f"{paths.NODES}/h3"] = host
    await until(lambda: _replicas(api, 1) == 1 and not _replicas(api, 2))
    await until(lambda: not api.status.get("repairs"))
    kept = api.objects[set_path(3)]
    assert names.ANNOTATION_FAILED not in kept["metadata"]["annotations"]
    assert len(json.loads(kept["metadata"]["annotations"][names.ANNOTATION_TAKEN_BACK])) == 1
    assert "Unlatch" in [each["reason"] for each in api.events]


def _replicas(api: InMemoryKubeApi, number: int) -> int | None:
    found = api.objects.get(set_path(3, number))
    return None if found is None else int(found["spec"]["replicas"])
