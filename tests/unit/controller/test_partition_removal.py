"""The partition count of a topic never decreases: the request is rejected with a reason, and a topic is deleted as a whole (KV3-05)."""

import pytest

from quorum_node.controller.partitions import create_partitions
from quorum_node.controller.topic_deletion import delete_topics
from quorum_node.controller.topics import create_topics
from quorum_node.protocol.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from quorum_node.protocol.create_topics import CreateTopicsRequest, CreateTopicsResponse
from quorum_node.protocol.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.records.metadata import RemoveTopicRecord
from support.controlled_cluster import ControlledCluster, assigned

pytestmark = pytest.mark.requirement("KV3-05")


@pytest.fixture
def cluster() -> ControlledCluster:
    """Topic t with three partitions on brokers 1 and 2."""
    cluster = ControlledCluster([1, 2])
    request = CreateTopicsRequest(topics=(assigned("t", (1, 2), (2, 1), (1, 2)),))
    cluster.ask(create_topics, request, CreateTopicsResponse)
    cluster.decided.clear()
    return cluster


@pytest.mark.parametrize("count", [2, 1, 0, -1])
def test_smaller_partition_count_is_rejected_with_the_reason(
    cluster: ControlledCluster, count: int
) -> None:
    before = cluster.image
    request = CreatePartitionsRequest(
        topics=(CreatePartitionsTopic(name="t", count=count, assignments=None),),
        timeout_ms=1000,
        validate_only=False,
    )
    (result,) = cluster.ask(create_partitions, request, CreatePartitionsResponse).results
    assert result.error_code == ErrorCode.INVALID_PARTITIONS
    assert "partitions can't be removed: Kafka has no record for that" in result.error_message
    assert cluster.image == before
    assert cluster.decided == []


def test_all_partitions_are_removed_with_the_topic(cluster: ControlledCluster) -> None:
    topic_id = cluster.topic_id("t")
    assert {cluster.image.topics.replica_count(each) for each in (1, 2)} == {3}
    request = DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),), timeout_ms=0)
    answer = cluster.ask(delete_topics, request, DeleteTopicsResponse)
    assert [each.error_code for each in answer.responses] == [ErrorCode.NONE]
    assert cluster.decided == [RemoveTopicRecord(topic_id=topic_id)]
    assert all(cluster.image.topics.partition(topic_id, each) is None for each in range(3))
    assert {cluster.image.topics.replica_count(each) for each in (1, 2)} == {0}
