"""Operator annotations that are overwritten: no reconcile is blocked, and no healthy member is replaced."""

import asyncio
import copy
import json
from dataclasses import replace
from typing import Any

import pytest

from quorum_operator.desired import names
from quorum_operator.kube import paths
from quorum_operator.planner.evidence import CIRCUMSTANCES
from quorum_operator.planner.observed import HeldLog, Key, NodeReport
from quorum_operator.planner.situation import FENCED
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

CLAIM = f"/api/v1/namespaces/{SPACE}/persistentvolumeclaims/data-demo-2-1-0"
_MEANT = frozenset(
    {
        # A plausible manual edit: the member is marked as failed, or restarted.
        *(names.ANNOTATION_FAILED, names.ANNOTATION_FENCED, names.ANNOTATION_REMOVED),
        names.ANNOTATION_RESTART,
    }
)
NOTES = sorted(
    value
    for name, value in vars(names).items()
    if name.startswith("ANNOTATION_") and value not in _MEANT
)


def reconciled(api: InMemoryKubeApi, times: int = 3, silent: tuple[int, ...] = ()) -> None:
    async def run() -> None:
        operator = reconciler(api, HealthyNodes(3, silent))
        for _ in range(times):
            await operator.reconcile(SPACE, NAME)

    asyncio.run(run())


def notes(api: InMemoryKubeApi, path: str) -> dict[str, Any]:
    meta = api.objects[path]["metadata"]
    meta["annotations"] = meta.get("annotations") or {}
    found: dict[str, Any] = meta["annotations"]
    return found


@pytest.mark.parametrize("odd", ["", "by-hand", "[]", '{"size": "much"}'])
@pytest.mark.requirement("OP-01")
def test_quorum_is_reconciled_with_any_content_of_all_annotations_of_an_object(odd: str) -> None:
    made = running_quorum()
    reconciled(made, 1)
    for path in sorted(set(made.objects) - {made.resource_path}):
        api = copy.deepcopy(made)
        notes(api, path).update(dict.fromkeys(NOTES, odd))
        reconciled(api, 3)
        assert (api.status["phase"], api.status["voters"]) == ("Ready", 3), path
        assert not api.created("statefulsets"), path


@pytest.mark.parametrize("wrong", ["by-hand", "U9", ""])
@pytest.mark.requirement("OP-01")
def test_voter_with_an_edited_replica_uuid_is_not_a_replaced_disk(wrong: str) -> None:
    api = running_quorum()
    reconciled(api, 1)
    assert notes(api, CLAIM)[names.ANNOTATION_UUID] == "U2"
    notes(api, set_path(2))[names.ANNOTATION_UUID] = wrong
    reconciled(api, 1)
    assert notes(api, CLAIM)[names.ANNOTATION_UUID] == "U2", "the wrong UUID was copied"
    reconciled(api)
    assert notes(api, set_path(2))[names.ANNOTATION_UUID] == "U2"
    assert names.ANNOTATION_FAILED not in notes(api, set_path(2))
    assert not api.created("statefulsets")


class Leaderless(HealthyNodes):
    """Every pod answers, and no majority confirms a leader."""

    async def describe(self, ips: list[str]) -> Described:
        return Described(None, None)


@pytest.mark.requirement("OP-01")
def test_edited_annotation_marks_no_member_as_failed_without_a_confirmed_leader() -> None:
    """As a proof it would count at once, and for good."""
    api = running_quorum()
    reconciled(api, 1)
    notes(api, set_path(2))[names.ANNOTATION_UUID] = "by-hand"
    asyncio.run(reconciler(api, Leaderless(3)).reconcile(SPACE, NAME))
    assert names.ANNOTATION_FAILED not in notes(api, set_path(2))
    assert notes(api, set_path(2))[names.ANNOTATION_UUID] == "U2"
    reconciled(api)
    assert not api.created("statefulsets")


@pytest.mark.requirement("OP-01")
def test_claim_identifies_the_replica_while_its_process_does_not_answer() -> None:
    api = running_quorum()
    reconciled(api, 1)
    notes(api, set_path(2))[names.ANNOTATION_UUID] = "by-hand"
    reconciled(api, silent=(2,))
    assert notes(api, set_path(2))[names.ANNOTATION_UUID] == "U2"
    assert notes(api, CLAIM)[names.ANNOTATION_UUID] == "U2"
    assert not api.created("statefulsets"), "a replacement was created for an existing voter"


@pytest.mark.requirement("OP-01")
def test_running_voter_marked_as_stopped_is_treated_as_a_member() -> None:
    api = running_quorum()
    notes(api, set_path(2))[names.ANNOTATION_STOPPED] = "by hand"
    reconciled(api)
    assert names.ANNOTATION_STOPPED not in notes(api, set_path(2))
    assert api.condition("Degraded")["status"] == "False"
    assert not [path for verb, path in api.writes if verb == "delete"], "a pod was restarted"


