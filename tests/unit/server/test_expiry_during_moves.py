"""Moves between log directories of a log whose records expire meanwhile: it may begin behind the end of its copy."""

import asyncio
from pathlib import Path

import pytest

from quorum_node.broker.errors import BrokerError
from quorum_node.server.broker.hosted_replica import HostedReplica
from quorum_node.storage.broker.log_directory import LogDirectory
from quorum_node.storage.broker.log_settings import LogSettings
from support.data_batches import data_batch
from support.hosted_replicas import ME, HostedReplicas, produce

RECORD_BYTES = 300_000
COUNT = 20
SLOW = 4.0 * RECORD_BYTES
"""Bytes a second: a move of all records is seen while it lasts, and goes on soon."""


def written(replica: HostedReplica) -> tuple[BrokerError, int] | None:
    data = data_batch(0, value_bytes=RECORD_BYTES).data
    assert isinstance(data, bytes)
    return produce(replica, data)


async def is_moved(hosted: HostedReplicas) -> None:
    async with asyncio.timeout(20):
        while list(hosted.replicas.moves):  # noqa: ASYNC110 - the end of a move has no event
            await asyncio.sleep(0.01)


def close(hosted: HostedReplicas) -> None:
    hosted.replicas.close()
    hosted.directories.close(7)


@pytest.mark.parametrize("is_deleted", [False, True], ids=["hidden", "deleted"])
@pytest.mark.parametrize("start_offset", [12, COUNT])
async def test_move_goes_on_when_the_copied_records_expire(
    tmp_path: Path, start_offset: int, is_deleted: bool
) -> None:
    """`is_deleted`: their segments are."""
    hosted = HostedReplicas(tmp_path / "a", second=tmp_path / "b")
    source, target = hosted.register_directories()
    replica = hosted.create("t", (ME,), **{"segment.bytes": str(1 << 20)})
    assert replica.directory_id == source
    for _ in range(COUNT):
        assert written(replica)
    moves = hosted.replicas.moves
    moves.limit(SLOW)
    moves.request(replica, target)
    async with asyncio.timeout(20):
        while not any(each.size_bytes for each in moves):  # noqa: ASYNC110 - of a thread
            await asyncio.sleep(0.01)
    replica.delete_records(start_offset)
    if is_deleted:
        # By time also the last one.
        replica.retain(1 << 60 if start_offset == COUNT else 0)
    moves.limit(None)
    await is_moved(hosted)
    assert replica.directory_id == target
    opened = replica.log.opened()
    assert (opened.start_offset, opened.end_offset) == (start_offset, COUNT)
    for offset in range(start_offset, COUNT):
        assert len(bytes(replica.log.read(offset, COUNT, 1))) > RECORD_BYTES
    assert written(replica) == (BrokerError.NONE, COUNT)
    close(hosted)
    again = LogDirectory(tmp_path / "b", node_id=ME, cluster_id="c")
    log = again.open_log(("t", 0), replica.key.topic_id, LogSettings())
    assert (log.start_offset, log.end_offset) == (start_offset, COUNT + 1)
    again.close(-1, cleanly=False)


@pytest.mark.parametrize("is_clean", [True, False])
async def test_end_of_a_log_whose_last_records_were_compacted_away_is_kept(
    tmp_path: Path, is_clean: bool
) -> None:
    """As of tombstones after delete.retention.ms. A shorter log would be taken for one that has lost records."""
    hosted = HostedReplicas(tmp_path / "a", second=tmp_path / "b")
    source, target = hosted.register_directories()
    replica = hosted.create("t", (ME,))
    for _ in range(3):
        assert written(replica)
    close(hosted)
    before = LogDirectory(tmp_path / "a", node_id=ME, cluster_id="c")
    before.open_log(("t", 0), replica.key.topic_id, LogSettings()).roll(10)
    before.close(7, cleanly=True)
    hosted = HostedReplicas(tmp_path / "a", hosted.cluster, second=tmp_path / "b")
    replica = hosted.replica("t")
    assert (replica.directory_id, replica.core.end_offset) == (source, 10)
    hosted.replicas.moves.request(replica, target)
    await is_moved(hosted)
    assert replica.directory_id == target
    assert replica.log.opened().end_offset == 10
    hosted.replicas.close()
    if is_clean:
        hosted.directories.close(7)
    again = LogDirectory(tmp_path / "b", node_id=ME, cluster_id="c")
    assert again.open_log(("t", 0), replica.key.topic_id, LogSettings()).end_offset == 10
    again.close(-1, cleanly=False)
