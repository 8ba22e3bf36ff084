"""Followers that have to truncate their logs after the failure of a leader, hundreds of them at once."""

import asyncio
import time
from itertools import pairwise
from pathlib import Path

import pytest

from quorum_node.broker.events import BatchesFetched
from quorum_node.protocol.fetch import (
    EpochEndOffset,
    FetchRequest,
    FetchResponse,
    FetchResponsePartition,
    FetchResponseTopic,
)
from quorum_node.server.broker.directory_threads import TURN_SECONDS
from support.counted_syncs import CountedSyncs
from support.data_batches import data_batch
from support.hosted_replicas import ME, OTHER, HostedReplicas, position_of

pytestmark = pytest.mark.virtual_time

PARTITIONS, BATCHES, COMMON = 20, 4, 2
NAME = "many"


class SlowSyncs(CountedSyncs):
    """`is_slow`: each sync takes half a turn of the loop."""

    is_slow = False

    def fdatasync(self, fd: int) -> None:
        if self.is_slow:
            time.sleep(TURN_SECONDS / 2)
        super().fdatasync(fd)


async def with_records(hosted: HostedReplicas) -> None:
    """Each follower has records of the failed leader that its successor does not have."""
    hosted._create(NAME, ((OTHER, ME),) * PARTITIONS, {})
    await asyncio.sleep(5)
    hosted.threads.finish()
    for number in range(PARTITIONS):
        follower = hosted.replica(NAME, number)
        batches = tuple(data_batch(offset) for offset in range(BATCHES))
        follower.take(BatchesFetched(position_of(follower), batches, 0, 0))
    hosted.threads.finish()
    _, done = hosted.peers.asked.pop()
    done(FetchResponse(responses=()))  # to the first fetch, which knew nothing of them


def divergence(request: FetchRequest, end_offset: int) -> FetchResponse:
    """The successor's answer: the logs are equal up to this offset."""
    end = EpochEndOffset(epoch=0, end_offset=end_offset)
    return FetchResponse(
        responses=tuple(
            FetchResponseTopic(
                topic_id=topic.topic_id,
                partitions=tuple(
                    FetchResponsePartition(
                        partition_index=each.partition,
                        error_code=0,
                        high_watermark=0,
                        diverging_epoch=end,
                    )
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


async def test_truncations_are_done_in_turns_with_one_sync_each(tmp_path: Path) -> None:
    files = SlowSyncs()
    hosted = HostedReplicas(tmp_path, files=files)
    await with_records(hosted)
    await asyncio.sleep(0.2)
    request, done = hosted.peers.asked.pop()
    assert isinstance(request, FetchRequest)
    assert len(request.topics) == PARTITIONS
    files.is_slow, synced = True, files.in_loop
    done(divergence(request, COMMON))
    turns = [0, sum(each.core.end_offset == COMMON for each in hosted.replicas)]
    for _ in range(10 * PARTITIONS):
        await asyncio.sleep(0)
        turns.append(sum(each.core.end_offset == COMMON for each in hosted.replicas))
        assert turns[-1] == PARTITIONS or not hosted.peers.asked, "the next request follows"
    assert turns[-1] == PARTITIONS
    assert max(after - before for before, after in pairwise(turns)) <= 3
    assert files.in_loop - synced == PARTITIONS
    files.is_slow = False
    await asyncio.sleep(0.2)
    (again, _), *_ = hosted.peers.asked
    assert isinstance(again, FetchRequest)
    offsets = [each.fetch_offset for topic in again.topics for each in topic.partitions]
    assert offsets == [COMMON] * PARTITIONS
    hosted.close()
