"""After each answer of a leader the next fetch follows, also if a replica is the only one that is followed from this leader.

Usually there are others, and the answer for one of them wakes the fetcher, half a second later at the latest.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.fetch import (
    EpochEndOffset,
    FetchRequest,
    FetchResponse,
    FetchResponsePartition,
    FetchResponseTopic,
)
from quorum_node.protocol.list_offsets import (
    EARLIEST_TIMESTAMP,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from quorum_node.raft.events import FailureReason
from quorum_node.schema.schema import Message
from support.data_batches import data_batch
from support.hosted_replicas import ME, OTHER, HostedReplicas

pytestmark = pytest.mark.virtual_time
DAMAGED = bytes(80)


class OneFollower:
    """The only partition of the cluster, with records up to offset 4 here."""

    def __init__(self, root: Path) -> None:
        self.hosted = HostedReplicas(root)
        self.follower = self.hosted.create("t", (OTHER, ME))

    async def filled(self) -> None:
        await self.answer(self.with_records(*range(4)))
        assert (await self.next_fetch()).fetch_offset == 4

    def with_records(self, *offsets: int, epoch: int = 0) -> Message:
        return self.answered(records=b"".join(_bytes(offset, epoch) for offset in offsets))

    def answered(self, **fields: object) -> FetchResponse:
        values = {"partition_index": 0, "error_code": 0, "high_watermark": 0, **fields}
        partition = FetchResponsePartition(**values)  # type: ignore[arg-type]
        topic = FetchResponseTopic(topic_id=self.follower.key.topic_id, partitions=(partition,))
        return FetchResponse(error_code=0, responses=(topic,))

    async def answer(self, message: Message | FailureReason) -> None:
        """Answer the latest request, which is a fetch."""
        await self._asked(FetchRequest)
        _, done = self.hosted.peers.asked.pop()
        self.hosted.peers.asked.clear()
        done(message)

    async def range_is(self, start_offset: int, end_offset: int) -> None:
        """Answer the two requests for the range of the leader's log."""
        for _ in range(2):
            await self._asked(ListOffsetsRequest)
            request, done = self.hosted.peers.asked.pop()
            assert isinstance(request, ListOffsetsRequest)
            is_start = request.topics[0].partitions[0].timestamp == EARLIEST_TIMESTAMP
            found = ListOffsetsPartitionResponse(
                partition_index=0, error_code=0, offset=start_offset if is_start else end_offset
            )
            done(
                ListOffsetsResponse(
                    topics=(ListOffsetsTopicResponse(name="t", partitions=(found,)),)
                )
            )

    async def next_fetch(self) -> "Asked":
        """The next fetch, soon."""
        await self._asked(FetchRequest)
        request, _ = self.hosted.peers.asked[-1]
        assert isinstance(request, FetchRequest)
        (partition,) = request.topics[0].partitions
        return Asked(partition.fetch_offset, partition.last_fetched_epoch)

    async def _asked(self, kind: type[Message]) -> None:
        async with asyncio.timeout(1):
            while not self.hosted.peers.asked or not isinstance(  # noqa: ASYNC110 - no event
                self.hosted.peers.asked[-1][0], kind
            ):
                await asyncio.sleep(0.01)


class Asked:
    """What a fetch has asked for."""

    def __init__(self, fetch_offset: int, last_fetched_epoch: int) -> None:
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch


def _bytes(offset: int, epoch: int = 0) -> bytes:
    data = data_batch(offset, epoch=epoch).data
    assert isinstance(data, bytes)
    return data


ANSWERS: dict[str, tuple[Callable[[OneFollower], Message | FailureReason], int]] = {
    "nothing": (lambda each: each.answered(), 4),
    "records": (lambda each: each.with_records(4, 5), 6),
    "records of a later epoch": (lambda each: each.with_records(4, epoch=1), 4),
    "records that do not follow": (lambda each: each.with_records(2, 3), 4),
    "damaged records": (lambda each: each.answered(records=DAMAGED), 4),
    "a truncation": (
        lambda each: each.answered(diverging_epoch=EpochEndOffset(epoch=0, end_offset=2)),
        2,
    ),
    "another leader": (
        lambda each: each.answered(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER),
        4,
    ),
    "a later epoch": (lambda each: each.answered(error_code=ErrorCode.UNKNOWN_LEADER_EPOCH), 4),
    "no such topic": (lambda each: each.answered(error_code=ErrorCode.UNKNOWN_TOPIC_ID), 4),
    "a failed disk": (lambda each: each.answered(error_code=ErrorCode.KAFKA_STORAGE_ERROR), 4),
    "an error of all": (
        lambda each: FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=()),
        4,
    ),
    "no partition": (lambda each: FetchResponse(error_code=0, responses=()), 4),
    "no answer": (lambda each: FailureReason.TIMEOUT, 4),
    "a closed connection": (lambda each: FailureReason.CLOSED, 4),
}


@pytest.mark.parametrize("name", ANSWERS)
async def test_next_fetch_follows_each_answer(tmp_path: Path, name: str) -> None:
    s = OneFollower(tmp_path)
    await s.filled()
    make, fetch_offset = ANSWERS[name]
    await s.answer(make(s))
    assert (await s.next_fetch()).fetch_offset == fetch_offset
    s.hosted.close()


@pytest.mark.parametrize(
    ("start_offset", "end_offset", "fetch_offset", "last_epoch"),
    [(0, 3, 3, 0), (0, 4, 4, 0), (0, 9, 4, 0), (7, 9, 7, -1), (0, 0, 0, -1)],
    ids=["ends before", "equal", "within", "starts behind", "is empty"],
)
async def test_next_fetch_follows_the_range_of_the_leaders_log(
    tmp_path: Path, start_offset: int, end_offset: int, fetch_offset: int, last_epoch: int
) -> None:
    s = OneFollower(tmp_path)
    await s.filled()
    await s.answer(s.answered(error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
    await s.range_is(start_offset, end_offset)
    asked = await s.next_fetch()
    assert (asked.fetch_offset, asked.last_fetched_epoch) == (fetch_offset, last_epoch)
    s.hosted.close()


async def test_next_fetch_follows_a_batch_in_which_the_log_begins(tmp_path: Path) -> None:
    s = OneFollower(tmp_path)
    await s.filled()
    await s.answer(s.answered(error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
    await s.range_is(7, 9)
    assert (await s.next_fetch()).fetch_offset == 7
    data = data_batch(5, 4).data
    await s.answer(s.answered(records=data, log_start_offset=7))
    assert (await s.next_fetch()).fetch_offset == 9
    assert s.follower.core.start_offset == 7
    s.hosted.close()
