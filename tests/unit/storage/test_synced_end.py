"""synced-end: never more than what the disk holds, for any kill, torn write, flipped bit or truncation."""

import os
from pathlib import Path

import pytest

from quorum_node.records.batches import Record, encode_batch
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.storage.errors import DiskFull, StorageFailure
from quorum_node.storage.log import SegmentedLog
from quorum_node.storage.log_opening import LogCutShort
from quorum_node.storage.synced_end import (
    FILE_NAME,
    SLOT_SPACING_BYTES,
    RecordedEnd,
    SyncedEnd,
    read_synced_end,
)
from support.disk_cuts import every_cut

pytestmark = pytest.mark.usefixtures("no_sync")

PAGE = 4096


def end_in(directory: Path) -> tuple[int, int, bool]:
    found = read_synced_end(directory)
    assert found is not None
    return found.end_offset, found.epoch, found.failed


def batch(offset: int, epoch: int = 1, size: int = 60) -> bytes:
    record = Record(None, b"%d " % offset + b"v" * size)
    return encode_batch(base_offset=offset, leader_epoch=epoch, timestamp_ms=1, records=[record])


def append(log: SegmentedLog, count: int = 1, epoch: int = 1, size: int = 60) -> None:
    for _ in range(count):
        base = log.end_offset
        log.append(batch(base, epoch, size), base, base + 1, epoch)


def filled(directory: Path, count: int = 5) -> SegmentedLog:
    log = SegmentedLog(directory)
    append(log, count)
    log.flush()
    return log


# -- the file alone


def test_synced_end_is_restored_after_every_step(tmp_path: Path) -> None:
    assert read_synced_end(tmp_path) is None
    file = SyncedEnd(tmp_path, 3, 1)
    assert end_in(tmp_path) == (3, 1, False)
    for end in range(4, 12):
        file.raise_to(end, 2, file.generation)
        assert end_in(tmp_path) == (end, 2, False)
        if end % 3 == 0:
            file.settle()
            assert not file.pending
    file.lower_to(5, 1)
    file.cut_is_done()
    assert end_in(tmp_path) == (5, 1, False)
    file.note_failure()
    assert end_in(tmp_path) == (5, 1, True)
    file.close()
    again = SyncedEnd(tmp_path, 5, 1, read_synced_end(tmp_path))
    assert end_in(tmp_path) == (5, 1, False)
    again.close()


def test_sync_running_during_a_truncation_covers_nothing(tmp_path: Path) -> None:
    file = SyncedEnd(tmp_path, 3, 1)
    before = file.generation
    file.lower_to(2, 1)
    file.raise_to(9, 1, before)
    during = file.generation
    file.raise_to(9, 1, during)
    file.cut_is_done()
    file.raise_to(9, 1, before)
    file.raise_to(9, 1, during)
    assert end_in(tmp_path) == (2, 1, False)
    file.raise_to(9, 1, file.generation)
    assert end_in(tmp_path) == (9, 1, False)
    file.close()


def test_every_flipped_bit_leaves_a_valid_earlier_end(tmp_path: Path) -> None:
    file = SyncedEnd(tmp_path, 3, 1)
    file.raise_to(4, 1, 0)
    file.settle()
    file.raise_to(5, 1, 0)
    file.close()
    path = tmp_path / FILE_NAME
    content = path.read_bytes()
    for slot in range(3):
        for position in range(slot * SLOT_SPACING_BYTES, slot * SLOT_SPACING_BYTES + 32):
            for bit in range(8):
                damaged = bytearray(content)
                damaged[position] ^= 1 << bit
                path.write_bytes(damaged)
                assert end_in(tmp_path)[0] in (4, 5)


def test_lowered_end_survives_damage_of_one_entry(tmp_path: Path) -> None:
    """Else a flipped bit would bring back a claim from before the cut."""
    file = SyncedEnd(tmp_path, 9, 1)
    for end in (10, 11, 12):
        file.raise_to(end, 1, 0)
        file.settle()
    file.lower_to(4, 1)
    file.close()
    path = tmp_path / FILE_NAME
    content = path.read_bytes()
    for slot in range(3):
        damaged = bytearray(content)
        damaged[slot * SLOT_SPACING_BYTES + 20] ^= 1
        path.write_bytes(damaged)
        assert end_in(tmp_path)[0] == 4


