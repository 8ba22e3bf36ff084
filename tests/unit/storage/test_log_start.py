"""A log that starts after a snapshot: deleting its prefix, resetting it, killed at every call."""

from pathlib import Path

import pytest

from quorum_node.records.batches import Record, encode_batch, split_batches
from quorum_node.records.snapshot_id import NO_SNAPSHOT, SnapshotId
from quorum_node.storage.errors import StorageFailure
from quorum_node.storage.log import SegmentedLog
from support.disk_cuts import every_cut

pytestmark = pytest.mark.usefixtures("no_sync")

SEGMENT_BYTES = 300
EPOCHS = [1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 4, 4]
"""Epoch of each offset: one record a batch, two or three batches a segment."""


def batch(base: int, epoch: int) -> bytes:
    record = Record(None, b"%d in %d " % (base, epoch) * 6)
    return encode_batch(base_offset=base, leader_epoch=epoch, timestamp_ms=1, records=[record])


def opened(directory: Path, *snapshots: SnapshotId, cache_bytes: int = 0) -> SegmentedLog:
    return SegmentedLog(
        directory, segment_bytes=SEGMENT_BYTES, cache_bytes=cache_bytes, snapshots=snapshots
    )


def fill(directory: Path, epochs: list[int] = EPOCHS) -> SegmentedLog:
    log = opened(directory)
    for epoch in epochs:
        append(log, epoch)
    log.flush()
    return log


def append(log: SegmentedLog, epoch: int) -> None:
    base = log.end_offset
    log.append(batch(base, epoch), base, base + 1, epoch)


def found(log: SegmentedLog, from_offset: int | None = None) -> list[tuple[int, int]]:
    """(offset, epoch) of everything that can be read."""
    data, offset = b"", log.start_offset if from_offset is None else from_offset
    while piece := log.read(offset, 1 << 20, log.end_offset):
        data += piece
        offset += len(split_batches(piece)[0])
    return [(b.header.base_offset, b.header.leader_epoch) for b in split_batches(data)[0]]


def expected(start: int, end: int) -> list[tuple[int, int]]:
    return [(offset, EPOCHS[offset]) for offset in range(start, end)]


@pytest.mark.requirement("K853-08")
@pytest.mark.parametrize("end_offset", range(1, len(EPOCHS) + 1))
def test_whole_segments_before_a_snapshot_are_deleted(tmp_path: Path, end_offset: int) -> None:
    log = fill(tmp_path)
    snapshot = SnapshotId(end_offset, EPOCHS[end_offset - 1])
    log.delete_prefix(snapshot)
    assert (log.start, log.start_offset) == (snapshot, end_offset)
    assert found(log) == expected(end_offset, len(EPOCHS))
    assert log.epoch_before(end_offset) == snapshot.epoch
    bases = sorted(int(path.stem) for path in tmp_path.glob("*.log"))
    assert bases[0] <= end_offset
    assert len(bases) == 1 or bases[1] > end_offset
    assert log.epoch_starts[0] == (EPOCHS[bases[0]] if bases[0] < len(EPOCHS) else 4, bases[0])
    append(log, 7)
    log.flush()
    log.close()
    again = opened(tmp_path, snapshot)
    assert again.start_offset in (0, end_offset)
    assert found(again, end_offset) == [*expected(end_offset, len(EPOCHS)), (len(EPOCHS), 7)]
    assert again.epoch_starts[-1] == (7, len(EPOCHS))
    again.close()


def test_log_with_a_later_start_needs_a_snapshot_that_reaches_it(tmp_path: Path) -> None:
    log = fill(tmp_path)
    snapshot = SnapshotId(8, 4)
    log.delete_prefix(snapshot)
    base = min(int(path.stem) for path in tmp_path.glob("*.log"))
    assert base > 3
    log.close()
    for snapshots in ((), (SnapshotId(base - 1, 2),)):
        with pytest.raises(StorageFailure, match="no undamaged snapshot"):
            opened(tmp_path, *snapshots)
    oldest = SnapshotId(base, EPOCHS[base - 1])
    log = opened(tmp_path, SnapshotId(1, 1), oldest, snapshot)
    assert log.start == oldest
    log.close()


