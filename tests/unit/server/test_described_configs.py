"""DescribeConfigs: one request has one bounded answer, however many resources it names."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from quorum_node.controller import described_room
from quorum_node.image.resource_types import TOPIC
from quorum_node.protocol.apis import DESCRIBE_CONFIGS
from quorum_node.protocol.configs import DescribeConfigsRequest, DescribeConfigsResource
from quorum_node.protocol.errors import ErrorCode
from quorum_node.security.caller import ANONYMOUS
from support.hosted_node import running_node

REFUSED = ErrorCode.POLICY_VIOLATION


def named(names: Sequence[str]) -> DescribeConfigsRequest:
    resources = [DescribeConfigsResource(resource_type=TOPIC, resource_name=name) for name in names]
    return DescribeConfigsRequest(resources=tuple(resources))


def codes(answer: Any) -> list[int]:
    return [each.error_code for each in answer.results]


@pytest.mark.parametrize(("limit", "most"), [("MAX_ELEMENTS", 10), ("MAX_BYTES", 40)])
async def test_configs_beyond_the_response_size_limit_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    """The topic has five configs, with 38 bytes of names and values."""
    monkeypatch.setattr(described_room, limit, most)
    async with running_node(tmp_path / "data") as node:
        for number in range(4):
            await node.append(0, f"key{number}", "1234")
        twice = await node.ask(ANONYMOUS, DESCRIBE_CONFIGS, named(["t", "no", "t"]))
        assert codes(twice) == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]
        many = await node.ask(ANONYMOUS, DESCRIBE_CONFIGS, named(["t"] * 20_000))
        assert codes(many) == [0, 0] + [REFUSED] * 19_998
        assert many.results[-1].error_message
        assert sum(len(each.configs) for each in many.results) == 10


async def test_one_resource_is_described_whatever_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(described_room, "MAX_BYTES", 100)
    async with running_node(tmp_path / "data") as node:
        await node.append(0, "long", "x" * 30_000)
        answer = await node.ask(ANONYMOUS, DESCRIBE_CONFIGS, named(["t", "t"]))
        assert codes(answer) == [0, REFUSED]
        assert {len(each.value) for each in answer.results[0].configs} == {1, 30_000}


@pytest.mark.parametrize("version", [1, 4])
async def test_value_that_the_protocol_can_not_express_is_an_error_of_its_resource(
    tmp_path: Path, version: int
) -> None:
    """The answer could not be encoded, or no client could decode it."""
    async with running_node(tmp_path / "data") as node:
        await node.append(0, "fits", "\u00e9" * 16_383)
        whole = await node.ask(ANONYMOUS, DESCRIBE_CONFIGS, named(["t"]), version)
        assert codes(whole) == [0]
        await node.append(0, "long", "\u00e9" * 16_384)
        answer = await node.ask(ANONYMOUS, DESCRIBE_CONFIGS, named(["t", "no"]), version)
        assert codes(answer) == [ErrorCode.INVALID_CONFIG, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert answer.results[0].error_message.startswith("long: ")
