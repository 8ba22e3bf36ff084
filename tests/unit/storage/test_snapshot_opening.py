"""Opening a replica with snapshots: damaged ones set aside, a replacement that was cut short finished."""

from pathlib import Path
from uuid import UUID

import pytest

from quorum_node.raft.quorum_state import QuorumState
from quorum_node.records.batches import Record, encode_batch
from quorum_node.records.control import VotersRecord, encode_control
from quorum_node.records.identity import ReplicaKey, Voter
from quorum_node.records.snapshot_format import SnapshotBounds, encode_snapshot
from quorum_node.records.snapshot_id import NO_SNAPSHOT, SnapshotId
from quorum_node.storage.directory import format_directory, open_directory
from quorum_node.storage.errors import StorageFailure
from quorum_node.storage.failure_latch import FailureLatch
from quorum_node.storage.meta_properties import MetaProperties
from quorum_node.storage.partition_directory import OpenPartition
from quorum_node.storage.quorum_state import QuorumStateFile
from support.disk_cuts import every_cut

pytestmark = pytest.mark.usefixtures("no_sync")

ME = UUID(int=9)
PARTITION = "__cluster_metadata-0"


def opened(path: Path) -> OpenPartition:
    return open_directory(
        path, node_id=1, cluster_id="c", segment_bytes=300, latch=FailureLatch(None)
    ).first


def append(directory: OpenPartition, epoch: int, count: int) -> None:
    log = directory.log
    for _ in range(count):
        base = log.end_offset
        record = Record(None, b"%050d" % base)
        data = encode_batch(base_offset=base, leader_epoch=epoch, timestamp_ms=1, records=[record])
        log.append(data, base, base + 1, epoch)
    log.flush()


def write_snapshot(directory: OpenPartition, id: SnapshotId) -> None:
    writer = directory.snapshots.create(id)
    for data in encode_snapshot(id, SnapshotBounds(5), [b"value"] * 9):
        writer.append(data)
    writer.freeze()


