"""DescribeProducers of a broker: state of producers, and the error code of each partition as a stock broker has it."""

import asyncio
import errno
import os
from pathlib import Path
from typing import Any

import pytest

from quorum_node.broker.batch import Batch
from quorum_node.broker.events import BatchesFetched
from quorum_node.protocol.broker_apis import DESCRIBE_PRODUCERS
from quorum_node.protocol.describe_producers import (
    DescribedProducer,
    DescribeProducersRequest,
    DescribeProducersTopic,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.server.broker.fetched_batches import fetched_batches
from quorum_node.server.broker.producers_api import describe_producers
from quorum_node.server.broker.topic_lookup import May, anything
from quorum_node.storage.file_system import PosixFileSystem
from support.data_batches import data_batch, end_of_transaction
from support.hosted_replicas import ME, OTHER, HostedReplicas, answered, position_of, produce

pytestmark = pytest.mark.virtual_time


def described(hosted: HostedReplicas, *requested: tuple[str, int], may: May = anything) -> Any:
    topics = tuple(
        DescribeProducersTopic(name=name, partition_indexes=(index,)) for name, index in requested
    )
    return answered(
        lambda inbound, body: describe_producers(hosted.replicas, inbound, body, may),
        DESCRIBE_PRODUCERS,
        DescribeProducersRequest(topics=topics),
    ).topics


def codes(topics: Any) -> list[list[int]]:
    return [[each.error_code for each in topic.partitions] for topic in topics]


def bytes_of(batch: Batch) -> bytes:
    assert isinstance(batch.data, bytes)
    return batch.data


def as_fetched(*batches: Batch) -> tuple[Batch, ...]:
    """As a follower decodes them."""
    return fetched_batches(b"".join(bytes_of(each) for each in batches))


async def test_leader_describes_idempotent_producers(tmp_path: Path) -> None:
    hosted = HostedReplicas(tmp_path)
    replica = hosted.create("t")
    (none,) = described(hosted, ("t", 0))[0].partitions
    assert (none.error_code, none.error_message, none.active_producers) == (0, None, ())
    for number in range(7):
        batch = data_batch(
            0, 2, producer_id=7, producer_epoch=3, sequence=2 * number, timestamp_ms=50 + number
        )
        assert produce(replica, bytes_of(batch))
    other = data_batch(0, producer_id=8, sequence=0, timestamp_ms=90)
    assert produce(replica, bytes_of(other))
    assert produce(replica, bytes_of(data_batch(0)))
    (found,) = described(hosted, ("t", 0))[0].partitions
    assert sorted(found.active_producers, key=lambda each: each.producer_id) == [
        DescribedProducer(
            producer_id=7,
            producer_epoch=3,
            last_sequence=13,
            last_timestamp=56,
            coordinator_epoch=-1,
            current_txn_start_offset=-1,
        ),
        DescribedProducer(
            producer_id=8,
            producer_epoch=0,
            last_sequence=0,
            last_timestamp=90,
            coordinator_epoch=-1,
            current_txn_start_offset=-1,
        ),
    ]
    hosted.close()


async def test_follower_describes_the_open_transaction_and_the_last_coordinator_epoch(
    tmp_path: Path,
) -> None:
    hosted = HostedReplicas(tmp_path)
    follower = hosted.create("t", (OTHER, ME))

    def only() -> DescribedProducer:
        (found,) = described(hosted, ("t", 0))[0].partitions
        assert found.error_code == ErrorCode.NONE
        (producer,) = found.active_producers
        assert isinstance(producer, DescribedProducer)
        return producer

    begun = [
        data_batch(n, producer_id=7, sequence=n, transactional=True, timestamp_ms=10 + n)
        for n in range(2)
    ]
    follower.take(BatchesFetched(position_of(follower), as_fetched(*begun), 2, 0))
    assert (only().last_sequence, only().last_timestamp) == (1, 11)
    assert (only().current_txn_start_offset, only().coordinator_epoch) == (0, -1)
    marker = end_of_transaction(2, 7, abort=True, producer_epoch=1)
    follower.take(BatchesFetched(position_of(follower), as_fetched(marker), 3, 0))
    assert (only().current_txn_start_offset, only().coordinator_epoch) == (-1, 7)
    assert (only().producer_epoch, only().last_sequence) == (1, -1)
    assert only().last_timestamp == 1_000, "that of the marker"
    hosted.close()


async def test_partition_errors_are_those_of_a_stock_broker(tmp_path: Path) -> None:
    hosted = HostedReplicas(tmp_path)
    hosted.create("t", (ME,), (OTHER,))
    requested = (("t", 1), ("t", 2), ("unknown", 0), ("a topic", 0), ("", 0), ("t", 0), ("t", -1))
    topics = described(hosted, *requested)
    assert [each.name for each in topics] == ["t", "unknown", "a topic", ""]
    assert [each.partition_index for each in topics[0].partitions] == [1, 2, 0, -1]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(topics) == [
        [ErrorCode.NOT_LEADER_OR_FOLLOWER, unknown, ErrorCode.NONE, unknown],
        [unknown],
        [ErrorCode.INVALID_TOPIC_EXCEPTION],
        [ErrorCode.INVALID_TOPIC_EXCEPTION],
    ]
    for topic in topics:
        for each in topic.partitions:
            assert bool(each.error_message) == bool(each.error_code)
            assert not each.active_producers
    hosted.close()


async def test_caller_without_read_rights_cannot_detect_whether_a_topic_exists(
    tmp_path: Path,
) -> None:
    hosted = HostedReplicas(tmp_path)
    hosted.create("t")
    hosted.create("readable")
    requested = (("t", 0), ("t", 5), ("unknown", 0), ("a topic", 0), ("readable", 0))
    topics = described(hosted, *requested, may=lambda name: name == "readable")
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert codes(topics) == [
        [denied, denied],
        [denied],
        [ErrorCode.INVALID_TOPIC_EXCEPTION],
        [0],
    ]
    hosted.close()


async def test_repeated_partition_is_described_once(tmp_path: Path) -> None:
    hosted = HostedReplicas(tmp_path)
    hosted.create("t")
    topics = described(hosted, *[("t", 0)] * 50)
    assert codes(topics) == [[0]]
    hosted.close()


class FailingWrites(PosixFileSystem):
    """Writes fail as soon as `fails` is set."""

    fails = False

    def write(self, fd: int, data: bytes | memoryview) -> int:
        if self.fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().write(fd, data)

    def pwrite(self, fd: int, data: bytes | memoryview, position: int) -> int:
        if self.fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().pwrite(fd, data, position)


async def test_replica_on_a_failed_disk_describes_no_producers(tmp_path: Path) -> None:
    files = FailingWrites()
    hosted = HostedReplicas(tmp_path, files=files)
    replica = hosted.create("t")
    batch = data_batch(0, producer_id=7, sequence=0)
    assert produce(replica, bytes_of(batch))
    files.fails = True
    produce(replica, bytes_of(data_batch(0)))
    await asyncio.sleep(0)
    assert len(hosted.failures) == 1
    topics = described(hosted, ("t", 0))
    assert codes(topics) == [[ErrorCode.KAFKA_STORAGE_ERROR]]
    assert topics[0].partitions[0].active_producers == ()
