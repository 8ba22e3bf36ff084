"""What is called durable was synced, in the order that makes it so (no disk can show a lost fsync)."""

import os
from pathlib import Path
from uuid import UUID

import pytest

from quorum_node.raft import QuorumState
from quorum_node.records.batches import Record, encode_batch
from quorum_node.records.snapshot_format import SnapshotBounds, encode_snapshot
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.storage.atomic_file import replace_file
from quorum_node.storage.log import SegmentedLog
from quorum_node.storage.quorum_state import QuorumStateFile
from quorum_node.storage.snapshots import SnapshotStore


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """(call, path) of every write, sync, rename and truncation."""
    made: list[tuple[str, str]] = []

    def record(name: str) -> None:
        original = getattr(os, name)

        def recorded(target: object, *rest: object) -> object:
            path = os.readlink(f"/proc/self/fd/{target}") if isinstance(target, int) else target
            made.append((name, Path(str(path)).name))
            return original(target, *rest)

        monkeypatch.setattr(os, name, recorded)

    for name in ("write", "pwrite", "fsync", "fdatasync", "rename", "ftruncate", "unlink"):
        record(name)
    return made


@pytest.mark.requirement("K595-03")
def test_replaced_file_is_synced_before_and_after_the_rename(
    tmp_path: Path, calls: list[tuple[str, str]]
) -> None:
    replace_file(tmp_path / "quorum-state", b"state")
    assert calls == [
        ("write", "quorum-state.tmp"),
        ("fsync", "quorum-state.tmp"),
        ("rename", "quorum-state.tmp"),
        ("fsync", tmp_path.name),
    ]


@pytest.mark.requirement("K595-03")
def test_quorum_state_is_replaced_in_that_order_at_each_save(
    tmp_path: Path, calls: list[tuple[str, str]]
) -> None:
    file = QuorumStateFile(tmp_path, UUID(int=7))
    for epoch in (1, 2):
        calls.clear()
        file.save(QuorumState(epoch))
        assert calls == [
            ("write", "quorum-state.tmp"),
            ("fsync", "quorum-state.tmp"),
            ("rename", "quorum-state.tmp"),
            ("fsync", tmp_path.name),
        ]


@pytest.mark.requirement("K595-06")
def test_flush_syncs_all_segments_written_since_the_last_flush_and_their_names(
    tmp_path: Path, calls: list[tuple[str, str]]
) -> None:
    log = SegmentedLog(tmp_path, segment_bytes=300)
    for offset in range(7):
        data = encode_batch(
            base_offset=offset, leader_epoch=1, timestamp_ms=1, records=[Record(None, bytes(50))]
        )
        log.append(data, offset, offset + 1, 1)
    written = {name for call, name in calls if call == "pwrite"}
    assert len(written) > 2
    calls.clear()
    assert log.flush() == 7
    assert {name for call, name in calls if call == "fdatasync"} == written
    assert calls[-1] == ("fsync", tmp_path.name)
    calls.clear()
    log.flush()
    assert calls == []
    log.truncate_to(5)
    assert log.flush() == 5
    assert "fdatasync" in [call for call, _ in calls]
    log.close()


@pytest.mark.requirement("K595-13")
def test_epoch_is_in_the_checkpoint_before_its_first_batch_is_in_the_log(
    tmp_path: Path, calls: list[tuple[str, str]]
) -> None:
    log = SegmentedLog(tmp_path)
    calls.clear()
    data = encode_batch(base_offset=0, leader_epoch=3, timestamp_ms=1, records=[Record(None, b"x")])
    log.append(data, 0, 1, 3)
    names = [call for call, _ in calls]
    assert names == ["write", "fsync", "rename", "fsync", "pwrite"]
    log.close()


@pytest.mark.requirement("K595-06")
def test_page_cache_data_of_a_killed_process_is_synced_at_open(
    tmp_path: Path, calls: list[tuple[str, str]]
) -> None:
    log = SegmentedLog(tmp_path)
    data = encode_batch(base_offset=0, leader_epoch=1, timestamp_ms=1, records=[Record(None, b"x")])
    log.append(data, 0, 1, 1)
    log.close()
    calls.clear()
    reopened = SegmentedLog(tmp_path)
    assert ("fdatasync", "00000000000000000000.log") in calls
    reopened.close()