def test_file_without_a_valid_entry_is_damage(tmp_path: Path) -> None:
    SyncedEnd(tmp_path, 3, 1).close()
    content = (tmp_path / FILE_NAME).read_bytes()
    for damaged in (b"", bytes(len(content)), content[:-1], content + b"\0"):
        (tmp_path / FILE_NAME).write_bytes(damaged)
        with pytest.raises(StorageFailure, match="is damaged"):
            read_synced_end(tmp_path)


def test_last_synced_entry_is_never_overwritten(tmp_path: Path) -> None:
    """A power cut may tear what was written since."""
    file = SyncedEnd(tmp_path, 3, 1)
    path = tmp_path / FILE_NAME
    durable, end = path.read_bytes(), 3
    for step in range(40):
        if step % 4 == 3:
            file.settle()
            durable, end = path.read_bytes(), file.end_offset
        elif step % 7 == 6:
            file.lower_to(file.end_offset - 1, 1)
            file.cut_is_done()
            end = file.end_offset
            durable = slots_kept(durable, path.read_bytes(), newest=True)
        else:
            file.raise_to(file.end_offset + 2, 1, file.generation)
        torn = slots_kept(durable, path.read_bytes())
        (tmp_path / "cut").mkdir(exist_ok=True)
        (tmp_path / "cut" / FILE_NAME).write_bytes(torn)
        assert end_in(tmp_path / "cut")[0] == end
    file.close()


def slots_kept(durable: bytes, now: bytes, *, newest: bool = False) -> bytes:
    """Every slot that was written since is torn; `newest`: but for the one that counts."""
    kept = bytearray()
    slots = range(0, len(now), SLOT_SPACING_BYTES)
    newest_at = max(slots, key=lambda at: int.from_bytes(now[at + 12 : at + 20], "big"))
    for at in slots:
        piece = now[at : at + SLOT_SPACING_BYTES]
        if piece == durable[at : at + SLOT_SPACING_BYTES]:
            kept += piece
        elif newest and at == newest_at:
            # A lowered end is durable in one slot, and repeated in the others afterwards.
            kept += piece
        else:
            kept += piece[:16] + b"\xff" * 8 + piece[24:]
    return bytes(kept)


@pytest.mark.requirement("K595-06")
def test_kill_at_any_point_leaves_a_synced_end_that_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = tmp_path / "origin"
    origin.mkdir()
    SyncedEnd(origin, 3, 1).close()
    seen = set()

    def act(directory: Path) -> None:
        file = SyncedEnd(directory, 3, 1, read_synced_end(directory))
        file.raise_to(5, 1, file.generation)
        file.settle()
        file.raise_to(6, 1, file.generation)
        file.lower_to(4, 1)
        file.cut_is_done()
        file.raise_to(7, 2, file.generation)
        file.note_failure()

    for left, _ in every_cut(monkeypatch, origin, act):
        seen.add(end_in(left))
    assert seen == {
        (3, 1, False),
        (5, 1, False),
        (6, 1, False),
        (4, 1, False),
        (7, 2, False),
        (7, 2, True),
    }


# -- the log with it


@pytest.mark.requirement("K595-06")
def test_log_shorter_than_its_synced_end_is_reported(tmp_path: Path) -> None:
    filled(tmp_path).close()
    segment = tmp_path / f"{0:020d}.log"
    content = segment.read_bytes()
    for size in (0, len(batch(0)), 4 * len(batch(0))):
        segment.write_bytes(content[:size])
        with pytest.raises(LogCutShort, match="everything below offset 5 was synced"):
            SegmentedLog(tmp_path)
        assert segment.read_bytes() == content[:size]


