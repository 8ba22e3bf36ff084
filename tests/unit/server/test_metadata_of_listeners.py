"""Metadata of partitions whose leader lacks the client's listener, as from a stock broker."""

from dataclasses import replace

import pytest

from quorum_node.controller.topics import create_topics
from quorum_node.protocol.create_topics import CreateTopicsRequest, CreateTopicsResponse
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
