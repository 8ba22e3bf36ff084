"""Requests that contain one name many times: small for the client, and no more work for the broker than naming it once."""

import asyncio
import time
from pathlib import Path
from uuid import UUID

import pytest

from quorum_node.coordinator.requests import Committed, TopicPartition
from quorum_node.protocol.broker_apis import (
    DATA_FETCH,
    DELETE_RECORDS,
    LIST_OFFSETS,
    METADATA,
    OFFSET_FETCH,
)
from quorum_node.protocol.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.fetch import FetchPartition, FetchRequest, FetchTopic
from quorum_node.protocol.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from quorum_node.protocol.metadata import MetadataRequest, MetadataRequestTopic
from quorum_node.protocol.offset_fetch import (
    FetchedGroup,
    FetchedTopic,
    OffsetFetchRequest,
    OffsetFetchTopic,
)
from quorum_node.server.broker.delete_records_api import DeleteRecordsApi
from quorum_node.server.broker.events import BrokerEvents
from quorum_node.server.broker.fetch_api import FetchApi
from quorum_node.server.broker.group_coordinators import GroupCoordinators
from quorum_node.server.broker.group_offsets_api import GroupOffsetsApi
from quorum_node.server.broker.internal_topics import OFFSETS_TOPIC
from quorum_node.server.broker.metadata_api import MetadataApi
from quorum_node.server.broker.offsets_api import OffsetsApi
from support.data_batches import data_batch
from support.hosted_replicas import (
    ME,
    HostedReplicas,
    answered,
    broker_config,
    produce,
)

pytestmark = pytest.mark.virtual_time


async def test_metadata_response_has_each_topic_once(tmp_path: Path) -> None:
    hosted = HostedReplicas(tmp_path)
    hosted.create("t")
    api = MetadataApi(ME, lambda: hosted.cluster.image, lambda: "c", lambda: 1)
    names = ("t", "missing", "t", "missing", "t")
    body = MetadataRequest(topics=tuple(MetadataRequestTopic(name=each) for each in names))
    answer = answered(api.metadata, METADATA, body)
    assert [each.name for each in answer.topics] == ["t", "missing"]
    hosted.close()


async def test_repeated_partition_in_list_offsets_is_rejected_as_by_a_stock_broker(
    tmp_path: Path,
) -> None:
    hosted = HostedReplicas(tmp_path)
    hosted.create("t", (ME,), (ME,))
    requested = [ListOffsetsPartition(partition_index=each, timestamp=5) for each in (0, 1, 0)]
    topics = (
        ListOffsetsTopic(name="t", partitions=tuple(requested[:2])),
        ListOffsetsTopic(name="t", partitions=tuple(requested[2:])),
    )
    body = ListOffsetsRequest(replica_id=-1, topics=topics)
    answer = answered(OffsetsApi(hosted.replicas).list, LIST_OFFSETS, body)
    codes = [[each.error_code for each in topic.partitions] for topic in answer.topics]
    assert codes == [[ErrorCode.INVALID_REQUEST, 0], [ErrorCode.INVALID_REQUEST]]
    hosted.close()


async def test_metadata_by_name_has_a_topic_once_whatever_ids_are_beside_the_name(
    tmp_path: Path,
) -> None:
    hosted = HostedReplicas(tmp_path)
    hosted.create("t")
    api = MetadataApi(ME, lambda: hosted.cluster.image, lambda: "c", lambda: 1)
    requested = tuple(MetadataRequestTopic(name="t", topic_id=UUID(int=n)) for n in range(1, 9))
    answer = answered(api.metadata, METADATA, MetadataRequest(topics=requested))
    assert [each.name for each in answer.topics] == ["t"]
    hosted.close()


@pytest.mark.parametrize("version", [7, 9])
async def test_offset_fetch_has_each_committed_offset_once(tmp_path: Path, version: int) -> None:
    hosted = HostedReplicas(tmp_path)
    hosted.create("t")
    hosted.create(OFFSETS_TOPIC)
    settings = broker_config().groups.settings
    groups = GroupCoordinators(hosted.replicas, settings, 1000, BrokerEvents())
    groups.image_changed()
    await asyncio.sleep(1)
    (led,) = groups.led()
    offset = Committed(5, 0, "m" * 4096, 0, -1, None)
    led.table.offsets.commit("g", {TopicPartition("t", 0): offset})
    many = (0,) * 1000
    body = OffsetFetchRequest(
        group_id="g" if version < 8 else "",
        topics=(OffsetFetchTopic(name="t", partition_indexes=many),) * 2 if version < 8 else (),
        groups=()
        if version < 8
        else tuple(
            FetchedGroup(group_id="g", member_epoch=n, topics=topics)
            for n, topics in enumerate(
                [(FetchedTopic(name="t", partition_indexes=many),) * 2, None]
            )
        ),
    )
    answer = answered(GroupOffsetsApi(hosted.replicas, groups).fetch, OFFSET_FETCH, body, version)
    topics = answer.topics if version < 8 else [t for g in answer.groups for t in g.topics]
    assert [p.committed_offset for topic in topics for p in topic.partitions] == [5]
    groups.close()
    hosted.close()


async def test_fetch_reads_each_partition_once(tmp_path: Path) -> None:
    hosted = HostedReplicas(tmp_path)
    replica = hosted.create("t")
    data = data_batch(0).data
    assert isinstance(data, bytes)
    assert produce(replica, data)
    reads = []
    read = replica.read
    replica.read = lambda *given: reads.append(given) or read(*given)  # type: ignore[method-assign,func-returns-value,assignment]
    each = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    topic = FetchTopic(topic_id=hosted.cluster.topic_id("t"), partitions=(each,) * 100)
    body = FetchRequest(max_wait_ms=0, min_bytes=1, topics=(topic,) * 2)
    api = FetchApi(hosted.replicas, lambda broker_id, listener: None)
    answer = answered(api.handle, DATA_FETCH, body)
    found = [each for topic in answer.responses for each in topic.partitions]
    assert [bytes(each.records) for each in found] == [data]
    assert len(reads) == 1
    hosted.close()


async def test_delete_records_of_many_topics_takes_linear_time(tmp_path: Path) -> None:
    hosted = HostedReplicas(tmp_path)
    one = (DeleteRecordsPartition(partition_index=0, offset=0),)

    def seconds(count: int) -> float:
        topics = tuple(DeleteRecordsTopic(name=f"x{n}", partitions=one) for n in range(count))
        body = DeleteRecordsRequest(topics=topics, timeout_ms=0)
        begun = time.thread_time()
        answer = answered(DeleteRecordsApi(hosted.replicas).handle, DELETE_RECORDS, body)
        assert len(answer.topics) == count
        return time.thread_time() - begun

    seconds(100)
    assert seconds(8_000) < 200 * min(seconds(400) for _ in range(3))
    hosted.close()