@pytest.mark.parametrize("reason", sorted(CIRCUMSTANCES))
@pytest.mark.requirement("OP-01")
def test_failure_mark_on_the_claim_alone_is_revoked_while_the_replica_fetches(reason: str) -> None:
    """It would neither be restored on the StatefulSet, which is refused for a live voter, nor revoked."""
    api = running_quorum()
    text = json.dumps({"reason": reason, "evidence": "by hand", "at": 1.0})
    notes(api, CLAIM).update({names.ANNOTATION_FAILED: text, names.ANNOTATION_UUID: "U2"})
    reconciled(api, 4)
    assert names.ANNOTATION_FAILED not in notes(api, CLAIM)
    assert names.ANNOTATION_FAILED not in notes(api, set_path(2))
    assert api.condition("Refused")["status"] == "False"
    assert not api.created("statefulsets")


def swapped(api: InMemoryKubeApi, *, claims: bool) -> None:
    """Each StatefulSet, and each claim, names the replica of the next member."""
    for node_id in (1, 2, 3):
        uuid = f"U{node_id % 3 + 1}"
        notes(api, set_path(node_id))[names.ANNOTATION_UUID] = uuid
        if claims:
            notes(api, CLAIM.replace("-2-1-0", f"-{node_id}-1-0"))[names.ANNOTATION_UUID] = uuid


@pytest.mark.parametrize("claims", [False, True])
@pytest.mark.requirement("OP-07")
def test_swapped_replica_uuids_are_corrected_and_no_member_is_stopped(claims: bool) -> None:
    """No voter has the key in the annotations of its StatefulSet, so none of the members seemed to be a voter."""
    api = running_quorum()
    swapped(api, claims=claims)
    reconciled(api, 8)
    for node_id in (1, 2, 3):
        found = notes(api, set_path(node_id))
        assert found[names.ANNOTATION_UUID] == f"U{node_id}"
        assert names.ANNOTATION_FAILED not in found
        assert api.objects[set_path(node_id)]["spec"]["replicas"] == 1
    assert not api.created("statefulsets")


@pytest.mark.requirement("OP-07")
def test_swapped_replica_uuids_condemn_no_disk_without_a_leader() -> None:
    api = running_quorum()
    swapped(api, claims=True)
    nodes = NoLeaderNow(3)

    async def run() -> None:
        operator = reconciler(api, nodes)
        for _ in range(4):
            await operator.reconcile(SPACE, NAME)

    asyncio.run(run())
    for node_id in (1, 2, 3):
        assert names.ANNOTATION_FAILED not in notes(api, set_path(node_id))


class NoLeaderNow(HealthyNodes):
    """Every process answers, and names itself as a voter; no majority confirms a leader."""

    async def report(self, ip: str, node_id: int) -> NodeReport | None:
        found = await super().report(ip, node_id)
        assert found is not None
        keys = frozenset(Key(each, f"U{each}") for each in (1, 2, 3))
        return replace(found, log=HeldLog(4, 20, 20, 4, keys))

    async def describe(self, ips: list[str]) -> Described:
        return Described(None, None)


@pytest.mark.parametrize(
    "note",
    [
        {"size": "1Ki", "storageClass": "local"},
        {"size": "1Gi", "storageClass": "other"},
        {"size": "1Gi", "storageClass": None},
        {"size": "900Gi", "storageClass": "local"},
    ],
)
@pytest.mark.requirement("OP-01")
def test_member_is_not_moved_for_another_storage_in_its_annotation(note: dict[str, Any]) -> None:
    api = running_quorum()
    api.objects[CLAIM]["spec"]["resources"] = {"requests": {"storage": "1Gi"}}
    notes(api, set_path(2))[names.ANNOTATION_STORAGE] = json.dumps(note)
    reconciled(api, 4)
    assert not api.created("statefulsets")
    assert api.status["phase"] == "Ready"


@pytest.mark.requirement("OP-01")
def test_mark_of_a_recovery_that_never_was_is_removed_from_a_running_voter() -> None:
    """Otherwise it would be neither updated nor, if its disk fails, replaced."""
    api = running_quorum()
    notes(api, set_path(2))[names.ANNOTATION_STOPPED] = f"{FENCED}: {'A' * 22}:4:9"
    reconciled(api, 4)
    assert names.ANNOTATION_STOPPED not in notes(api, set_path(2))
    assert api.objects[set_path(2)]["spec"]["replicas"] == 1


@pytest.mark.requirement("OP-01")
def test_disk_is_replaced_although_annotations_count_revoked_failures_in_the_future() -> None:
    """They would count as recent, and exceed the limit of replacements, until the year 9999."""
    api = running_quorum(repair={"debounceSeconds": 0})
    future = json.dumps([200_000_000_000.0 + each for each in range(60)])
    for node_id in (1, 2):
        notes(api, set_path(node_id))[names.ANNOTATION_TAKEN_BACK] = future
    del api.objects[f"{paths.NODES}/h3"], api.objects[pod_path(3)]
    reconciled(api, 8, silent=(3,))
    assert api.created("statefulsets") == ["demo-3-2"]
