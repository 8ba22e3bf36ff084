"""The last stable offset of a partition when the records of an open transaction are deleted."""

from pathlib import Path

import pytest

from quorum_node.protocol.broker_apis import LIST_OFFSETS
from quorum_node.protocol.list_offsets import (
    LATEST_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from quorum_node.server.broker.offsets_api import OffsetsApi
from support.data_batches import data_batch
from support.hosted_replicas import HostedReplicas, answered, produce

pytestmark = pytest.mark.virtual_time

CONSUMER, READ_COMMITTED = -1, 1


async def test_last_stable_offset_is_not_before_the_start_of_the_log(tmp_path: Path) -> None:
    """A consumer that begins at the end would otherwise get an offset out of range, again and again."""
    hosted = HostedReplicas(tmp_path)
    replica = hosted.create("t")
    begun = data_batch(0, producer_id=7, sequence=0, transactional=True)
    guard = replica.core.guard(begun._replace(is_transactional=True), 0, adds=False)
    assert isinstance(begun.data, bytes)
    assert produce(replica, begun.data, guard=guard)
    for _ in range(9):
        data = data_batch(0).data
        assert isinstance(data, bytes)
        assert produce(replica, data)
    assert replica.last_stable_offset == 0
    replica.delete_records(6)
    assert replica.last_stable_offset == 6
    asked = ListOffsetsPartition(partition_index=0, timestamp=LATEST_TIMESTAMP)
    body = ListOffsetsRequest(
        replica_id=CONSUMER,
        isolation_level=READ_COMMITTED,
        topics=(ListOffsetsTopic(name="t", partitions=(asked,)),),
    )
    ((found,),) = [
        topic.partitions
        for topic in answered(OffsetsApi(hosted.replicas).list, LIST_OFFSETS, body).topics
    ]
    assert (found.error_code, found.offset) == (0, 6)
    hosted.close()
