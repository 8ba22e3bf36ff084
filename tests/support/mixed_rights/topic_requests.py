"""Requests about topics, partitions and records."""

from collections.abc import Iterator

from quorum_node.protocol import broker_apis
from quorum_node.protocol.configs import DescribeConfigsRequest, DescribeConfigsResource
from quorum_node.protocol.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from quorum_node.protocol.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersTopic,
)
from quorum_node.protocol.describe_topic_partitions import (
    DescribedTopicName,
    DescribeTopicPartitionsRequest,
)
from quorum_node.protocol.fetch import FetchPartition, FetchRequest, FetchTopic
from quorum_node.protocol.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from quorum_node.protocol.metadata import MetadataRequest, MetadataRequestTopic
from quorum_node.protocol.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from quorum_node.protocol.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from quorum_node.records.batches import Record, encode_batch
from support.mixed_rights.group_requests import PARTITIONS
from support.mixed_rights.items import EXISTING, NAMES, UNKNOWN_ID, Case, Ids, fixed

_TIME_MS = 1_700_000_000_000


def metadata() -> Iterator[Case]:
    """Metadata of all topics, of named ones and by id; DescribeTopicPartitions of all and of named ones."""
    api = broker_apis.METADATA
    named = tuple(MetadataRequestTopic(name=each) for each in NAMES)
    for topics in (named, None):
        for asks in (False, True):
            body = MetadataRequest(
                topics=topics,
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=asks,
                include_cluster_authorized_operations=asks,
            )
            yield from fixed(api, (8, 10), body)
            body = MetadataRequest(
                topics=topics,
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=asks,
            )
            yield from fixed(api, (12, 13), body)
        body = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        yield from fixed(api, (4, 7), body)

    def by_id(ids: Ids) -> MetadataRequest:
        wanted = (*map(ids.of, EXISTING), UNKNOWN_ID)
        return MetadataRequest(
            topics=tuple(MetadataRequestTopic(topic_id=each, name=None) for each in wanted),
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
        )

    yield api, 12, by_id
    yield api, 13, by_id
    for some in (tuple(DescribedTopicName(name=each) for each in NAMES), ()):
        yield from fixed(
            broker_apis.DESCRIBE_TOPIC_PARTITIONS,
            (0,),
            DescribeTopicPartitionsRequest(topics=some),
        )


def produces() -> Iterator[Case]:
    """Produce with and without a transactional id, by name and by id."""
    api = broker_apis.PRODUCE
    plain = encode_batch(
        base_offset=0, leader_epoch=-1, timestamp_ms=_TIME_MS, records=[Record(None, b"v")]
    )

    def named(transactional_id: str | None) -> ProduceRequest:
        return ProduceRequest(
            transactional_id=transactional_id,
            acks=-1,
            timeout_ms=5_000,
            topic_data=tuple(
                TopicProduceData(
                    name=name,
                    partition_data=tuple(
                        PartitionProduceData(index=each, records=plain) for each in PARTITIONS
                    ),
                )
                for name in NAMES
            ),
        )

    def by_id(ids: Ids) -> ProduceRequest:
        return ProduceRequest(
            acks=-1,
            timeout_ms=5_000,
            topic_data=tuple(
                TopicProduceData(
                    topic_id=each,
                    partition_data=(PartitionProduceData(index=0, records=plain),),
                )
                for each in (*map(ids.of, EXISTING), UNKNOWN_ID)
            ),
        )

    for transactional_id in (None, "mine", "other"):
        yield from fixed(api, (3, 9, 12), named(transactional_id))
    yield api, 13, by_id


def fetches() -> Iterator[Case]:
    """Fetch as a consumer, by name and by id."""
    parts = tuple(
        FetchPartition(partition=each, fetch_offset=0, partition_max_bytes=1 << 20)
        for each in PARTITIONS
    )
    named = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        topics=tuple(FetchTopic(topic=name, partitions=parts) for name in NAMES),
    )
    yield from fixed(broker_apis.DATA_FETCH, (4, 12), named)

    def by_id(ids: Ids) -> FetchRequest:
        wanted = (*map(ids.of, EXISTING), UNKNOWN_ID)
        return FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            topics=tuple(FetchTopic(topic_id=each, partitions=parts) for each in wanted),
        )

    yield broker_apis.DATA_FETCH, 13, by_id
    yield broker_apis.DATA_FETCH, 17, by_id


def partitions() -> Iterator[Case]:
    """ListOffsets, OffsetForLeaderEpoch, DeleteRecords and DescribeProducers."""
    lists = ListOffsetsRequest(
        replica_id=-1,
        topics=tuple(
            ListOffsetsTopic(
                name=name,
                partitions=tuple(
                    ListOffsetsPartition(partition_index=each, timestamp=-1) for each in PARTITIONS
                ),
            )
            for name in NAMES
        ),
    )
    yield from fixed(broker_apis.LIST_OFFSETS, (1, 5, 10), lists)
    epochs = OffsetForLeaderEpochRequest(
        topics=tuple(
            OffsetForLeaderTopic(
                topic=name,
                partitions=tuple(
                    OffsetForLeaderPartition(partition=each, leader_epoch=0) for each in PARTITIONS
                ),
            )
            for name in NAMES
        )
    )
    yield from fixed(broker_apis.OFFSET_FOR_LEADER_EPOCH, (2, 4), epochs)
    deletes = DeleteRecordsRequest(
        topics=tuple(
            DeleteRecordsTopic(
                name=name,
                partitions=tuple(
                    DeleteRecordsPartition(partition_index=each, offset=0) for each in PARTITIONS
                ),
            )
            for name in NAMES
        ),
        timeout_ms=5_000,
    )
    yield from fixed(broker_apis.DELETE_RECORDS, (0, 2), deletes)
    producers = DescribeProducersRequest(
        topics=tuple(
            DescribeProducersTopic(name=name, partition_indexes=PARTITIONS)
            for name in (*NAMES, "an invalid name!")
        )
    )
    yield from fixed(broker_apis.DESCRIBE_PRODUCERS, (0,), producers)


def configs() -> Iterator[Case]:
    """DescribeConfigs of topics, groups, brokers and client metrics in one request."""
    named = [(kind, name) for kind in (2, 32) for name in NAMES]
    body = DescribeConfigsRequest(
        resources=tuple(
            DescribeConfigsResource(
                resource_type=kind, resource_name=name, configuration_keys=("retention.ms",)
            )
            for kind, name in (*named, (4, ""), (16, "x"))
        ),
    )
    yield from fixed(broker_apis.BROKER_APIS[32], (1, 4), body)
