"""The reason why a PartitionReassignment can't be reconciled is in its status, and not only in the operator's log."""

import asyncio
from typing import Any

import httpx
import pytest

from quorum_operator.kube import paths
from quorum_operator.kube.errors import ApiError, Forbidden, Unavailable
from quorum_operator.metrics import Metrics
from quorum_operator.namespaced_name import NamespacedName
from quorum_operator.partition_client import PartitionClient
from quorum_operator.planner import reassignment as planner
from quorum_operator.planner.condition_reasons import REASSIGNMENT_REASONS
from quorum_operator.reassign import ReassignmentReconciler
from quorum_operator.turns import Turns
from support.in_memory_kube_api import NAME, SPACE, InMemoryKubeApi, running_quorum

PATH = paths.namespaced("partitionreassignments", SPACE, "moves")
DENIED = Forbidden(403, "Forbidden", 'secrets "demo-admin" is forbidden: cannot get resource')
DOWN = Unavailable(503, "ServiceUnavailable", "the server is unable to handle the request")
SPEC: dict[str, Any] = {
    "quorum": NAME,
    "partitions": [{"topic": "t", "partition": 0, "replicas": [1]}],
}


def quorum_with_a_reassignment(**changes: Any) -> InMemoryKubeApi:
    api = running_quorum(3)
    api._keep(PATH, {"metadata": {"name": "moves", "namespace": SPACE}, "spec": SPEC, **changes})
    return api


def reconcile(
    api: InMemoryKubeApi,
    partitions: PartitionClient | None = None,
    turns: Turns | None = None,
) -> None:
    """Its pods answer nothing, and raises what the reconcile raises."""

    def unused(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    async def run() -> None:
        async with httpx.AsyncClient(transport=httpx.MockTransport(unused)) as http:
            unchecked: Any = api
            made = ReassignmentReconciler(
                unchecked,
                partitions or PartitionClient(http),
                Metrics(),
                turns or Turns(lambda place: None),
            )
            await made.reconcile(SPACE, "moves")

    asyncio.run(run())


def condition(api: InMemoryKubeApi, kind: str) -> dict[str, Any]:
    found = (api.objects[PATH].get("status") or {}).get("conditions", [])
    return next((each for each in found if each["type"] == kind), {})


def refusing(api: InMemoryKubeApi, error: ApiError) -> None:
    def refuse(verb: str, path: str) -> None:
        if "/secrets/" in path:
            raise error

    api.refuse = refuse


def test_an_object_that_the_operator_may_not_read_is_reported() -> None:
    api = quorum_with_a_reassignment()
    refusing(api, DENIED)
    with pytest.raises(Forbidden):
        reconcile(api)
    for kind in ("Progressing", "QuorumReachable"):
        found = condition(api, kind)
        assert (found["status"], found["reason"]) == ("False", "Forbidden")
        assert found["reason"] in REASSIGNMENT_REASONS[kind]
        assert DENIED.message in found["message"]
        assert "service account" in found["message"], "the message has no advice"
    api.refuse = lambda verb, path: None
    reconcile(api)
    assert condition(api, "QuorumReachable")["reason"] != "Forbidden"


def test_an_outage_of_the_api_server_is_not_blamed_on_the_resource() -> None:
    api = quorum_with_a_reassignment()
    refusing(api, DOWN)
    with pytest.raises(Unavailable):
        reconcile(api)
    assert not condition(api, "QuorumReachable")


class Broken(PartitionClient):
    """A bug."""

    def __init__(self) -> None:
        super().__init__(httpx.AsyncClient())

    async def describe(self, *reported: object) -> Any:
        raise KeyError("partitions")


def test_a_bug_is_reported() -> None:
    api = quorum_with_a_reassignment()
    with pytest.raises(KeyError):
        reconcile(api, Broken())
    found = condition(api, "Progressing")
    assert found["reason"] == "InternalError"
    assert "KeyError" in found["message"]


@pytest.mark.parametrize("spec", [{**SPEC, "maxMovingPartitions": 0}, {}, None])
def test_invalid_spec_is_reported_and_later_resources_do_not_wait_for_it(
    spec: dict[str, Any] | None,
) -> None:
    """Such as one that another version of the definition has accepted."""
    api = quorum_with_a_reassignment(spec=spec)
    turns = Turns(lambda place: None)
    invalid, later = NamespacedName(SPACE, "moves"), NamespacedName(SPACE, "moves-2")
    turns.note(invalid, api.objects[PATH])
    turns.note(later, {"metadata": {"creationTimestamp": "2999"}, "spec": SPEC})
    reconcile(api, turns=turns)
    found = condition(api, "Progressing")
    assert found["reason"] == "SpecInvalid"
    assert "maxMovingPartitions" in found["message"] or not spec
    turns.note(invalid, api.objects[PATH])
    assert turns.ahead_of(later, NAME) is None


@pytest.mark.parametrize(
    "status",
    [
        {"conditions": [{"type": "Progressing", "status": "True", "lastTransitionTime": "now"}]},
        {"startedAt": "soon", "finishedAt": "later"},
        {"total": "many", "problems": "none", "phase": "Begun"},
    ],
)
def test_an_edited_status_is_written_again(status: dict[str, Any]) -> None:
    api = quorum_with_a_reassignment(status=status)
    reconcile(api)
    assert condition(api, "Progressing")["reason"] == "NoAnswer"
    assert api.objects[PATH]["status"]["total"] == 1


class _Partitions(PartitionClient):
    """A cluster with one partition; nothing may be changed."""

    def __init__(self, place: planner.PartitionReplicas) -> None:
        self._place = place

    async def describe(self, *_: object) -> planner.Cluster:
        moving = int(self._place.is_moving)
        return planner.Cluster({("t", 0): self._place}, {0: False, 1: False}, moving)


@pytest.mark.parametrize(
    ("place", "phase", "moving"),
    [
        (planner.PartitionReplicas((1, 0), (0,), (1,), (0,)), "Running", 1),
        (planner.PartitionReplicas((1,), (1,)), "Completed", 0),
        (planner.PartitionReplicas((0,), (0,)), "Pending", 0),
    ],
    ids=["under way", "arrived", "cancelled by somebody"],
)
def test_moves_are_followed_to_their_end_when_an_older_reassignment_is_resumed(
    place: planner.PartitionReplicas, phase: str, moving: int
) -> None:
    status = {"phase": "Running", "moving": 1, "total": 1}
    api = quorum_with_a_reassignment(status=status)
    turns = Turns(lambda place: None)
    turns.note(
        NamespacedName(SPACE, "moves"), {"metadata": {"creationTimestamp": "2999"}, "spec": SPEC}
    )
    turns.note(
        NamespacedName(SPACE, "older"), {"metadata": {"creationTimestamp": "2000"}, "spec": SPEC}
    )
    for _ in range(2):
        reconcile(api, partitions=_Partitions(place), turns=turns)
    found = api.objects[PATH]["status"]
    assert (found["phase"], found["moving"]) == (phase, moving)
    if phase != "Completed":
        assert "older reassigns partitions" in condition(api, "Progressing")["message"]