def write_batches(log: SegmentedLog, count: int) -> None:
    for _ in range(count):
        base = log.end_offset
        data = encode_batch(
            base_offset=base, leader_epoch=1, timestamp_ms=1, records=[Record(None, bytes(50))]
        )
        log.append(data, base, base + 1, 1)


def test_seal_is_written_after_its_segment_was_synced(
    tmp_path: Path, calls: list[tuple[str, str]]
) -> None:
    """The segment itself, and the name of the one that follows."""
    log = SegmentedLog(tmp_path, segment_bytes=300)
    write_batches(log, 2)
    calls.clear()
    write_batches(log, 1)
    log.flush()
    first, second = f"{0:020d}.log", f"{2:020d}.log"
    sealed = calls.index(("rename", f"{0:020d}.seal.tmp"))
    assert calls.index(("fdatasync", first)) < sealed
    assert calls.index(("fdatasync", second)) < sealed
    assert calls.index(("fsync", tmp_path.name)) < sealed
    log.close()


@pytest.mark.requirement("K595-13")
def test_truncation_is_durable_before_its_epochs_are_removed(
    tmp_path: Path, calls: list[tuple[str, str]]
) -> None:
    """Else a crash may leave batches of an epoch that the checkpoint does not have: a healthy disk would
    pass for a damaged one."""
    log = SegmentedLog(tmp_path)
    for offset, epoch in enumerate((1, 1, 2)):
        data = encode_batch(
            base_offset=offset, leader_epoch=epoch, timestamp_ms=1, records=[Record(None, b"x")]
        )
        log.append(data, offset, offset + 1, epoch)
    log.flush()
    calls.clear()
    log.truncate_to(2)
    segment = f"{0:020d}.log"
    order = [call for call in calls if call[0] != "write" and call[1] != "synced-end"]
    assert order[:2] == [("ftruncate", segment), ("fdatasync", segment)]
    assert ("rename", "leader-epoch-checkpoint.tmp") in order[2:]
    log.close()


SNAPSHOT = SnapshotId(9, 1)
CONTENT = b"".join(encode_snapshot(SNAPSHOT, SnapshotBounds(5), [b"value"]))


@pytest.mark.requirement("K853-08")
def test_snapshot_is_synced_before_and_after_its_rename(
    tmp_path: Path, calls: list[tuple[str, str]]
) -> None:
    store = SnapshotStore(tmp_path)
    writer = store.create(SNAPSHOT)
    writer.append(CONTENT)
    writer.freeze()
    writing = SNAPSHOT.file_name + ".writing"
    after = [("rename", writing), ("fsync", tmp_path.name)]
    assert calls == [("write", writing), ("fsync", writing), *after]
    calls.clear()
    part = SNAPSHOT.file_name + ".part"
    store.append_partial(SNAPSHOT, 0, CONTENT)
    store.finish_partial(SNAPSHOT)
    assert calls[-3:] == [("fsync", part), ("rename", part), ("fsync", tmp_path.name)]


def test_seals_are_removed_durably_before_a_segment_is_truncated(
    tmp_path: Path, calls: list[tuple[str, str]]
) -> None:
    log = SegmentedLog(tmp_path, segment_bytes=300)
    write_batches(log, 7)
    log.flush()
    calls.clear()
    log.truncate_to(3)
    seals = [n for n, (call, name) in enumerate(calls) if call == "unlink" and "seal" in name]
    cuts = [
        n
        for n, (call, name) in enumerate(calls)
        if call in ("ftruncate", "unlink") and name.endswith(".log")
    ]
    synced = calls.index(("fsync", tmp_path.name))
    assert len(seals) >= 2
    assert max(seals) < synced < min(cuts)
    log.close()


@pytest.mark.requirement("K853-08")
def test_log_is_emptied_durably_before_it_restarts(
    tmp_path: Path, calls: list[tuple[str, str]]
) -> None:
    """Otherwise its old records could follow the snapshot, at wrong offsets."""
    log = SegmentedLog(tmp_path, segment_bytes=300)
    write_batches(log, 7)
    log.flush()
    calls.clear()
    log.reset_to(SnapshotId(50, 3))
    first = f"{0:020d}.log"
    emptied, synced = calls.index(("ftruncate", first)), calls.index(("fdatasync", first))
    renamed = calls.index(("rename", first))
    assert emptied < synced < renamed
    assert calls[-1] == ("fsync", tmp_path.name)
    log.close()
