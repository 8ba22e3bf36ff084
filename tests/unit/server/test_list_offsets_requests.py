"""ListOffsets of a broker: what consumers, replicas and consumers that debug learn, as from a stock broker."""

from pathlib import Path

import pytest

from quorum_node.broker.errors import BrokerError
from quorum_node.broker.events import BatchesFetched
from quorum_node.protocol.broker_apis import LIST_OFFSETS
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.list_offsets import (
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from quorum_node.records.metadata import PartitionChangeRecord
from quorum_node.server.broker.offsets_api import OffsetsApi
from support.data_batches import data_batch
from support.finished_search import finished
from support.hosted_replicas import ME, OTHER, HostedReplicas, answered, position_of, produce

pytestmark = pytest.mark.virtual_time

CONSUMER, DEBUGGING = -1, -2


def offset(
    hosted: HostedReplicas,
    replica_id: int,
    timestamp: int,
    version: int | None = None,
    name: str = "t",
) -> tuple[int, int]:
    """(error code, offset) of a topic."""
    requested = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    body = ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=1,
        topics=(ListOffsetsTopic(name=name, partitions=(requested,)),),
    )
    ((found,),) = [
        topic.partitions
        for topic in answered(OffsetsApi(hosted.replicas).list, LIST_OFFSETS, body, version).topics
    ]
    return found.error_code, found.offset


@pytest.mark.parametrize(
    ("replica_id", "latest", "newest"), [(CONSUMER, 0, -1), (DEBUGGING, 1, 0), (OTHER, 1, 0)]
)
async def test_leader_tells_consumers_what_is_committed_and_others_what_it_has(
    tmp_path: Path, replica_id: int, latest: int, newest: int
) -> None:
    hosted = HostedReplicas(tmp_path)
    data = data_batch(0).data
    assert isinstance(data, bytes)
    assert produce(hosted.create("t", (ME, OTHER)), data, acks=1)
    assert offset(hosted, replica_id, LATEST_TIMESTAMP) == (0, latest)
    assert offset(hosted, replica_id, MAX_TIMESTAMP) == (0, newest)
    assert offset(hosted, replica_id, 5) == (0, newest)
    hosted.close()


@pytest.mark.parametrize("replica_id", [CONSUMER, DEBUGGING, OTHER])
async def test_follower_answers_debugging_consumers_only(tmp_path: Path, replica_id: int) -> None:
    hosted = HostedReplicas(tmp_path)
    follower = hosted.create("t", (OTHER, ME))
    follower.take(BatchesFetched(position_of(follower), (data_batch(0),), 0, 0))
    refused = (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    expected = (0, 1) if replica_id == DEBUGGING else refused
    assert offset(hosted, replica_id, LATEST_TIMESTAMP) == expected
    hosted.close()


async def test_first_of_records_without_timestamps_is_the_newest(tmp_path: Path) -> None:
    hosted = HostedReplicas(tmp_path)
    replica = hosted.create("t")
    assert offset(hosted, CONSUMER, MAX_TIMESTAMP) == (0, -1)
    for timestamp_ms, newest in ((-1, 0), (-1, 0), (0, 2), (7, 3), (-1, 3)):
        data = data_batch(0, timestamp_ms=timestamp_ms).data
        assert isinstance(data, bytes)
        assert produce(replica, data, acks=1)
        assert offset(hosted, CONSUMER, MAX_TIMESTAMP) == (0, newest)
    hosted.close()


async def test_special_timestamp_is_refused_in_versions_that_do_not_have_it(tmp_path: Path) -> None:
    hosted = HostedReplicas(tmp_path)
    hosted.create("t")
    refused = (ErrorCode.UNSUPPORTED_VERSION, -1)
    for timestamp, since in ((-3, 7), (-4, 8), (-5, 9), (-6, 11)):
        assert offset(hosted, CONSUMER, timestamp, since - 1) == refused
        assert offset(hosted, CONSUMER, timestamp, since)[0] == 0
        assert offset(hosted, CONSUMER, timestamp, since - 1, "unknown") == refused
    assert offset(hosted, CONSUMER, -7, 11) == refused
    hosted.close()


async def test_search_in_a_log_that_is_truncated_meanwhile_finds_nothing(tmp_path: Path) -> None:
    """Without an error, a consumer would begin at the end of the log."""
    hosted = HostedReplicas(tmp_path)
    replica = hosted.create("t")
    data = data_batch(0, count=2_000, timestamp_ms=100, first_timestamp_ms=150).data
    assert isinstance(data, bytes)
    assert produce(replica, data, acks=1)
    replica.delete_records(1)
    search = replica.offset_at(120, 2_000)
    next(search)
    replica.log.restart_at(2_000)
    assert finished(search) is BrokerError.NOT_LEADER_OR_FOLLOWER
    assert not replica.has_failed
    hosted.close()


async def test_on_a_new_leader_only_committed_records_are_found_by_time(tmp_path: Path) -> None:
    """The high watermark lags behind the start of the epoch: its end is unknown, but not what is below it (KIP-207)."""
    hosted = HostedReplicas(tmp_path)
    replica = hosted.create("t", (ME, OTHER))
    for timestamp_ms in (100, 200):
        data = data_batch(0, timestamp_ms=timestamp_ms).data
        assert isinstance(data, bytes)
        assert produce(replica, data, acks=1)
    replica.follower_fetched(
        OTHER, hosted.cluster.epoch(OTHER), replica.core.leader_epoch, 1, -1, 0
    )
    assert replica.core.high_watermark == 1
    again = PartitionChangeRecord(
        partition_id=0, topic_id=replica.key.topic_id, leader=ME, isr=(ME, OTHER)
    )
    hosted.cluster.replay([again])
    hosted.replicas.apply(hosted.cluster.image)
    unknown = (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
    for timestamp, found in (
        (50, (0, 0)),
        (150, unknown),
        (LATEST_TIMESTAMP, unknown),
        (-3, (0, 0)),
    ):
        assert offset(hosted, CONSUMER, timestamp) == found
    assert offset(hosted, CONSUMER, 150, 4) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    hosted.close()


@pytest.mark.parametrize("level", [2, -1])
async def test_unknown_isolation_level_is_refused(tmp_path: Path, level: int) -> None:
    hosted = HostedReplicas(tmp_path)
    hosted.create("t")
    requested = ListOffsetsPartition(partition_index=0, timestamp=LATEST_TIMESTAMP)
    body = ListOffsetsRequest(
        replica_id=CONSUMER,
        isolation_level=level,
        topics=(ListOffsetsTopic(name="t", partitions=(requested,)),),
    )
    api = OffsetsApi(hosted.replicas)
    (topic,) = answered(api.list, LIST_OFFSETS, body).topics
    assert topic.partitions[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    hosted.close()