def save_applied(path: Path, offset: int) -> None:
    state = QuorumState(leader_epoch=9, cluster_id="c", applied_offset=offset)
    QuorumStateFile(path / PARTITION, ME).save(state)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log of offsets 0 to 20, epochs 1 (0-9) and 2 (10-19), in several segments."""
    target = tmp_path / "data"
    format_directory(target, MetaProperties(1, ME, "c"))
    directory = opened(target)
    append(directory, 1, 10)
    append(directory, 2, 10)
    directory.log.close()
    return target


def damage(path: Path, id: SnapshotId) -> None:
    file = path / PARTITION / id.file_name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


@pytest.mark.requirement("K853-08")
def test_voters_of_a_log_replaced_by_a_snapshot_are_dropped(path: Path) -> None:
    """The power was lost after a downloaded snapshot was durable and before the log was reset to follow it.

    The last records of the old log may never have been committed. A replica that kept them would count other voters than the
    quorum has.
    """
    first = opened(path)
    record = encode_control(VotersRecord((Voter(ReplicaKey(1, ME)),)))
    base = first.log.end_offset
    data = encode_batch(
        base_offset=base, leader_epoch=2, timestamp_ms=1, records=[record], control=True
    )
    first.log.append(data, base, base + 1, 2)
    first.log.flush()
    write_snapshot(first, SnapshotId(40, 3))
    first.log.close()
    again = opened(path)
    assert again.log.start == SnapshotId(40, 3)
    assert again.log.control_batches == []


@pytest.mark.requirement("K853-08")
def test_snapshot_of_the_own_log_changes_nothing(path: Path) -> None:
    first = opened(path)
    for each in (SnapshotId(7, 1), SnapshotId(15, 2)):
        write_snapshot(first, each)
    first.log.close()
    again = opened(path)
    assert again.newest is not None
    assert again.newest.id == SnapshotId(15, 2)
    assert again.newest.bounds == SnapshotBounds(5)
    assert (again.log.start, again.log.end_offset, again.notes) == (NO_SNAPSHOT, 20, ())
    again.log.close()


@pytest.mark.requirement("K853-08")
def test_damaged_snapshot_is_set_aside_and_the_previous_one_is_used(path: Path) -> None:
    first = opened(path)
    older, newer = SnapshotId(7, 1), SnapshotId(15, 2)
    for each in (older, newer):
        write_snapshot(first, each)
    first.log.delete_prefix(older)
    first.log.close()
    damage(path, newer)
    again = opened(path)
    assert again.newest is not None
    assert again.newest.id == older
    assert again.snapshots.ids() == (older,)
    assert (again.log.start, again.log.end_offset) == (older, 20)
    assert "damaged" in again.notes[0]
    assert (path / PARTITION / (newer.file_name + ".corrupt")).exists()
    again.log.close()


def test_deleted_prefix_without_a_valid_snapshot_is_a_failed_disk(path: Path) -> None:
    first = opened(path)
    only = SnapshotId(15, 2)
    write_snapshot(first, only)
    first.log.delete_prefix(only)
    first.log.close()
    damage(path, only)
    with pytest.raises(StorageFailure, match="no undamaged snapshot"):
        opened(path)


@pytest.mark.requirement("K853-08")
@pytest.mark.parametrize("id", [SnapshotId(30, 5), SnapshotId(15, 4), SnapshotId(20, 3)])
def test_kill_between_download_and_reset_opens_the_old_or_the_new_state(
    path: Path, monkeypatch: pytest.MonkeyPatch, id: SnapshotId
) -> None:
    data = b"".join(encode_snapshot(id, SnapshotBounds(5), [b"value"] * 9))
    seen = set()

    def install(directory_path: Path) -> None:
        directory = opened(directory_path)
        if id not in directory.snapshots.ids():
            store = directory.snapshots
            store.append_partial(id, 0, data)
            store.finish_partial(id)
            directory.log.reset_to(id)
        directory.log.close()

    for left, _ in every_cut(monkeypatch, path, install):
        directory = opened(left)
        whole = id in directory.snapshots.ids()
        wanted = (id, id.end_offset) if whole else (NO_SNAPSHOT, 20)
        assert (directory.log.start, directory.log.end_offset) == wanted
        seen.add(whole)
        append(directory, 6, 3)
        directory.log.close()
        again = opened(left)
        assert again.log.end_offset == wanted[1] + 3
        assert again.notes == ()
        again.log.close()
    assert seen == {True, False}


def test_unsynced_tail_is_replaced_by_the_snapshot_that_contains_it(path: Path) -> None:
    """A follower may know records to be committed before its own disk has them."""
    first = opened(path)
    write_snapshot(first, SnapshotId(22, 2))
    first.log.close()
    save_applied(path, 22)
    again = opened(path)
    assert (again.log.start, again.log.end_offset) == (SnapshotId(22, 2), 22)
    assert "replaced by the snapshot" in again.notes[0]
    again.log.close()


def test_committed_records_after_a_snapshot_are_never_dropped(path: Path) -> None:
    first = opened(path)
    write_snapshot(first, SnapshotId(15, 3))  # the log has epoch 2 there
    first.log.close()
    save_applied(path, 18)
    before = {p.name: p.read_bytes() for p in (path / PARTITION).glob("*.log")}
    with pytest.raises(StorageFailure, match="contradicts"):
        opened(path)
    assert {p.name: p.read_bytes() for p in (path / PARTITION).glob("*.log")} == before


def test_log_shorter_than_the_committed_offset_is_a_failed_disk(path: Path) -> None:
    first = opened(path)
    write_snapshot(first, SnapshotId(22, 2))
    first.log.close()
    save_applied(path, 30)
    with pytest.raises(StorageFailure, match="acknowledged records are lost"):
        opened(path)
