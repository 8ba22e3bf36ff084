"""A Secret that was deleted or changed: nodes that reject the token are reported, and restarted where it is safe."""

import asyncio
import base64

import httpx
import pytest

from quorum_operator import token_checks
from quorum_operator.admin_call import Answer
from quorum_operator.planner import restart
from quorum_operator.quorum_client import QuorumClient
from support.in_memory_kube_api import (
    NAME,
    SPACE,
    HealthyNodes,
    InMemoryKubeApi,
    pod_path,
    reconciler,
    running_quorum,
)

SECRET = f"/api/v1/namespaces/{SPACE}/secrets/demo-admin"


def deleted_pods(api: InMemoryKubeApi) -> list[str]:
    return [path for verb, path in api.writes if verb == "delete"]


@pytest.mark.requirement("OP-01")
def test_rejected_token_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    api, nodes = running_quorum(3), HealthyNodes(3)
    nodes.refusing = {"10.0.0.2"}
    asyncio.run(reconciler(api, nodes).reconcile(SPACE, NAME))
    condition = api.condition("Refused")
    assert (condition["status"], condition["reason"]) == ("True", "TokenRefused")
    assert "demo-2-1-0" in condition["message"]
    assert not deleted_pods(api), "the kubelet may still bring it"


@pytest.mark.parametrize("refusing", [1, 2])
def test_only_the_node_that_keeps_rejecting_the_token_restarts(
    refusing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader, too: it would refuse to transfer leadership."""
    monkeypatch.setattr(restart, "TOKEN_GRACE_S", 0.0)
    api, nodes = running_quorum(3), HealthyNodes(3)
    nodes.refusing = {f"10.0.0.{refusing}"}
    asyncio.run(reconciler(api, nodes).reconcile(SPACE, NAME))
    assert deleted_pods(api) == [pod_path(refusing)]


def test_no_pod_restarts_for_a_token_while_a_voter_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restart, "TOKEN_GRACE_S", 0.0)
    api, nodes = running_quorum(3), HealthyNodes(3, silent=(3,))
    nodes.refusing = {"10.0.0.1", "10.0.0.2"}
    asyncio.run(reconciler(api, nodes).reconcile(SPACE, NAME))
    assert not deleted_pods(api)
    assert api.condition("Refused")["reason"] == "TokenRefused"


def test_pod_that_accepted_the_token_is_queried_again_only_after_it_changes() -> None:
    api, nodes = running_quorum(3), HealthyNodes(3)
    made = reconciler(api, nodes)

    async def run(times: int) -> None:
        for _ in range(times):
            made._memory.forget(SPACE, NAME)  # all objects are due for a check
            await made.reconcile(SPACE, NAME)

    asyncio.run(run(5))
    assert nodes.asked_with == ["old"] * 3
    api.objects[SECRET]["data"] = {"token": "bmV3"}
    asyncio.run(run(5))
    assert nodes.asked_with[3:] == ["new"] * 3


def test_two_tokens_of_a_rotation_stay_and_the_first_is_used() -> None:
    api, nodes = running_quorum(3), HealthyNodes(3)
    two = base64.b64encode(b"new\nold\n").decode()
    api.objects[SECRET]["data"] = {"token": two}
    made = reconciler(api, nodes)
    for _ in range(3):
        made._memory.forget(SPACE, NAME)
        asyncio.run(made.reconcile(SPACE, NAME))
    assert api.objects[SECRET]["data"] == {"token": two}
    assert not [path for _, path in api.writes if path == SECRET]
    assert set(nodes.asked_with) == {"new"}


@pytest.mark.requirement("OP-01")
def test_condition_is_cleared_when_the_node_has_read_the_token() -> None:
    api, nodes = running_quorum(3), HealthyNodes(3)
    nodes.refusing = {"10.0.0.2"}
    made = reconciler(api, nodes)
    asyncio.run(made.reconcile(SPACE, NAME))
    nodes.refusing.clear()
    made._memory.forget(SPACE, NAME)
    asyncio.run(made.reconcile(SPACE, NAME))
    assert api.condition("Refused")["status"] == "False"


class Refusing(HealthyNodes):
    """Its leader answers 401 to changes."""

    async def remove_voter(self, *arguments: object) -> Answer:
        return Answer(False, "UNAUTHORIZED", "this call needs the admin token")

    resign = remove_voter


@pytest.mark.requirement("OP-01")
def test_rejected_change_is_reported_and_retried_with_backoff() -> None:
    api, nodes = running_quorum(3), Refusing(3)
    api.change_spec(replicas=1)
    made = reconciler(api, nodes)
    asyncio.run(made.reconcile(SPACE, NAME))
    condition = api.condition("Refused")
    assert (condition["status"], condition["reason"]) == ("True", "TokenRefused")
    assert [each["type"] for each in api.events] == ["Warning"]
    for _ in range(10):
        asyncio.run(made.reconcile(SPACE, NAME))
    assert len(api.events) == 1


@pytest.mark.parametrize(
    ("status", "takes"), [(401, False), (403, False), (404, True), (405, True), (200, True)]
)
def test_node_response_shows_whether_the_token_is_accepted(status: int, takes: bool) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.headers["authorization"] == "Bearer secret"
        return httpx.Response(status)

    async def ask() -> bool | None:
        async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
            return await QuorumClient(http).takes_token("10.0.0.1", "secret")

    assert asyncio.run(ask()) is takes
    assert token_checks.MOST_PODS > 1000
