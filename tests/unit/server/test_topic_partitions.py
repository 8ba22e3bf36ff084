"""DescribeTopicPartitions of a broker: in parts, in the order of names, with eligible leader replicas."""

from dataclasses import replace

import pytest

from quorum_node.controller.topics import create_topics
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.protocol.create_topics import CreateTopicsRequest, CreateTopicsResponse
from quorum_node.protocol.describe_topic_partitions import (
    DescribedTopicName,
    DescribeTopicPartitionsRequest,
    PartitionCursor,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.server.broker.topic_partitions_api import describe_topic_partitions
from support.controlled_cluster import ControlledCluster, assigned

LIVE = frozenset({1, 2})
Found = list[tuple[str, list[int]]]


@pytest.fixture
def image() -> ClusterImage:
    """Topics a (3 partitions), b (1) and c (2) on brokers 1 and 2."""
    cluster = ControlledCluster([1, 2])
    topics = [assigned(name, *[(1, 2)] * count) for name, count in (("c", 2), ("a", 3), ("b", 1))]
    request = CreateTopicsRequest(topics=tuple(topics))
    cluster.ask(create_topics, request, CreateTopicsResponse)
    return cluster.image


def walked(image: ClusterImage, limit: int, *names: str) -> list[Found]:
    """All parts, one after the other."""
    requested = tuple(DescribedTopicName(name=each) for each in names)
    request = DescribeTopicPartitionsRequest(topics=requested, response_partition_limit=limit)
    parts = []
    while True:
        answer = describe_topic_partitions(image, LIVE, request)
        parts.append(
            [
                (each.name or "", [found.partition_index for found in each.partitions])
                for each in answer.topics
            ]
        )
        if answer.next_cursor is None:
            return parts
        request = replace(request, cursor=answer.next_cursor)


def test_all_topics_are_described_in_pages(image: ClusterImage) -> None:
    assert walked(image, 100) == [[("a", [0, 1, 2]), ("b", [0]), ("c", [0, 1])]]
    assert walked(image, 2) == [[("a", [0, 1])], [("a", [2]), ("b", [0])], [("c", [0, 1])]]
    assert walked(image, 3) == [[("a", [0, 1, 2])], [("b", [0]), ("c", [0, 1])]]
    assert walked(image, 0) == walked(image, 1), "a limit of zero would never end"


def test_existing_and_unknown_topics_are_described(image: ClusterImage) -> None:
    assert walked(image, 3, "c", "bb", "a") == [[("a", [0, 1, 2]), ("bb", [])], [("c", [0, 1])]]
    requested = (DescribedTopicName(name="bb"),)
    answer = describe_topic_partitions(
        image, LIVE, DescribeTopicPartitionsRequest(topics=requested)
    )
    assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_cursor_of_a_deleted_topic_continues_after_it(image: ClusterImage) -> None:
    cursor = PartitionCursor(topic_name="aa", partition_index=1)
    request = DescribeTopicPartitionsRequest(topics=(), cursor=cursor)
    answer = describe_topic_partitions(image, LIVE, request)
    assert [each.name for each in answer.topics] == ["b", "c"]


def test_eligible_and_offline_replicas_are_described(image: ClusterImage) -> None:
    topic = image.topics.named("b")
    assert topic is not None
    now = replace(topic.partitions[0], isr=(1,), eligible_leader_replicas=(2,), last_known_elr=(1,))
    image = image.replay(now)
    requested = (DescribedTopicName(name="b"),)
    request = DescribeTopicPartitionsRequest(topics=requested)
    (found,) = describe_topic_partitions(image, frozenset({1}), request).topics[0].partitions
    assert (found.leader_id, found.isr_nodes, found.eligible_leader_replicas) == (1, (1,), (2,))
    assert (found.last_known_elr, found.offline_replicas) == ((1,), (2,))
    (found,) = describe_topic_partitions(image, frozenset({2}), request).topics[0].partitions
    assert (found.leader_id, found.error_code) == (-1, ErrorCode.NONE)


@pytest.mark.parametrize(
    ("names", "cursor"), [(("a", "c"), ("b", 0)), (("a",), ("a", -1)), ((), ("a", -1))]
)
def test_invalid_cursor_is_refused(
    image: ClusterImage, names: tuple[str, ...], cursor: tuple[str, int]
) -> None:
    request = DescribeTopicPartitionsRequest(
        topics=tuple(DescribedTopicName(name=each) for each in names),
        cursor=PartitionCursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    answer = describe_topic_partitions(image, LIVE, request)
    invalid = ErrorCode.INVALID_REQUEST
    assert [(each.name, each.error_code) for each in answer.topics] == [(n, invalid) for n in names]
    assert answer.next_cursor is None


def test_a_name_that_no_topic_can_have_is_refused(image: ClusterImage) -> None:
    names = ("a b", "__consumer_offsets")
    requested = tuple(DescribedTopicName(name=each) for each in names)
    answer = describe_topic_partitions(
        image, LIVE, DescribeTopicPartitionsRequest(topics=requested)
    )
    assert {each.name: (each.error_code, each.is_internal) for each in answer.topics} == {
        "a b": (ErrorCode.INVALID_TOPIC_EXCEPTION, False),
        "__consumer_offsets": (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True),
    }
