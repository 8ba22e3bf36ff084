"""A change of `min.insync.replicas` clears eligible leader replicas, also if it comes by the admin API (KIP-966)."""

from pathlib import Path
from typing import Any

import pytest

from support.broker_requests import heartbeat
from support.hosted_moves import Moves, moving_partitions
from support.single_replica import until

VALUE = "/v1/configs/topic/t/min.insync.replicas"


def put(value: str) -> tuple[str, str, dict[str, Any]]:
    return "PUT", VALUE, {"value": value}


def append(resource_type: str, resource_name: str, value: str) -> tuple[str, str, dict[str, Any]]:
    entry = {"resourceType": resource_type, "resourceName": resource_name}
    return (
        "POST",
        "/v1/append",
        {"entries": [entry | {"name": "min.insync.replicas", "value": value}]},
    )


def eligible(moves: Moves) -> tuple[int, ...]:
    topic = moves.node.hosted.first.applier.image.topics.named("t")
    assert topic is not None
    return topic.partitions[0].eligible_leader_replicas or ()


@pytest.mark.parametrize(
    "change", [put("1"), append("topic", "t", "1"), append("broker", "-", "1")]
)
async def test_replica_is_not_eligible_under_a_lower_minimum(
    tmp_path: Path, change: tuple[str, str, dict[str, Any]]
) -> None:
    """From then on the leader acknowledges messages that the other replica does not have."""
    async with moving_partitions(tmp_path) as moves:
        method, path, body = put("2")
        assert (await moves.client.request(method, path, json=body)).status_code == 200
        epoch = moves._epochs[2]
        assert (await moves.ask(heartbeat(2, epoch, 10**6, want_fence=True))).is_fenced
        await until(lambda: eligible(moves) == (2,))
        method, path, body = change
        answer = await moves.client.request(method, path, json=body)
        assert answer.status_code == 200, answer.text
        await until(lambda: eligible(moves) == ())
