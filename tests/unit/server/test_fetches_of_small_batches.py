"""Fetch answers of many small batches: the loop examines a bounded number of headers for each, and each of them once."""

from pathlib import Path
from struct import Struct
from typing import Any

import pytest

from quorum_node.broker.batch import Batch
from quorum_node.broker.events import BatchesFetched
from quorum_node.protocol.broker_apis import DATA_FETCH
from quorum_node.protocol.fetch import FetchPartition, FetchRequest, FetchTopic
from quorum_node.server.broker import fetch_api
from quorum_node.server.broker.fetch_api import MOST_BATCHES, FetchApi
from quorum_node.server.broker.hosted_replica import HostedReplica
from quorum_node.server.broker.isolation_levels import READ_COMMITTED
from quorum_node.storage.broker import batch_walk, data_segment
from support.data_batches import data_batch, end_of_transaction
from support.hosted_replicas import ME, OTHER, HostedReplicas, answered, position_of

pytestmark = pytest.mark.virtual_time
MANY = MOST_BATCHES * 3 // 2
LATE = MOST_BATCHES + 5_000
INDEX_HEADERS = 100
"""What is examined to find the first batch, after the nearest entry of the index."""


class CountedHeaders:
    """A struct of a header, and how often it was used."""

    def __init__(self, header: Struct) -> None:
        self._header = header
        self.size = header.size
        self.count = 0

    def unpack_from(self, buffer: Any, offset: int = 0) -> tuple[Any, ...]:
        self.count += 1
        return self._header.unpack_from(buffer, offset)


def batch(offset: int) -> Batch:
    """Two producers have aborted a transaction each, one in the first answer and one in the second."""
    for producer_id, begin in ((1, 0), (2, LATE)):
        if offset == begin:
            return data_batch(offset, producer_id=producer_id, sequence=0, transactional=True)
        if offset == begin + 10:
            return end_of_transaction(offset, producer_id, abort=True)
    return data_batch(offset, value_bytes=1)


def filled(hosted: HostedReplicas, count: int, *topics: str) -> HostedReplica:
    """Followers that serve consumers, as their batches come with fewer steps."""
    for name in topics:
        follower = hosted.create(name, (OTHER, ME))
        batches = tuple(batch(offset) for offset in range(count))
        follower.take(BatchesFetched(position_of(follower), batches, count, 0))
    return follower


def fetched(hosted: HostedReplicas, offset: int, *topics: str) -> list[Any]:
    """The partitions of the answer."""
    part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=32 << 20)
    body = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=32 << 20,
        isolation_level=READ_COMMITTED,
        topics=tuple(
            FetchTopic(topic_id=hosted.cluster.topic_id(name), partitions=(part,))
            for name in topics
        ),
    )
    api = FetchApi(hosted.replicas, lambda broker_id, listener: None)
    answer = answered(api.handle, DATA_FETCH, body)
    return [each for topic in answer.responses for each in topic.partitions]


def ends(records: Any) -> list[int]:
    """End offsets of the batches."""
    found, at = [], 0
    while at < len(records):
        header = batch_walk.batch_at(records, at, at, len(records))
        found.append(header.end_offset)
        at = header.end_position
    return found


async def test_each_header_is_examined_once_and_only_so_many_for_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosted = HostedReplicas(tmp_path)
    filled(hosted, MANY, "t")
    span, header = CountedHeaders(data_segment._SPAN), CountedHeaders(batch_walk.HEADER)
    monkeypatch.setattr(data_segment, "_SPAN", span)
    monkeypatch.setattr(batch_walk, "HEADER", header)
    offset = 0
    for wanted, aborted in ((MOST_BATCHES, (1, 0)), (MANY - MOST_BATCHES, (2, LATE))):
        span.count = header.count = 0
        (found,) = fetched(hosted, offset, "t")
        assert span.count <= wanted + 1
        assert header.count <= INDEX_HEADERS
        (transaction,) = found.aborted_transactions
        assert (transaction.producer_id, transaction.first_offset) == aborted
        assert ends(found.records) == list(range(offset + 1, offset + wanted + 1))
        offset += wanted
    (found,) = fetched(hosted, offset, "t")
    assert (found.records, found.aborted_transactions) == (b"", ())
    hosted.close()


async def test_partitions_of_an_answer_share_the_number_of_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_api, "MOST_BATCHES", 30)
    hosted = HostedReplicas(tmp_path)
    filled(hosted, 20, "a", "b", "c")
    found = fetched(hosted, 0, "a", "b", "c")
    assert [len(ends(each.records)) for each in found] == [20, 10, 0]
    assert [each.high_watermark for each in found] == [20, 20, 20]
    hosted.close()
