"""Metadata of partitions whose leader lacks the client's listener, as from a stock broker."""

from dataclasses import replace

import pytest

from quorum_node.controller.topics import create_topics
from quorum_node.protocol.create_topics import CreateTopicsRequest, CreateTopicsResponse
from quorum_node.protocol.describe_topic_partitions import (
    DESCRIBE_TOPIC_PARTITIONS,
    DescribedTopicName,
    DescribeTopicPartitionsRequest,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.metadata import METADATA, MetadataRequest, MetadataRequestTopic
from quorum_node.records.metadata import NodeEndpoint
from quorum_node.server.broker.metadata_api import MetadataApi
from support.controlled_cluster import ControlledCluster, assigned
from support.hosted_replicas import ME, OTHER, answered

pytestmark = pytest.mark.virtual_time


@pytest.fixture
def cluster() -> ControlledCluster:
    """Broker ME with the listener of the client, OTHER with another one, and a partition led by each."""
    cluster = ControlledCluster((ME, OTHER))
    for broker_id, listener in ((ME, "PLAINTEXT"), (OTHER, "INSIDE")):
        registered = cluster.image.brokers.get(broker_id)
        assert registered is not None
        end_point = NodeEndpoint(name=listener, host="here", port=9092, security_protocol=0)
        cluster.replay([replace(registered, end_points=(end_point,))])
    topics = (assigned("t", (ME, OTHER), (OTHER, ME)),)
    cluster.ask(create_topics, CreateTopicsRequest(topics=topics), CreateTopicsResponse)
    return cluster


def leaders(cluster: ControlledCluster, version: int) -> list[tuple[int, int]]:
    api = MetadataApi(ME, lambda: cluster.image, lambda: "c", lambda: 1)
    request = MetadataRequest(topics=(MetadataRequestTopic(name="t"),))
    answer = answered(api.metadata, METADATA, request, version)
    return [(each.error_code, each.leader_id) for each in answer.topics[0].partitions]


@pytest.mark.parametrize(
    ("version", "error"),
    [
        (5, ErrorCode.LEADER_NOT_AVAILABLE),
        (6, ErrorCode.LISTENER_NOT_FOUND),
        (13, ErrorCode.LISTENER_NOT_FOUND),
    ],
)
async def test_a_leader_without_the_listener_is_named_as_the_reason(
    cluster: ControlledCluster, version: int, error: ErrorCode
) -> None:
    assert leaders(cluster, version) == [(ErrorCode.NONE, ME), (error, -1)]


async def test_a_fenced_leader_is_not_available(cluster: ControlledCluster) -> None:
    cluster.fence(OTHER)
    assert leaders(cluster, 13) == [(ErrorCode.NONE, ME), (ErrorCode.LEADER_NOT_AVAILABLE, -1)]


async def test_described_partitions_without_a_usable_leader_have_no_error(
    cluster: ControlledCluster,
) -> None:
    """DescribeTopicPartitions has a field for an error, which a stock broker never sets."""
    api = MetadataApi(ME, lambda: cluster.image, lambda: "c", lambda: 1)
    request = DescribeTopicPartitionsRequest(topics=(DescribedTopicName(name="t"),))
    answer = answered(api.topic_partitions, DESCRIBE_TOPIC_PARTITIONS, request)
    assert [(each.error_code, each.leader_id) for each in answer.topics[0].partitions] == [
        (ErrorCode.NONE, ME),
        (ErrorCode.NONE, -1),
    ]


@pytest.mark.parametrize(
    ("version", "error", "replicas"),
    [(0, ErrorCode.REPLICA_NOT_AVAILABLE, (ME,)), (1, ErrorCode.NONE, (ME, OTHER))],
)
async def test_replicas_that_a_client_can_not_reach_are_left_out_in_version_0(
    cluster: ControlledCluster, version: int, error: ErrorCode, replicas: tuple[int, ...]
) -> None:
    api = MetadataApi(ME, lambda: cluster.image, lambda: "c", lambda: 1)
    request = MetadataRequest(topics=(MetadataRequestTopic(name="t"),))
    answer = answered(api.metadata, METADATA, request, version)
    first = answer.topics[0].partitions[0]
    assert (first.error_code, first.leader_id) == (error, ME)
    assert (tuple(first.replica_nodes), tuple(first.isr_nodes)) == (replicas, replicas)
