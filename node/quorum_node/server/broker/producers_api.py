"""DescribeProducers: the producers in the state of a replica, and their open transactions.

Owns the form of the answer and its error codes. Followers answer as well, because they keep the same state as leaders.
Source: KIP-664; the rules of a stock broker (`KafkaApis.handleDescribeProducersRequest`, `Partition.activeProducerState`).
"""

from collections.abc import Iterator

from quorum_node.broker.errors import BrokerError
from quorum_node.broker.producers import ProducerEntry
from quorum_node.controller.topic_names import name_fault
from quorum_node.protocol.describe_producers import (
    UNKNOWN,
    DescribedProducer,
    DescribeProducersPartitionResult,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersTopicResult,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.server.broker.assigned_replicas import AssignedReplicas
from quorum_node.server.broker.topic_lookup import Found, May, anything, look_up
from quorum_node.server.listener.port import InboundRequest


def describe_producers(
    replicas: AssignedReplicas,
    inbound: InboundRequest,
    body: DescribeProducersRequest,
    may: May = anything,
) -> None:
    """Answer for all partitions of the request, with the form of the answer made on the thread: a partition may have any number of
    producers. `may`: whether the caller may read a topic."""
    inbound.use_thread()
    inbound.in_pieces(_look_up(replicas, inbound, body, may))


def _look_up(
    replicas: AssignedReplicas, inbound: InboundRequest, body: DescribeProducersRequest, may: May
) -> Iterator[None]:
    # Repeated partitions are dropped: a partition with many producers, repeated thousands of times, would fill the memory.
    by_topic: dict[str, dict[int, None]] = {}
    for topic in body.topics:
        by_topic.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
        yield
    topics = []
    for name, indexes in by_topic.items():
        yield
        fault, found = name_fault(name), []
        for each in indexes:
            found.append(
                _of_partition(replicas, name, each, may)
                if fault is None
                else _refused(each, ErrorCode.INVALID_TOPIC_EXCEPTION, fault)
            )
            yield
        topics.append((name, found))
    inbound.reply_made(
        lambda: DescribeProducersResponse(
            topics=tuple(
                DescribeProducersTopicResult(
                    name=name, partitions=tuple(_result(each) for each in found)
                )
                for name, found in topics
            )
        )
    )


_Producers = tuple[int, tuple[ProducerEntry, ...]]
"""A partition and its producers."""


def _of_partition(
    replicas: AssignedReplicas, name: str, index: int, may: May
) -> DescribeProducersPartitionResult | _Producers:
    found = look_up(replicas, None, name, index, may)
    if not isinstance(found, Found):
        return _refused(index, found, _TEXTS[found])
    if found.replica is None:
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return _refused(index, error, "this broker has no replica of the partition")
    return index, found.replica.core.producers()


def _result(
    found: DescribeProducersPartitionResult | _Producers,
) -> DescribeProducersPartitionResult:
    if isinstance(found, DescribeProducersPartitionResult):
        return found
    index, producers = found
    return DescribeProducersPartitionResult(
        partition_index=index,
        error_code=ErrorCode.NONE,
        active_producers=tuple(_described(each) for each in producers),
    )


_TEXTS = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "READ on the topic is missing",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "there is no such partition",
    ErrorCode.KAFKA_STORAGE_ERROR: BrokerError.KAFKA_STORAGE_ERROR.value,
}


def _refused(index: int, error: ErrorCode, text: str) -> DescribeProducersPartitionResult:
    return DescribeProducersPartitionResult(
        partition_index=index, error_code=error, error_message=text
    )


def _described(entry: ProducerEntry) -> DescribedProducer:
    return DescribedProducer(
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        last_sequence=entry.batches[-1].last_sequence if entry.batches else UNKNOWN,
        last_timestamp=entry.timestamp_ms,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.transaction_start,
    )
