"""A failed sync ends the replica, and records of that sync do not count as durable after the restart.

On simulated files: after a failed sync the pages count as written back, as in Linux, and what is on the disk is another
thing. No latch is written here: the data alone has to be enough.
"""

import errno
import os
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from quorum_node.raft.quorum_state import QuorumState
from quorum_node.records.batches import Record, encode_batch
from quorum_node.records.identity import ReplicaKey
from quorum_node.records.snapshot_format import SnapshotBounds, encode_snapshot
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.storage.errors import DiskFull, StorageFailure
from quorum_node.storage.log import SegmentedLog
from quorum_node.storage.partition_directory import (
    OpenPartition,
    format_partition,
    open_partition,
    partition_directory,
)
from quorum_node.storage.synced_end import FILE_NAME, read_synced_end
from quorum_simulation.files.file_system import SimulatedFiles

DATA = Path("/data")
ME = UUID(int=7)
FULL = (errno.ENOSPC, errno.EDQUOT)
OTHERS = (errno.EIO, errno.EROFS, errno.ENODEV)


def named(number: int) -> str:
    return errno.errorcode[number]


class CountedSyncs(SimulatedFiles):
    """Fails one sync of all, by its number."""

    def __init__(self, seed: int = 1, *, shuffled: bool = False) -> None:
        super().__init__(Random(seed), shuffled=shuffled)
        self.syncs = 0
        self.fails: tuple[int, int] | None = None
        """(number of the sync, errno)."""
        self.note_refused = False
        self.make_directories(DATA)

    def fsync(self, fd: int) -> None:
        self.syncs += 1
        if self.fails is not None and self.fails[0] == self.syncs:
            self.failing_sync = self.fails[1]
        super().fsync(fd)

    def pwrite(self, fd: int, data: bytes | memoryview, position: int) -> int:
        if self.note_refused and len(data) == 32:
            raise OSError(errno.EIO, "simulated EIO")
        return super().pwrite(fd, data, position)


def batch(offset: int, epoch: int = 1, size: int = 300) -> bytes:
    value = b"%d " % offset + b"v" * size
    return encode_batch(
        base_offset=offset, leader_epoch=epoch, timestamp_ms=1, records=[Record(None, value)]
    )


def append(log: SegmentedLog, count: int = 1, epoch: int = 1) -> None:
    for _ in range(count):
        base = log.end_offset
        log.append(batch(base, epoch), base, base + 1, epoch)


def opened(files: SimulatedFiles, segment_bytes: int = 1 << 20) -> SegmentedLog:
    return SegmentedLog(DATA, segment_bytes=segment_bytes, cache_bytes=0, files=files)


@pytest.mark.requirement("K595-06")
@pytest.mark.parametrize("number", [*FULL, *OTHERS], ids=named)
@pytest.mark.parametrize("shuffled", [False, True])
def test_data_of_a_failed_sync_does_not_count_after_the_restart(
    number: int, shuffled: bool
) -> None:
    for seed in range(25):
        files = CountedSyncs(seed, shuffled=shuffled)
        log = opened(files)
        append(log, 1 + seed % 3)
        synced = log.flush()
        append(log, 1 + seed % 5)
        files.failing_sync = number
        expected = DiskFull if number in FULL else StorageFailure
        with pytest.raises(expected, match=named(number)) as failed:
            log.flush()
        if isinstance(failed.value, DiskFull):
            assert failed.value.at_sync
        for use in (
            lambda log: append(log),
            lambda log: log.flush(),
            lambda log: log.truncate_to(0),
        ):
            with pytest.raises(expected, match=named(number)):  # the first caller reports the same
                use(log)
        files.end_process()
        log = opened(files)
        assert (log.end_offset, log.flush()) == (synced, synced)
        append(log, 2, epoch=2)
        assert log.flush() == synced + 2
        files.lose_power()
        log = opened(files)
        assert log.end_offset == synced + 2
        assert log.epoch_starts[-1] == (2, synced)


@pytest.mark.requirement("K595-06")
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO], ids=named)
def test_data_that_counts_after_a_restart_without_a_latch_is_on_the_disk(number: int) -> None:
    """The process was killed, or the latch was lost as well: the readable data is verified on the disk."""
    ends = set()
    for seed in range(60):
        files = CountedSyncs(seed, shuffled=seed % 2 == 0)
        log = opened(files)
        append(log, 2)
        log.flush()
        append(log, 3)
        files.failing_sync, files.note_refused = number, True
        with pytest.raises((DiskFull, StorageFailure)):
            log.flush()
        files.end_process()
        files.note_refused = False
        found = read_synced_end(DATA, files)
        assert found is not None
        assert not found.failed
        log = opened(files)
        counted = log.flush()
        assert 2 <= counted <= 5
        ends.add(counted)
        files.lose_power()
        assert opened(files).end_offset == counted
    assert {2, 3} <= ends  # nothing of it arrived, or a part


def filled(files: SimulatedFiles) -> OpenPartition:
    format_partition(DATA, 0, ME, "c", files)
    opened = open_partition(DATA, 0, ME, cluster_id="c", segment_bytes=900, files=files)
    append(opened.log, 4)
    opened.log.flush()
    return opened


