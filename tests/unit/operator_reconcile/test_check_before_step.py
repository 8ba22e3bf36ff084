"""The quorum changes between the look that a step was planned on and the step: the real reconcile does no harm by it."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorum_operator.admin_call import Answer
from quorum_operator.desired import names
from quorum_operator.kube import facts
from quorum_operator.planner.observed import FailureLatch, Key, NodeReport
from quorum_operator.planner.step import VotersPosition
from quorum_operator.quorum_client import Described
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
from support.model_rules import majority

pytestmark = pytest.mark.requirement("OP-07")
SETTINGS = settings(max_examples=30, deadline=None, derandomize=True)
SIZE = 5
WISHES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "another image": {"image": "metadataquorum-node:2"},
    "fewer": {"replicas": 3},
    "retire": {"retire": [2, 4]},
}


class MovingNodes(HealthyNodes):
    """Who is silent changes right after the first describe of each reconcile, and stays so until the next one."""

    def __init__(self, coming: list[frozenset[int]]) -> None:
        super().__init__(SIZE)
        self.coming = coming
        self.removed: list[int] = []
        self.moved = False
        self.api: WriteChecks | None = None

    def next_reconcile(self) -> None:
        self.moved = False

    async def report(self, ip: str, node_id: int) -> NodeReport | None:
        return await super().report(ip, node_id)

    async def describe(self, ips: list[str]) -> Described:
        reported = await super().describe(ips)
        if not self.moved:
            self.moved = True
            self.silent = tuple(self.coming.pop(0)) if self.coming else self.silent
        if len(self.silent) > SIZE - majority(SIZE):
            return Described(None, None)
        return reported

    async def remove_voter(self, ip: str, token: str, key: Key, at: VotersPosition) -> Answer:
        left = {n for n in range(1, SIZE + 1) if n != key.id} - set(self.silent)
        assert len(left) >= majority(SIZE - 1), f"removing {key.id} leaves no live majority"
        return Answer(False, "NOT_NOW", "")

    async def add_voter(self, *_: object, **__: object) -> Answer:
        return Answer(False, "NOT_NOW", "")

    async def resign(self, *_: object) -> Answer:
        return Answer(False, "NOT_NOW", "")


class WriteChecks(InMemoryKubeApi):
    """Looks at each write what it stops, and who is live at that very moment."""

    nodes: MovingNodes

    async def merge(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if body.get("spec", {}).get("replicas") == 0:
            self._check(path, stop=True)
        return await super().merge(path, body)

    async def delete(self, path: str, **conditions: object) -> None:
        self._check(path, stop=False)
        await super().delete(path, **conditions)

    def _check(self, path: str, *, stop: bool) -> None:
        node_id = next((n for n in range(1, SIZE + 1) if path in {set_path(n), pod_path(n)}), None)
        if node_id is None:
            return
        live = set(range(1, SIZE + 1)) - set(self.nodes.silent)
        if node_id not in live:
            return
        assert not stop, f"{path} is stopped, although the leader receives its fetches"
        assert len(live - {node_id}) >= majority(SIZE), f"{path}: no live majority is left"


silences = st.lists(st.frozensets(st.integers(2, SIZE), max_size=3), min_size=6, max_size=14)


@SETTINGS
@given(
    coming=silences,
    wish=st.sampled_from(sorted(WISHES)),
    latched=st.dictionaries(
        st.integers(1, SIZE), st.sampled_from(["StorageFailed", "HostDeleted"]), max_size=3
    ),
    enabled=st.booleans(),
)
def test_live_majority_survives_any_change_between_plan_and_step(
    coming: list[frozenset[int]], wish: str, latched: dict[int, str], enabled: bool
) -> None:
    asyncio.run(_rounds(coming, WISHES[wish], latched, enabled))


async def _rounds(
    coming: list[frozenset[int]], wish: dict[str, Any], latched: dict[int, str], enabled: bool
) -> None:
    api = running_quorum(SIZE)
    api.__class__ = WriteChecks
    assert isinstance(api, WriteChecks)
    api.nodes = MovingNodes(list(coming))
    for node_id, reason in latched.items():
        text = facts.latch_text(FailureLatch(reason, "", 1.0, 1.0))
        api.objects[set_path(node_id)]["metadata"]["annotations"][names.ANNOTATION_FAILED] = text
    api.change_spec(**wish, repair={"enabled": enabled})
    operator = reconciler(api, api.nodes)
    for _ in coming:
        api.nodes.next_reconcile()
        await operator.reconcile(SPACE, NAME)


def test_step_rejected_by_the_final_check_is_reported_if_it_persists() -> None:
    """A voter is latched and silent at each read, and fetches at each final check."""

    class Flapping(MovingNodes):
        async def describe(self, ips: list[str]) -> Described:
            self.silent = () if self.moved else (2,)
            self.moved = True
            return await HealthyNodes.describe(self, ips)

    async def run() -> InMemoryKubeApi:
        api = running_quorum(SIZE)
        text = facts.latch_text(FailureLatch("StorageFailed", "", 1.0, 1.0))
        api.objects[set_path(2)]["metadata"]["annotations"][names.ANNOTATION_FAILED] = text
        nodes = Flapping([])
        operator = reconciler(api, nodes)
        for _ in range(12):
            nodes.next_reconcile()
            due = await operator.reconcile(SPACE, NAME)
            await asyncio.sleep(min(due.after_s or 0.0, 0.7))
        return api

    api = asyncio.run(run())
    assert api.objects[set_path(2)]["spec"]["replicas"] == 1
    condition = api.condition("Refused")
    assert condition["reason"] == "NotSafeNow", json.dumps(api.status, indent=1)
    assert "demo-2-1 still fetches from the leader" in condition["message"]