@pytest.mark.requirement("K853-08")
def test_prefix_deletion_killed_anywhere_leaves_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = tmp_path / "origin"
    fill(origin).close()
    snapshot = SnapshotId(10, 4)
    starts = set()

    def delete(directory: Path) -> None:
        log = opened(directory, snapshot)
        log.delete_prefix(snapshot)
        append(log, 5)
        log.flush()

    for left, _ in every_cut(monkeypatch, origin, delete):
        log = opened(left, snapshot)
        starts.add(log.start)
        assert found(log)[: len(EPOCHS) - log.start_offset] == expected(
            log.start_offset, len(EPOCHS)
        )
        log.delete_prefix(snapshot)
        assert found(log)[:2] == expected(10, 12)
        log.close()
        assert {p.stem for p in left.glob("*.seal")} <= {p.stem for p in left.glob("*.log")}
    assert starts == {NO_SNAPSHOT, snapshot}


@pytest.mark.requirement("K853-08")
@pytest.mark.parametrize("id", [SnapshotId(40, 6), SnapshotId(12, 4), SnapshotId(5, 3)])
def test_reset_killed_anywhere_can_be_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, id: SnapshotId
) -> None:
    """The snapshot lies behind the log, at its end, or in it with another epoch; it is durable before."""
    origin = tmp_path / "origin"
    fill(origin).close()
    ends = set()

    def reset(directory: Path) -> None:
        opened(directory, id).reset_to(id)

    for left, _ in every_cut(monkeypatch, origin, reset):
        log = opened(left, id)
        ends.add(log.end_offset)
        if log.epoch_before(id.end_offset) == id.epoch and log.end_offset > id.end_offset:
            raise AssertionError("nothing says that the reset was cut short")
        # What is left agrees with the old log, and is never longer.
        if log.start != id:
            assert found(log) == expected(0, log.end_offset)
            log.reset_to(id)
        assert (log.start, log.end_offset) == (id, id.end_offset)
        assert log.epoch_starts == []
        append(log, 9)
        assert log.flush() == id.end_offset + 1
        log.close()
        again = opened(left, id)
        assert (again.start, again.epoch_starts) == (id, [(9, id.end_offset)])
        assert found(again) == [(id.end_offset, 9)]
        again.close()
    assert ends >= {0, len(EPOCHS), id.end_offset}


def test_reset_clears_the_tail_in_memory(tmp_path: Path) -> None:
    log = opened(tmp_path, cache_bytes=1 << 20)
    for _ in range(4):
        append(log, 1)
    snapshot = SnapshotId(1, 3)
    log.reset_to(snapshot)
    append(log, 3)
    append(log, 3)
    assert found(log) == [(1, 3), (2, 3)]
    assert log.flush() == 3
    log.close()


def test_unsynced_segment_is_kept(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for epoch in EPOCHS:
        append(log, epoch)
    before = len(list(tmp_path.glob("*.log")))
    log.delete_prefix(SnapshotId(10, 4))
    assert len(list(tmp_path.glob("*.log"))) == before
    log.flush()
    log.delete_prefix(SnapshotId(10, 4))
    assert len(list(tmp_path.glob("*.log"))) < before
    assert found(log) == expected(10, 12)
    log.close()


def test_epoch_before_an_offset(tmp_path: Path) -> None:
    log = fill(tmp_path)
    assert [log.epoch_before(offset) for offset in (0, 1, 3, 4, 7, 8, 12, 13)] == [
        0, 1, 1, 2, 2, 4, 4, None,
    ]  # fmt: skip
    log.delete_prefix(SnapshotId(8, 4))
    assert [log.epoch_before(offset) for offset in (7, 8, 9)] == [None, 4, 4]
    log.close()


@pytest.mark.parametrize(
    "name",
    [
        "6.log",
        "10.log",
        "000000000000000000010.log",
        "99999999999999999999.log",
        "00000000000000000010 (1).log",
        "old.log",
        ".log",
        "-1.log",
    ],
)
@pytest.mark.parametrize("content", [b"", b"not a batch"])
def test_foreign_file_is_neither_read_nor_removed(
    tmp_path: Path, name: str, content: bytes
) -> None:
    """6 and 10 are base offsets of segments."""
    fill(tmp_path).close()
    assert {"00000000000000000006.log", "00000000000000000010.log"} <= {
        each.name for each in tmp_path.iterdir()
    }
    (tmp_path / name).write_bytes(content)
    before = {each.name for each in tmp_path.iterdir()}
    for _ in range(2):
        log = opened(tmp_path)
        assert found(log) == expected(0, len(EPOCHS))
        log.close()
        assert {each.name for each in tmp_path.iterdir()} == before
    assert (tmp_path / name).read_bytes() == content