def lead_a_life(partition: OpenPartition, reported: list[int]) -> None:
    """Everything that is synced. `told`: every end offset that was reported as durable, lowered by truncations."""
    log, state = partition.log, partition.state_file
    state.save(QuorumState(2, -1, ReplicaKey(1, ME), "c", applied_offset=4))
    append(log, 3, epoch=2)
    reported.append(log.flush())
    append(log, 3, epoch=2)
    log.settle()
    reported.append(log.flush())
    reported.append(6)
    log.truncate_to(6)
    append(log, 4, epoch=3)
    reported.append(log.flush())
    log.settle()
    local = SnapshotId(8, 3)
    writer = partition.snapshots.create(local)
    writer.append(b"".join(encode_snapshot(local, SnapshotBounds(5), [b"value"])))
    writer.freeze()
    log.delete_prefix(local)
    fetched = SnapshotId(30, 4)
    content = b"".join(encode_snapshot(fetched, SnapshotBounds(5), [b"value"]))
    partition.snapshots.append_partial(fetched, 0, content)
    partition.snapshots.finish_partial(fetched)
    reported.append(8)
    log.reset_to(fetched)
    reported.append(30)
    append(log, 2, epoch=4)
    reported.append(log.flush())
    log.settle()
    state.save(QuorumState(5, -1, None, "c", applied_offset=32))


def syncs_of_one_run() -> tuple[int, int]:
    files = CountedSyncs()
    partition = filled(files)
    before = files.syncs
    lead_a_life(partition, [])
    return before, files.syncs


@pytest.mark.requirement("K595-06")
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO], ids=named)
@pytest.mark.parametrize("power", [False, True])
def test_every_failed_sync_stops_the_replica_and_loses_no_acknowledged_record(
    number: int, power: bool
) -> None:
    """Log, segments' names, epochs, quorum-state, seals, snapshots and their names, synced-end."""
    first, last = syncs_of_one_run()
    assert last - first > 30
    for failing in range(first + 1, last + 1):
        files = CountedSyncs(failing)
        partition = filled(files)
        files.fails, reported = (failing, number), [4]
        expected = DiskFull if number == errno.ENOSPC else StorageFailure
        with pytest.raises(expected) as failed:
            lead_a_life(partition, reported)
        if isinstance(failed.value, DiskFull):
            assert failed.value.at_sync, f"sync {failing}: {failed.value}"
        files.lose_power() if power else files.end_process()
        again = open_partition(DATA, 0, ME, cluster_id="c", segment_bytes=900, files=files)
        assert again.log.end_offset >= reported[-1], f"sync {failing}"
        state, end_offset = again.state, again.log.flush()
        files.lose_power()
        again = open_partition(DATA, 0, ME, cluster_id="c", segment_bytes=900, files=files)
        assert again.state == state
        assert again.log.end_offset == end_offset


@pytest.mark.requirement("K595-06", "K853-08")
def test_download_in_the_page_cache_only_is_read_from_the_disk_again() -> None:
    fetched = SnapshotId(30, 4)
    content = b"".join(encode_snapshot(fetched, SnapshotBounds(5), [b"value" * 300]))
    lost = 0
    for seed in range(20):
        files = CountedSyncs(seed)
        partition = filled(files)
        partition.snapshots.append_partial(fetched, 0, content)
        files.failing_sync = errno.ENOSPC
        with pytest.raises(DiskFull):
            partition.snapshots.finish_partial(fetched)
        files.end_process()
        again = open_partition(DATA, 0, ME, cluster_id="c", segment_bytes=900, files=files)
        there = again.snapshots.partial(fetched)
        lost += there < len(content)
        again.snapshots.append_partial(fetched, there, content[there:])
        again.snapshots.finish_partial(fetched)
        files.lose_power()
        again = open_partition(DATA, 0, ME, cluster_id="c", segment_bytes=900, files=files)
        assert again.newest is not None
        assert again.newest.id == fetched
    assert lost


def test_log_written_by_an_older_version_discards_its_synced_end() -> None:
    """quorum-state without a checksum shows that an older node ran here, and may have truncated the log."""
    files = CountedSyncs()
    partition = filled(files)
    append(partition.log, 3)
    partition.log.flush()
    partition.log.settle()
    files.end_process()
    path = partition_directory(DATA, 0)
    with_checksum = files.file(path / "quorum-state")
    assert with_checksum is not None
    whole = bytes(with_checksum.content)
    older = whole.replace(b'"privateVersion":1,', b"").partition(b',"crc32c"')[0] + b"}"
    with_checksum.replace(older)
    segment = max(name for name in files.names(path) if name.endswith(".log"))
    fd = files.open(path / segment, os.O_RDWR)
    files.ftruncate(fd, 0)
    files.fsync(fd)
    files.end_process()
    again = open_partition(DATA, 0, ME, cluster_id="c", segment_bytes=900, files=files)
    assert again.log.end_offset < 7
    files.end_process()
    with_checksum.replace(whole)
    assert files.file(path / FILE_NAME) is not None
