"""Snapshots on a real directory: killed at every call, damaged in every bit, cut downloads, a full disk."""

import errno
import os
from pathlib import Path

import pytest
from crc32c import crc32c

from quorum_node.records.batches import decode_records
from quorum_node.records.snapshot_format import CorruptSnapshot, SnapshotBounds, encode_snapshot
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.storage.errors import DiskFull, StorageFailure
from quorum_node.storage.snapshots import SnapshotMissing, SnapshotStore
from support.disk_cuts import every_cut

ID = SnapshotId(100, 3)
OLDER, NEWER = SnapshotId(50, 2), SnapshotId(200, 3)
BOUNDS = SnapshotBounds(17)


def content(id: SnapshotId, count: int = 20) -> list[bytes]:
    return list(encode_snapshot(id, BOUNDS, [b"value %d" % n * 20 for n in range(count)]))


def write(store: SnapshotStore, id: SnapshotId, count: int = 20) -> bytes:
    writer = store.create(id)
    for data in content(id, count):
        writer.append(data)
    writer.freeze()
    return b"".join(content(id, count))


def load(store: SnapshotStore, id: SnapshotId) -> list[bytes]:
    return [r.value or b"" for batch in store.batches(id) for r in decode_records(batch)]


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.requirement("K853-08")
def test_frozen_snapshot_is_complete(tmp_path: Path) -> None:
    store = SnapshotStore(tmp_path)
    assert store.latest() is None
    data = write(store, ID)
    write(store, OLDER)
    for opened in (store, SnapshotStore(tmp_path)):
        assert opened.ids() == (OLDER, ID)
        assert opened.latest() == ID
        assert opened.size_bytes(ID) == len(data)
        assert opened.timestamp_ms(ID) == 17
        assert opened.read(ID, 0, 1 << 20) == data
        assert opened.read(ID, 70, 30) == data[70:100]
        assert opened.read(ID, len(data), 30) == b""
        assert opened.verify(ID) == BOUNDS
        assert opened.checksum(ID) == crc32c(data)
        assert len(load(opened, ID)) == 20
    with pytest.raises(SnapshotMissing):
        store.read(NEWER, 0, 1)


@pytest.mark.requirement("K853-08", "K631-06")
def test_snapshot_writer_killed_anywhere_leaves_a_complete_snapshot_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = tmp_path / "origin"
    write(SnapshotStore(origin), OLDER)
    seen = set()
    for left, _ in every_cut(monkeypatch, origin, lambda at: write(SnapshotStore(at), ID)):
        store = SnapshotStore(left)
        seen.add(store.ids())
        for each in store.ids():
            assert store.verify(each) == BOUNDS
        assert not [name for name in names(left) if name.endswith(".writing")]
        write(store, ID)
        assert load(store, ID)
    assert seen == {(OLDER,), (OLDER, ID)}


