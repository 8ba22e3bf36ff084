"""Requests of a running node whose answers are made on the thread, so that commits don't wait for them."""

from pathlib import Path

import pytest

from quorum_node.protocol.api import Api
from quorum_node.protocol.apis import CREATE_TOPICS, DESCRIBE_CONFIGS, DESCRIBE_QUORUM
from quorum_node.protocol.configs import DescribeConfigsRequest, DescribeConfigsResource
from quorum_node.protocol.create_topics import CreatableTopic, CreateTopicsRequest
from quorum_node.protocol.describe import DescribeQuorumRequest, DescribeQuorumRequestTopic
from quorum_node.schema.schema import Message
from quorum_node.security.caller import ANONYMOUS
from support.counted_work import CountedWork
from support.hosted_node import OneConnection, running_node


def topics(count: int) -> CreateTopicsRequest:
    names = (f"topic-{each}" for each in range(count))
    return CreateTopicsRequest(topics=tuple(CreatableTopic(name=each) for each in names))


def partitions_of(count: int) -> DescribeQuorumRequest:
    names = (f"topic-{each}" for each in range(count))
    return DescribeQuorumRequest(
        topics=tuple(DescribeQuorumRequestTopic(topic_name=each, partitions=()) for each in names)
    )


BROKER_CONFIGS = DescribeConfigsRequest(
    resources=(DescribeConfigsResource(resource_type=4, resource_name=""),)
)


@pytest.mark.parametrize(
    ("api", "body", "pieces"),
    [
        (DESCRIBE_CONFIGS, BROKER_CONFIGS, 1),
        (CREATE_TOPICS, topics(1), 0),
        (CREATE_TOPICS, topics(100), 2),
        (DESCRIBE_QUORUM, partitions_of(1), 0),
        (DESCRIBE_QUORUM, partitions_of(100), 1),
    ],
)
async def test_long_answers_are_made_on_the_thread(
    tmp_path: Path, api: Api, body: Message, pieces: int
) -> None:
    thread = CountedWork()
    async with running_node(tmp_path) as node:
        await OneConnection(ANONYMOUS, thread).ask(node.api, api, body, api.max_version)
        assert thread.pieces == pieces
    thread.close()