@pytest.mark.requirement("K595-06", "K595-02")
def test_every_flipped_bit_of_synced_data_is_damage(tmp_path: Path) -> None:
    """Also where the file ends in zeros, as after a write that was cut."""
    log = SegmentedLog(tmp_path)
    append(log)
    base = log.end_offset
    data = encode_batch(
        base_offset=base,
        leader_epoch=1,
        timestamp_ms=1,
        records=[Record(None, b"x" * 100 + bytes(1500))],
    )
    log.append(data, base, base + 1, 1)
    log.flush()
    log.close()
    segment = tmp_path / f"{0:020d}.log"
    content = segment.read_bytes()
    start = len(content) - len(data)
    for position in [*range(start, start + 200), *range(start + 200, len(content), 37)]:
        damaged = bytearray(content)
        damaged[position] ^= 1 << position % 8
        segment.write_bytes(damaged)
        with pytest.raises(StorageFailure):
            SegmentedLog(tmp_path)
        assert segment.read_bytes() == damaged


@pytest.mark.requirement("K595-06")
@pytest.mark.parametrize("first", [len(batch(0)) * 5, PAGE, 2 * PAGE, 3 * PAGE])
def test_pages_of_an_unsynced_tail_may_be_written_in_any_order(tmp_path: Path, first: int) -> None:
    log = filled(tmp_path)
    append(log, 3, size=5000)
    log.close()
    segment = tmp_path / f"{0:020d}.log"
    content = bytearray(segment.read_bytes())
    end = first // PAGE * PAGE + PAGE
    content[first:end] = bytes(end - first)
    segment.write_bytes(content)
    log = SegmentedLog(tmp_path)
    assert 5 <= log.end_offset < 8
    assert log.torn_bytes > 0
    append(log)
    log.flush()
    log.close()


@pytest.mark.requirement("K595-06")
def test_segments_of_an_unsynced_tail_may_be_torn_anywhere(tmp_path: Path) -> None:
    """Names are ordered by the file system's journal, contents are not."""
    log = SegmentedLog(tmp_path / "all", segment_bytes=300)
    append(log, 4)
    log.flush()
    append(log, 8)
    log.close()
    segments = sorted((tmp_path / "all").glob("*.log"))
    unsynced = [path for path in segments if int(path.stem) > 4]
    assert len(unsynced) >= 3
    for torn in unsynced[:-1]:
        for size in (0, 1, len(batch(9)) + 5):
            content = torn.read_bytes()
            copy = tmp_path / f"{torn.stem}-{size}"
            copy.mkdir()
            for path in (tmp_path / "all").iterdir():
                (copy / path.name).write_bytes(path.read_bytes())
            (copy / torn.name).write_bytes(content[:size])
            log = SegmentedLog(copy, segment_bytes=300)
            assert 4 <= int(torn.stem) <= log.end_offset <= int(torn.stem) + 1
            assert log.flush() == log.end_offset
            append(log, 8)
            log.flush()
            log.close()
            again = SegmentedLog(copy, segment_bytes=300)
            assert again.end_offset == log.end_offset
            again.close()


@pytest.mark.requirement("K595-06")
def test_readable_batches_beyond_a_lagging_synced_end_are_kept(tmp_path: Path) -> None:
    """After a power cut synced-end is a second old: what was acknowledged since must not be truncated."""
    log = filled(tmp_path, 3)
    log.settle()
    durable = (tmp_path / FILE_NAME).read_bytes()
    append(log, 4)
    assert log.flush() == 7
    log.close()
    (tmp_path / FILE_NAME).write_bytes(durable)
    assert end_in(tmp_path)[0] == 3
    log = SegmentedLog(tmp_path)
    assert (log.end_offset, log.torn_bytes) == (7, 0)
    assert end_in(tmp_path)[0] == 7
    log.close()


def test_truncation_lowers_the_end_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    origin = tmp_path / "origin"
    log = filled(origin)
    append(log, 3, epoch=2)
    log.flush()
    log.close()
    seen = set()

    def truncate_and_append(directory: Path) -> None:
        log = SegmentedLog(directory)
        log.truncate_to(4)
        append(log, 2, epoch=3)
        log.flush()
        log.settle()

    for left, _ in every_cut(monkeypatch, origin, truncate_and_append):
        recorded = end_in(left)
        log = SegmentedLog(left)
        assert log.end_offset >= recorded[0]
        seen.add((recorded[0], log.end_offset))
        log.close()
    assert {(8, 8), (4, 8), (4, 4), (6, 6)} <= seen


