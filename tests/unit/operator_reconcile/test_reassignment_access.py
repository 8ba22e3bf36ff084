"""The calls of a PartitionReassignment have the admin token, so they wait until it is known how the members are reached."""

import asyncio
from typing import Any

import httpx
import pytest

from quorum_operator.kube import paths
from quorum_operator.kube.errors import Forbidden
from quorum_operator.metrics import Metrics
from quorum_operator.partition_client import PartitionClient
from quorum_operator.reassign import ReassignmentReconciler
from quorum_operator.turns import Turns
from support.in_memory_kube_api import (
    NAME,
    SPACE,
    HealthyNodes,
    InMemoryKubeApi,
    reconciler,
    running_quorum,
)
from support.secured_quorum import Env

PATH = paths.namespaced("partitionreassignments", SPACE, "moves")


def with_a_reassignment(api: InMemoryKubeApi) -> InMemoryKubeApi:
    moves = [{"topic": "t", "partition": 0, "replicas": [1]}]
    spec = {"quorum": NAME, "partitions": moves}
    api._keep(PATH, {"metadata": {"name": "moves", "namespace": SPACE}, "spec": spec})
    return api


def clear_text_calls(api: InMemoryKubeApi, quorums: Any) -> list[str]:
    """The addresses that a reconcile of the reassignment has called in clear text, with the token."""
    called: list[str] = []

    def seen(request: httpx.Request) -> httpx.Response:
        assert request.headers["Authorization"]
        called.append(str(request.url))
        return httpx.Response(503)

    async def run() -> None:
        async with httpx.AsyncClient(transport=httpx.MockTransport(seen)) as http:
            unchecked: Any = api
            turns = Turns(lambda place: None)
            made = ReassignmentReconciler(
                unchecked, PartitionClient(http), Metrics(), turns, access_to=quorums.access_to
            )
            await made.reconcile(SPACE, "moves")

    asyncio.run(run())
    return called


def condition_of(api: InMemoryKubeApi) -> str:
    found = api.objects[PATH]["status"]["conditions"]
    return next(str(each["reason"]) for each in found if each["type"] == "QuorumReachable")


def test_operator_that_has_just_started_sends_no_token_in_clear_text() -> None:
    env = Env()
    env.settle()
    with_a_reassignment(env.api)
    operator = env.operator()
    assert clear_text_calls(env.api, operator) == []
    assert condition_of(env.api) == "QuorumNotReady"
    env.looks(1, operator)
    assert clear_text_calls(env.api, operator) == []
    assert condition_of(env.api) != "QuorumNotReady", "its own client is used"


def test_quorum_whose_certificates_cannot_be_read_gets_no_token_in_clear_text() -> None:
    env = Env()
    env.settle()
    with_a_reassignment(env.api)
    operator = env.operator()

    def refuse(verb: str, path: str) -> None:
        if path.endswith("-trust"):
            raise Forbidden(403, "Forbidden", "configmaps is forbidden")

    env.api.refuse = refuse
    with pytest.raises(Forbidden):
        env.looks(1, operator)
    assert clear_text_calls(env.api, operator) == []


def test_quorum_in_clear_text_is_called_once_it_was_observed() -> None:
    api = with_a_reassignment(running_quorum(3))
    operator = reconciler(api, HealthyNodes(3))
    assert clear_text_calls(api, operator) == []
    asyncio.run(operator.reconcile(SPACE, NAME))
    assert clear_text_calls(api, operator)
