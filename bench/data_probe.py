"""Finds the leader and writes single records to it, without a client library, which would determine the retry times."""

from typing import NamedTuple
from uuid import UUID

from quorum_node.protocol import broker_apis
from quorum_node.protocol.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from quorum_node.protocol.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from quorum_node.records.batches import Record, encode_batch
from quorum_node.schema.schema import MalformedMessage
from support.one_request import ask

_SECONDS = 2.0


class Led(NamedTuple):
    """Leader of partition 0 of a topic."""

    topic_id: UUID
    leader: int


def metadata_of(port: int, topic: str) -> Led | None:
    """The metadata from a broker; None without an answer or without a leader."""
    api = broker_apis.METADATA
    body = MetadataRequest(
        topics=(MetadataRequestTopic(name=topic),), allow_auto_topic_creation=False
    )
    try:
        answer = ask(("127.0.0.1", port), api, api.max_version, body, _SECONDS)
    except (OSError, MalformedMessage):
        return None
    assert isinstance(answer, MetadataResponse)
    found = answer.topics[0]
    if found.error_code or not found.partitions or found.topic_id is None:
        return None
    leader = min(found.partitions, key=lambda each: each.partition_index).leader_id
    return None if leader < 0 else Led(found.topic_id, leader)


def produce_one(ports: dict[int, int], told_by: int, topic: str) -> bool:
    """Whether the leader, according to a broker, acknowledges a record with acks=all."""
    led = metadata_of(told_by, topic)
    if led is None or led.leader not in ports:
        return False
    data = encode_batch(
        base_offset=0, leader_epoch=-1, timestamp_ms=1, records=[Record(None, b"x" * 100)]
    )
    partition = PartitionProduceData(index=0, records=data)
    topics = (TopicProduceData(topic_id=led.topic_id, partition_data=(partition,)),)
    body = ProduceRequest(acks=-1, timeout_ms=1_500, topic_data=topics)
    api = broker_apis.PRODUCE
    try:
        answer = ask(("127.0.0.1", ports[led.leader]), api, api.max_version, body, _SECONDS)
    except (OSError, MalformedMessage):
        return False
    assert isinstance(answer, ProduceResponse)
    return not answer.responses[0].partition_responses[0].error_code
