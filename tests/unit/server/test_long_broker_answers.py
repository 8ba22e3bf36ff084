"""Descriptions by a broker are made on the thread, so that the data and the commits of its process don't wait for them."""

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from quorum_node.protocol.acls import DescribeAclsRequest
from quorum_node.protocol.api import Api
from quorum_node.protocol.apis import DESCRIBE_ACLS, DESCRIBE_CONFIGS
from quorum_node.protocol.broker_apis import (
    BROKER_APIS,
    DESCRIBE_CLIENT_QUOTAS,
    DESCRIBE_TOPIC_PARTITIONS,
    METADATA,
)
from quorum_node.protocol.configs import DescribeConfigsRequest, DescribeConfigsResource
from quorum_node.protocol.describe_client_quotas import DescribeClientQuotasRequest
from quorum_node.protocol.describe_topic_partitions import DescribeTopicPartitionsRequest
from quorum_node.protocol.frames import SIZE_BYTES, decode_request, encode_request
from quorum_node.protocol.metadata import MetadataRequest, MetadataRequestTopic
from quorum_node.schema.schema import Message
from quorum_node.security.caller import ANONYMOUS
from quorum_node.server.broker.broker_api import BrokerApi
from quorum_node.server.broker.metadata_api import MetadataApi
from quorum_node.server.listener.port import InboundRequest
from support.counted_work import CountedWork
from support.hosted_node import OneConnection
from support.hosted_replicas import ME, HostedReplicas

MANY = 100
ONE_CONFIG = DescribeConfigsRequest(
    resources=(DescribeConfigsResource(resource_type=2, resource_name="few"),)
)
ALL_ACLS = DescribeAclsRequest(
    resource_type_filter=1,
    resource_name_filter=None,
    pattern_type_filter=1,
    principal_filter=None,
    host_filter=None,
    operation=1,
    permission_type=1,
)


def named(name: str) -> MetadataRequest:
    return MetadataRequest(topics=(MetadataRequestTopic(name=name),))


@pytest.mark.parametrize(
    ("api", "body", "pieces"),
    [
        (METADATA, named("few"), 0),
        (METADATA, named("many"), 1),
        (METADATA, MetadataRequest(topics=None), 1),
        (DESCRIBE_TOPIC_PARTITIONS, DescribeTopicPartitionsRequest(topics=()), 1),
        (DESCRIBE_CONFIGS, ONE_CONFIG, 1),
        (DESCRIBE_ACLS, ALL_ACLS, 1),
        (DESCRIBE_CLIENT_QUOTAS, DescribeClientQuotasRequest(components=(), strict=False), 1),
    ],
)
async def test_descriptions_are_made_on_the_thread(
    tmp_path: Path, api: Api, body: Message, pieces: int
) -> None:
    hosted = HostedReplicas(tmp_path)
    hosted.create("few")
    hosted.create_elsewhere("many", MANY)
    metadata = MetadataApi(ME, lambda: hosted.cluster.image, lambda: "c", lambda: 1)
    none = cast(Any, None)
    broker = BrokerApi(ME, hosted.replicas, metadata, none, none, {}, none, none, none, none)
    thread = CountedWork()
    connection = OneConnection(ANONYMOUS, thread)
    frame = encode_request(api, api.max_version, 1, "a client", body)[SIZE_BYTES:]
    inbound = InboundRequest(
        connection, decode_request(frame, BROKER_APIS), 0.0, len(frame), thread
    )
    broker.handle(inbound)
    async with asyncio.timeout(10):
        while inbound.encoded is None:
            await connection.written()
    assert thread.pieces == pieces
    thread.close()
    hosted.close()
