"""DescribeTopicPartitions of a broker: topics in the order of their names, in pages of partitions.

Owns the order and the limit of a page. The partitions come from the committed image.
Source: KIP-966, "DescribeTopicPartitions"; the answers of a stock 4.3 broker.
"""

from collections.abc import Iterator
from itertools import islice

from quorum_node.controller.authorization import (
    UNRESTRICTED,
    AclOperation,
    AclResource,
    ListedRights,
)
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.image.partition import Partition
from quorum_node.image.topics import Topic
from quorum_node.protocol.describe import NO_AUTHORIZED_OPERATIONS
from quorum_node.protocol.describe_topic_partitions import (
    DescribedPartition,
    DescribedTopic,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    PartitionCursor,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.server.broker.authorized_operations import authorized_operations
from quorum_node.server.broker.internal_topics import INTERNAL_TOPICS
from quorum_node.server.broker.live_replicas import offline_replicas
from quorum_node.server.broker.topic_lookup import missing_topic, on_topics

MOST_PARTITIONS = 2000
"""Maximum number of partitions in one answer; the default of a stock broker's `max.request.partition.size.limit`."""
_NO_LEADER = -1


def describe_topic_partitions(
    image: ClusterImage,
    live: frozenset[int],
    body: DescribeTopicPartitionsRequest,
    rights: ListedRights = UNRESTRICTED,
) -> DescribeTopicPartitionsResponse:
    """The topics from the cursor on. An unknown topic gets an error and does not count as a partition."""
    may = on_topics(rights, AclOperation.DESCRIBE)

    def operations(name: str) -> int:
        return authorized_operations(rights, AclResource.TOPIC, name)

    limit = min(max(body.response_partition_limit, 1), MOST_PARTITIONS)
    cursor = body.cursor
    if cursor is not None and not _is_valid(cursor, body):
        invalid = dict.fromkeys(each.name for each in body.topics)
        return _answer([_refused(each, ErrorCode.INVALID_REQUEST) for each in invalid], None)
    start = ("", 0) if cursor is None else (cursor.topic_name, cursor.partition_index)
    topics: list[DescribedTopic] = []
    for name, topic in _asked(image, body):
        if name < start[0]:
            continue
        if not may(name):
            if body.topics:
                topics.append(_refused(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            continue
        if topic is None:
            topics.append(_refused(name, missing_topic(name), operations(name)))
            continue
        numbers = sorted(topic.partitions)
        if name == start[0]:
            numbers = [each for each in numbers if each >= start[1]]
        if numbers and limit == 0:
            return _answer(topics, PartitionCursor(topic_name=name, partition_index=numbers[0]))
        topics.append(_described(image, topic, numbers[:limit], live, operations(name)))
        left = next(islice(numbers, limit, None), None)
        if left is not None:
            return _answer(topics, PartitionCursor(topic_name=name, partition_index=left))
        limit -= len(numbers)
    return _answer(topics, None)


def _is_valid(cursor: PartitionCursor, body: DescribeTopicPartitionsRequest) -> bool:
    is_named = not body.topics or any(each.name == cursor.topic_name for each in body.topics)
    return is_named and cursor.partition_index >= 0


def _asked(
    image: ClusterImage, body: DescribeTopicPartitionsRequest
) -> Iterator[tuple[str, Topic | None]]:
    if not body.topics:
        for topic in sorted(image.topics, key=lambda each: each.name):
            yield topic.name, topic
        return
    for name in sorted({each.name for each in body.topics}):
        yield name, image.topics.named(name)


def _answer(
    topics: list[DescribedTopic], cursor: PartitionCursor | None
) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(topics=tuple(topics), next_cursor=cursor)


def _refused(
    name: str, error: ErrorCode, operations: int = NO_AUTHORIZED_OPERATIONS
) -> DescribedTopic:
    return DescribedTopic(
        error_code=error,
        name=name,
        is_internal=error != ErrorCode.TOPIC_AUTHORIZATION_FAILED and name in INTERNAL_TOPICS,
        partitions=(),
        topic_authorized_operations=operations,
    )


def _described(
    image: ClusterImage,
    topic: Topic,
    numbers: list[int],
    live: frozenset[int],
    operations: int,
) -> DescribedTopic:
    return DescribedTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        topic_authorized_operations=operations,
        partitions=tuple(_partition(image, each, topic.partitions[each], live) for each in numbers),
    )


def _partition(
    image: ClusterImage, number: int, now: Partition, live: frozenset[int]
) -> DescribedPartition:
    is_led = now.leader in live
    return DescribedPartition(
        # Also without a leader: a stock broker never sets an error here, unlike in Metadata.
        error_code=ErrorCode.NONE,
        partition_index=number,
        leader_id=now.leader if is_led else _NO_LEADER,
        leader_epoch=now.leader_epoch,
        replica_nodes=now.replicas,
        isr_nodes=now.isr,
        eligible_leader_replicas=now.eligible_leader_replicas or (),
        last_known_elr=now.last_known_elr or (),
        offline_replicas=offline_replicas(image.brokers, now, live),
    )
