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
from quorum_node.records.metadata import PartitionChangeRecord
from quorum_node.server.broker.offsets_api import OffsetsApi
from support.data_batches import data_batch
from support.hosted_replicas import ME, HostedReplicas, answered, produce

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
    assert latest(hosted) == (0, 6, 0)
    hosted.close()


async def test_end_before_an_open_transaction_has_the_present_leader_epoch(tmp_path: Path) -> None:
    """As on a stock leader, also if the record at this offset is of an earlier epoch."""
    hosted = HostedReplicas(tmp_path)
    replica = hosted.create("t")
    begun = data_batch(0, producer_id=7, sequence=0, transactional=True)
    guard = replica.core.guard(begun._replace(is_transactional=True), 0, adds=False)
    assert isinstance(begun.data, bytes)
    assert produce(replica, begun.data, guard=guard)
    elected = PartitionChangeRecord(partition_id=0, topic_id=replica.key.topic_id, leader=ME)
    hosted.cluster.replay([elected])
    hosted.replicas.apply(hosted.cluster.image)
    assert latest(hosted) == (0, 0, 1)
    hosted.close()


def latest(hosted: HostedReplicas) -> tuple[int, int, int]:
    """(error code, offset, leader epoch)"""
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
    return found.error_code, found.offset, found.leader_epoch
