"""Requests that name one thing again and again: small for the client, and no more work for the broker than naming it once."""

from pathlib import Path

from quorum_node.protocol.broker_apis import LIST_OFFSETS, METADATA
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from quorum_node.protocol.metadata import MetadataRequest, MetadataRequestTopic
from quorum_node.server.broker.metadata_api import MetadataApi
from quorum_node.server.broker.offsets_api import OffsetsApi
from support.hosted_replicas import ME, HostedReplicas, answered, played


def test_metadata_response_has_each_topic_once(tmp_path: Path) -> None:
    async def steps() -> None:
        hosted = HostedReplicas(tmp_path)
        hosted.create("t")
        api = MetadataApi(ME, lambda: hosted.cluster.image, lambda: "c", lambda: 1)
        names = ("t", "missing", "t", "missing", "t")
        body = MetadataRequest(topics=tuple(MetadataRequestTopic(name=each) for each in names))
        answer = answered(api.metadata, METADATA, body)
        assert [each.name for each in answer.topics] == ["t", "missing"]
        hosted.close()

    played(steps())


def test_repeated_partition_in_list_offsets_is_rejected_as_by_a_stock_broker(
    tmp_path: Path,
) -> None:
    async def steps() -> None:
        hosted = HostedReplicas(tmp_path)
        hosted.create("t", (ME,), (ME,))
        asked = [ListOffsetsPartition(partition_index=each, timestamp=5) for each in (0, 1, 0)]
        topics = (
            ListOffsetsTopic(name="t", partitions=tuple(asked[:2])),
            ListOffsetsTopic(name="t", partitions=tuple(asked[2:])),
        )
        body = ListOffsetsRequest(replica_id=-1, topics=topics)
        answer = answered(OffsetsApi(hosted.replicas).list, LIST_OFFSETS, body)
        codes = [[each.error_code for each in topic.partitions] for topic in answer.topics]
        assert codes == [[ErrorCode.INVALID_REQUEST, 0], [ErrorCode.INVALID_REQUEST]]
        hosted.close()

    played(steps())
