"""The start of a log moves, by DeleteRecords or retention: the loop waits for no sync, and after a crash the epochs are right."""

from pathlib import Path

import pytest

from quorum_node.storage.broker.time_of_day import time_of_day_ms
from support.counted_syncs import CountedSyncs
from support.data_batches import data_batch
from support.hosted_replicas import HostedReplicas, produce

pytestmark = pytest.mark.virtual_time

WEEK_MS = 7 * 24 * 3_600_000


@pytest.mark.parametrize("by", ["DeleteRecords", "retention"])
async def test_loop_waits_for_no_sync(tmp_path: Path, by: str) -> None:
    files = CountedSyncs()
    hosted = HostedReplicas(tmp_path, files=files)
    leader = hosted.create("t", **{"segment.bytes": "1048576"})
    data = data_batch(0, value_bytes=600_000).data
    assert isinstance(data, bytes)
    for _ in range(4):
        assert produce(leader, data)
    hosted.threads.finish()
    synced, epochs = files.in_loop, leader.core.epoch_starts
    if by == "retention":
        leader.retain(time_of_day_ms() + 2 * WEEK_MS)
    else:
        leader.delete_records(2)
    hosted.threads.finish()
    assert produce(leader, data)
    assert files.in_loop == synced
    start_offset = leader.core.start_offset
    assert start_offset >= 2
    expected = ((epochs[-1][0], start_offset),)
    assert leader.core.epoch_starts == expected
    hosted.directories.maintain()  # it stores the new start
    hosted.close(cleanly=False)
    again = HostedReplicas(tmp_path, hosted.cluster).replica("t")
    assert again.core.start_offset == start_offset
    assert again.core.epoch_starts == expected
