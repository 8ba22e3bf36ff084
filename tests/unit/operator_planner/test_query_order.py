"""Which pods the operator sends its token to: those that it was given, and never where a node points."""

import asyncio

import httpx

from quorum_node.api import ErrorBody, ErrorCode
from quorum_node.reassignment_api import ReassignResult
from quorum_operator.admin_call import Answer
from quorum_operator.partition_client import PartitionClient
from quorum_operator.planner.reassignment import BeginMoves, Change

PODS = ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
STEP = BeginMoves((Change("t", 0, (3, 4), (1, 2)),), 1, "")


def elsewhere() -> httpx.Response:
    body = ErrorBody(
        code=ErrorCode.NOT_LEADER,
        message="not here",
        leader_id=2,
        leader_url="http://10.9.9.9:8080",
    )
    return httpx.Response(421, content=body.model_dump_json(by_alias=True))


def refused(code: ErrorCode, status: int) -> httpx.Response:
    body = ErrorBody(code=code, message="no")
    return httpx.Response(status, content=body.model_dump_json(by_alias=True))


def changed(answers: dict[str, httpx.Response]) -> tuple[Answer, list[str]]:
    """The outcome of a change, and the addresses that received the token."""
    requested: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        assert request.headers["authorization"] == "Bearer secret"
        requested.append(request.url.host)
        return answers[request.url.host]

    async def change() -> Answer:
        async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
            return await PartitionClient(http).change(PODS, "secret", STEP)

    return asyncio.run(change()), requested


def test_change_is_sent_to_the_pods_in_turn_until_the_leader_answers() -> None:
    done = httpx.Response(
        200, content=ReassignResult(accepted=1, refused=[]).model_dump_json(by_alias=True)
    )
    answer, requested = changed(dict(zip(PODS, [elsewhere(), done, elsewhere()], strict=True)))
    assert answer.done
    assert requested == PODS[:2]


def test_rejection_by_the_leader_takes_precedence_over_that_of_others() -> None:
    refusal = refused(ErrorCode.DISK_LOW, 507)
    for order in ([elsewhere(), refusal, elsewhere()], [refusal, elsewhere(), elsewhere()]):
        answer, requested = changed(dict(zip(PODS, order, strict=True)))
        assert (answer.done, answer.code) == (False, ErrorCode.DISK_LOW)
        assert requested == PODS


def test_missing_leader_is_reported() -> None:
    answer, requested = changed({pod: elsewhere() for pod in PODS})
    assert (answer.done, answer.code) == (False, ErrorCode.NOT_LEADER)
    assert requested == PODS