def test_full_disk_fails_one_snapshot_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SnapshotStore(tmp_path)
    writer = store.create(ID)
    head, *rest = content(ID)
    writer.append(head)

    def full(fd: int, data: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(DiskFull):
            writer.append(rest[0])
    writer.abort()
    assert names(tmp_path) == []
    write(store, ID)
    assert store.ids() == (ID,)


def test_failed_disk_is_a_storage_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = SnapshotStore(tmp_path).create(ID)
    for data in content(ID):
        writer.append(data)

    def broken(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(StorageFailure, match="EIO"):
        writer.freeze()
    assert SnapshotStore(tmp_path).ids() == ()


def test_incomplete_snapshot_is_never_frozen(tmp_path: Path) -> None:
    writer = SnapshotStore(tmp_path).create(ID)
    writer.append(content(ID)[0])
    with pytest.raises(CorruptSnapshot, match="no footer"):
        writer.freeze()


@pytest.mark.requirement("K853-08", "K631-06")
def test_flipped_bit_is_detected_before_the_snapshot_is_loaded(tmp_path: Path) -> None:
    store = SnapshotStore(tmp_path)
    data = write(store, ID, count=3)
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 1 << position % 8
        (tmp_path / ID.file_name).write_bytes(damaged)
        with pytest.raises(CorruptSnapshot):
            store.verify(ID)
        with pytest.raises(CorruptSnapshot):
            load(store, ID)


def test_set_aside_snapshot_is_kept_but_not_used(tmp_path: Path) -> None:
    store = SnapshotStore(tmp_path)
    write(store, OLDER)
    write(store, ID)
    aside = store.set_aside(ID)
    assert aside.exists()
    for opened in (store, SnapshotStore(tmp_path)):
        assert opened.ids() == (OLDER,)
        opened.delete_before(NEWER)
    assert names(tmp_path) == [aside.name]


def test_old_snapshots_are_deleted_except_during_a_download(tmp_path: Path) -> None:
    store = SnapshotStore(tmp_path)
    for each in (OLDER, ID, NEWER):
        write(store, each)
    assert store.delete_before(NEWER, keep=(OLDER,)) == (ID,)
    assert SnapshotStore(tmp_path).ids() == store.ids() == (OLDER, NEWER)


@pytest.mark.requirement("K853-08")
@pytest.mark.parametrize("piece_bytes", [7, 100, 1 << 20])
def test_interrupted_download_is_resumed(tmp_path: Path, piece_bytes: int) -> None:
    """After a restart as well: only what can be checked already is kept."""
    data = b"".join(content(ID))
    store = SnapshotStore(tmp_path)
    assert store.partial(ID) == 0
    restarts = 0
    while (position := store.partial(ID)) < len(data):
        piece = data[position : position + max(piece_bytes, 700 * (restarts + 1))]
        store.append_partial(ID, position, piece)
        assert store.partial(ID) == position + len(piece)
        assert store.ids() == ()
        store = SnapshotStore(tmp_path)
        restarts += 1
        assert store.partial(ID) <= position + len(piece)
    assert store.partials() == (ID,)
    assert store.finish_partial(ID) == BOUNDS
    assert store.ids() == (ID,)
    assert names(tmp_path) == [ID.file_name]
    assert store.read(ID, 0, 1 << 20) == data


def test_pages_lost_in_a_crash_are_downloaded_again(tmp_path: Path) -> None:
    whole = content(ID)
    data = b"".join(whole)
    SnapshotStore(tmp_path).append_partial(ID, 0, data)
    path = tmp_path / (ID.file_name + ".part")
    path.write_bytes(data[:-300] + bytes(300))
    store = SnapshotStore(tmp_path)
    position = store.partial(ID)
    assert position < len(data) - 300
    store.append_partial(ID, position, data[position:])
    assert store.finish_partial(ID) == BOUNDS


@pytest.mark.requirement("K853-08")
def test_damaged_download_is_set_aside_and_restarted(tmp_path: Path) -> None:
    data = b"".join(content(ID))
    damaged = bytearray(data)
    damaged[len(data) // 2] ^= 4
    store = SnapshotStore(tmp_path)
    for wrong in (bytes(damaged), data[:-10], data + b"more"):
        store.append_partial(ID, 0, wrong)
        with pytest.raises(CorruptSnapshot):
            store.finish_partial(ID)
        assert store.ids() == ()
        assert store.partial(ID) == 0
        assert names(tmp_path) == [ID.file_name + ".corrupt"]
    store.append_partial(ID, 0, data)
    store.finish_partial(ID)
    assert SnapshotStore(tmp_path).ids() == (ID,)


@pytest.mark.requirement("K853-08")
def test_download_killed_anywhere_can_be_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = b"".join(content(ID))
    origin = tmp_path / "origin"
    write(SnapshotStore(origin), OLDER)

    def download(directory: Path) -> None:
        store = SnapshotStore(directory)
        while (position := store.partial(ID)) < len(data):
            store.append_partial(ID, position, data[position : position + 900])
        if ID not in store.ids():
            store.finish_partial(ID)

    for left, _ in every_cut(monkeypatch, origin, download):
        store = SnapshotStore(left)
        assert store.ids() in ((OLDER,), (OLDER, ID))
        if ID not in store.ids():
            download(left)
        assert SnapshotStore(left).verify(ID) == BOUNDS


def test_full_disk_keeps_the_download_position(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = b"".join(content(ID))
    store = SnapshotStore(tmp_path)
    store.append_partial(ID, 0, data[:500])
    original = os.write
    calls = 0

    def half(fd: int, piece: bytes) -> int:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return original(fd, piece[: len(piece) // 2])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", half)
        with pytest.raises(DiskFull):
            store.append_partial(ID, 500, data[500:])
    assert store.partial(ID) == 500
    store.append_partial(ID, 500, data[500:])
    assert store.finish_partial(ID) == BOUNDS


def test_unneeded_downloads_are_deleted(tmp_path: Path) -> None:
    store = SnapshotStore(tmp_path)
    for each in (OLDER, ID):
        store.append_partial(each, 0, content(each)[0])
    store.drop_partials(keep=ID)
    assert store.partials() == (ID,)
    store.drop_partials()
    assert names(tmp_path) == []


def test_download_can_be_reset_and_restarted(tmp_path: Path) -> None:
    data = b"".join(content(ID))
    store = SnapshotStore(tmp_path)
    store.append_partial(ID, 0, b"x" * 5000)
    store.append_partial(ID, 0, data[:900])
    assert store.partial(ID) == 900
    store.append_partial(ID, 500, data[500:])
    assert store.finish_partial(ID, len(data), crc32c(data)) == BOUNDS


@pytest.mark.parametrize(("size_bytes", "checksum"), [(7, None), (None, 7)])
def test_complete_snapshot_that_differs_from_the_leader_is_rejected(
    tmp_path: Path, size_bytes: int | None, checksum: int | None
) -> None:
    store = SnapshotStore(tmp_path)
    store.append_partial(ID, 0, b"".join(content(ID)))
    with pytest.raises(CorruptSnapshot, match="differs from that of the leader"):
        store.finish_partial(ID, size_bytes, checksum)
    assert store.ids() == ()
