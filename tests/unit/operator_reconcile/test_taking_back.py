"""The operator on a Kubernetes API: a latch is written, and taken back when the Node object is there again."""

import asyncio
import json

import pytest

from quorum_operator.desired import names
from quorum_operator.kube import paths
from support.kept_objects import (
    NAME,
    SPACE,
    KeptObjects,
    SoundNodes,
    pod_path,
    reconciler,
    running_quorum,
    set_path,
)


@pytest.mark.requirement("OP-04")
def test_a_node_object_that_is_there_again_takes_the_latch_back() -> None:
    asyncio.run(_come_and_go())


async def _come_and_go() -> None:
    api = running_quorum(3, repair={"debounceSeconds": 0})
    host = api.objects.pop(f"{paths.NODES}/h3")
    pod = api.objects.pop(pod_path(3))
    operator = reconciler(api, SoundNodes(3, silent=(3,)))

    async def rounds(count: int) -> None:
        for _ in range(count):
            due = await operator.reconcile(SPACE, NAME)
            await asyncio.sleep(min(due.after_s or 0.0, 0.15))

    await rounds(6)
    notes = api.objects[set_path(3)]["metadata"]["annotations"]
    assert json.loads(notes[names.ANNOTATION_FAILED])["reason"] == "HostDeleted"
    assert api.objects[set_path(3)]["spec"]["replicas"] == 0
    assert api.objects[set_path(3, 2)]["spec"]["replicas"] == 1, "its successor"
    assert api.status["repairs"]

    api.objects[f"{paths.NODES}/h3"] = host
    await rounds(10)
    kept = api.objects[set_path(3)]
    assert names.ANNOTATION_FAILED not in kept["metadata"]["annotations"]
    assert len(json.loads(kept["metadata"]["annotations"][names.ANNOTATION_TAKEN_BACK])) == 1
    assert kept["spec"]["replicas"] == 1
    assert _successor_is_out(api)
    assert "Unlatch" in [each["reason"] for each in api.events]
    assert not api.status.get("repairs")
    api.objects[pod_path(3)] = pod


def _successor_is_out(api: KeptObjects) -> bool:
    found = api.objects.get(set_path(3, 2))
    return found is None or found["spec"]["replicas"] == 0
