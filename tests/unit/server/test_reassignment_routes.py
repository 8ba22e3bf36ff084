"""/v1/reassignments on a real node: moves begin, are limited, conditional, cancelled and followed; bad input."""

from pathlib import Path
from typing import Any

import pytest

from quorum_node.api import ErrorCode
from quorum_node.reassignment_api import PartitionDescriptions, ReassignResult
from support.hosted_moves import Moves, moving_partitions
from support.hosted_node import running_node

PATH = "/v1/reassignments"


async def change(moves: Moves, *targets: dict[str, Any], **fields: Any) -> ReassignResult:
    """Ask for moves."""
    patient = {"timeoutMs": 30_000} | fields
    answer = await moves.client.post(PATH, json={"partitions": targets, **patient})
    assert answer.status_code == 200, answer.text
    return ReassignResult.model_validate_json(answer.content)


async def described(moves: Moves) -> PartitionDescriptions:
    """Partitions 0 and 1 of t, and one that is not there."""
    names = [{"topic": "t", "partition": each} for each in (0, 1, 7)]
    answer = await moves.client.post(f"{PATH}/describe", json={"partitions": names})
    assert answer.status_code == 200, answer.text
    return PartitionDescriptions.model_validate_json(answer.content)


def to(partition: int, replicas: list[int] | None, **fields: Any) -> dict[str, Any]:
    return {"topic": "t", "partition": partition, "replicas": replicas, **fields}


async def test_move_starts_after_its_commit_and_is_reported_until_completion(
    tmp_path: Path,
) -> None:
    async with moving_partitions(tmp_path) as moves:
        assert await change(moves, to(0, [3, 1])) == ReassignResult(accepted=1, refused=[])
        seen = await described(moves)
        assert [(each.id, each.fenced) for each in seen.brokers] == [
            (1, False),
            (2, False),
            (3, False),
            (4, False),
        ]
        assert [each.partition for each in seen.partitions] == [0, 1], "there is no 7"
        first = seen.partitions[0]
        assert (first.replicas, first.isr) == ([3, 1, 2], [1, 2])
        assert (first.adding_replicas, first.removing_replicas) == ([3], [2])
        assert seen.moving == 1
        ongoing = PartitionDescriptions.model_validate_json((await moves.client.get(PATH)).content)
        assert ongoing.partitions == [first]
        await moves.catch_up(0, 1, 2, 3)
        seen = await described(moves)
        assert (seen.partitions[0].replicas, seen.moving) == ([3, 1], 0)


async def test_number_of_moving_partitions_is_limited_by_the_request(tmp_path: Path) -> None:
    async with moving_partitions(tmp_path) as moves:
        result = await change(moves, to(0, [3, 1]), to(1, [3, 1]), maxMoving=1)
        assert result.accepted == 1
        assert [(each.partition, each.error) for each in result.refused] == [
            (1, "THROTTLING_QUOTA_EXCEEDED")
        ]
        assert (await described(moves)).moving == 1
        assert (await change(moves, to(1, [3, 1]), maxMoving=2)).accepted == 1


async def test_change_with_a_stale_precondition_is_rejected(tmp_path: Path) -> None:
    async with moving_partitions(tmp_path) as moves:
        result = await change(moves, to(0, [3, 1], expectedReplicas=[2, 1]), to(1, [3, 1]))
        assert result.accepted == 1
        (refused,) = result.refused
        assert (refused.partition, refused.error) == (0, "STALE_REPLICAS")
        assert refused.message == "the replicas are [1, 2], not [2, 1]"
        result = await change(moves, to(1, None, expectedReplicas=[3, 1]))
        assert result.accepted == 0
        assert (await described(moves)).moving == 1
        result = await change(moves, to(1, None, expectedReplicas=[3, 1, 2]))
        assert result.accepted == 1
        seen = await described(moves)
        assert (seen.partitions[1].replicas, seen.moving) == ([1, 2], 0)


async def test_each_partition_has_its_own_error_and_others_move(tmp_path: Path) -> None:
    async with moving_partitions(tmp_path) as moves:
        unknown = {"topic": "none", "partition": 0, "replicas": [1]}
        result = await change(moves, unknown, to(1, [3, 1]), to(0, [9]), to(1, [4]))
        assert result.accepted == 1
        assert [(each.topic, each.partition, each.error) for each in result.refused] == [
            ("none", 0, "UNKNOWN_TOPIC_OR_PARTITION"),
            ("t", 0, "INVALID_REPLICA_ASSIGNMENT"),
            ("t", 1, "INVALID_REQUEST"),
        ]
        assert "broker 9 is not registered" in result.refused[1].message
        assert (await change(moves, to(0, None))).refused[0].error == "NO_REASSIGNMENT_IN_PROGRESS"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "partitions"),
        ({"partitions": []}, "partitions"),
        ({"partitions": [to(0, [])]}, "replicas"),
        ({"partitions": [to(-1, [1])]}, "partition"),
        ({"partitions": [to(0, [-1])]}, "replicas"),
        ({"partitions": [to(0, [1], expected=[2])]}, "expected"),
        ({"partitions": [{"topic": "t", "partition": 0}]}, "replicas"),
        ({"partitions": [to(each, [1]) for each in range(1001)]}, "1000"),
        ({"partitions": [to(0, [1])], "maxMoving": 0}, "maxMoving"),
        ({"partitions": [to(0, [1])], "timeoutMs": 0}, "timeoutMs"),
    ],
)
async def test_malformed_request_is_rejected_with_its_field(
    tmp_path: Path, body: dict[str, Any], says: str
) -> None:
    async with running_node(tmp_path) as node, node.client() as client:
        answer = await client.post(PATH, json=body)
        assert (answer.status_code, answer.json()["code"]) == (422, ErrorCode.INVALID_REQUEST)
        assert says in answer.json()["message"]


async def test_posts_require_the_token(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, node.client(token="secret") as client:
        for path, target in ((PATH, to(0, [1])), (f"{PATH}/describe", {"topic": "t"})):
            body = {"partitions": [{"partition": 0, **target}]}
            assert (await client.post(path, json=body)).status_code == 401
            given = {"Authorization": "Bearer secret"}
            assert (await client.post(path, json=body, headers=given)).status_code == 200


async def test_uncommitted_change_is_not_reported_as_done(tmp_path: Path) -> None:
    async with moving_partitions(tmp_path) as moves:
        moves.node.hosted.disk_low(True)
        answer = await moves.client.post(PATH, json={"partitions": [to(0, [3, 1])]})
        assert (answer.status_code, answer.json()["code"]) == (507, ErrorCode.DISK_LOW)
        moves.node.hosted.disk_low(False)
        assert (await described(moves)).moving == 0
        moves.node.hosted.request_shutdown()
        answer = await moves.client.post(PATH, json={"partitions": [to(0, [3, 1])]})
        assert answer.status_code == 503