@pytest.mark.parametrize("id", [SnapshotId(40, 6), SnapshotId(5, 3)])
def test_reset_lowers_the_end_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, id: SnapshotId
) -> None:
    origin = tmp_path / "origin"
    log = SegmentedLog(origin, segment_bytes=300)
    append(log, 9)
    log.flush()
    log.close()

    def reset(directory: Path) -> None:
        log = SegmentedLog(directory, segment_bytes=300, snapshots=[id])
        log.reset_to(id)
        append(log, 1, epoch=7)
        log.flush()

    for left, _ in every_cut(monkeypatch, origin, reset):
        log = SegmentedLog(left, segment_bytes=300, snapshots=[id])
        log.close()


@pytest.mark.requirement("K595-06")
def test_directory_without_the_file_gets_one(tmp_path: Path) -> None:
    filled(tmp_path).close()
    (tmp_path / FILE_NAME).unlink()
    log = SegmentedLog(tmp_path)
    assert log.end_offset == 5
    assert end_in(tmp_path) == (5, 1, False)
    log.close()


def test_log_truncated_and_written_by_an_older_version_is_not_too_short(tmp_path: Path) -> None:
    """It does not update the file. Records of a newer epoch show that it ran."""
    log = filled(tmp_path)
    log.close()
    stale = (tmp_path / FILE_NAME).read_bytes()
    (tmp_path / FILE_NAME).unlink()
    log = SegmentedLog(tmp_path)
    log.truncate_to(2)
    append(log, 1, epoch=4)
    log.flush()
    log.close()
    (tmp_path / FILE_NAME).write_bytes(stale)
    log = SegmentedLog(tmp_path)
    assert log.end_offset == 3
    assert end_in(tmp_path) == (3, 4, False)
    log.close()


def test_full_disk_does_not_prevent_opening_an_older_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path).close()
    (tmp_path / FILE_NAME).unlink()

    def refuse(fd: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(os, "write", refuse)
        log = SegmentedLog(tmp_path)
        assert log.flush() == 5
        log.settle()
        log.truncate_to(4)
        assert log.flush() == 4
        log.close()
    assert not (tmp_path / FILE_NAME).exists()
    SegmentedLog(tmp_path).close()
    assert end_in(tmp_path)[0] == 4


@pytest.mark.requirement("K595-06")
def test_seal_shows_that_all_earlier_data_was_synced(tmp_path: Path) -> None:
    """Although synced-end may lag behind it."""
    log = SegmentedLog(tmp_path, segment_bytes=300)
    log.settle()
    durable = (tmp_path / FILE_NAME).read_bytes()
    append(log, 9)
    log.flush()
    log.close()
    (tmp_path / FILE_NAME).write_bytes(durable)
    for seal in sorted(tmp_path.glob("*.seal"))[:-1]:
        seal.unlink()
    segment = sorted(tmp_path.glob("*.log"))[1]
    content = bytearray(segment.read_bytes())
    content[80] ^= 1
    segment.write_bytes(content)
    with pytest.raises(StorageFailure, match="was synced"):
        SegmentedLog(tmp_path, segment_bytes=300)


@pytest.mark.requirement("K595-06")
def test_applied_records_count_as_synced(tmp_path: Path) -> None:
    """quorum-state is saved after the log was synced: another bound where synced-end lags, or is not there."""
    filled(tmp_path, 6).close()
    (tmp_path / FILE_NAME).unlink()
    segment = tmp_path / f"{0:020d}.log"
    content = segment.read_bytes()
    size = len(batch(0))
    segment.write_bytes(content[: 3 * size] + bytes(3 * size))
    with pytest.raises(StorageFailure, match="was synced"):
        SegmentedLog(tmp_path, synced_offset=4)
    log = SegmentedLog(tmp_path, synced_offset=3)
    assert log.end_offset == 3
    log.close()


def test_failed_save_of_the_synced_end_stops_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled(tmp_path)

    def refuse(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fdatasync", refuse)
    with pytest.raises(DiskFull) as error:
        log.settle()
    assert error.value.at_sync
    with pytest.raises(DiskFull):
        append(log)


def test_synced_end_survives_a_round_trip(tmp_path: Path) -> None:
    SyncedEnd(tmp_path, 1 << 40, 77).close()
    assert read_synced_end(tmp_path) == RecordedEnd(1 << 40, 77, False, 3, 0)
