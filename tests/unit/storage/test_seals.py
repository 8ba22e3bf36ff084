"""Seals: a log is opened without reading what was closed, and nothing that was durable is lost by that."""

import random
import shutil
from pathlib import Path

import pytest

from quorum_node.records.batches import Record, encode_batch
from quorum_node.records.control import KRaftVersion, encode_control
from quorum_node.storage import segment as segment_module
from quorum_node.storage.errors import DiskFull, StorageFailure
from quorum_node.storage.log import SegmentedLog
from quorum_node.storage.recovery import INDEX_INTERVAL_BYTES
from quorum_node.storage.scrub import scrub
from quorum_node.storage.seal import read_seal
from quorum_node.storage.segment import Segment
from support.disk_cuts import every_cut

pytestmark = pytest.mark.usefixtures("no_sync")

SEGMENT_BYTES = 400


def batch(base: int, epoch: int) -> bytes:
    control = base % 5 == 0
    record = encode_control(KRaftVersion(1)) if control else Record(None, b"%030d" % base)
    return encode_batch(
        base_offset=base, leader_epoch=epoch, timestamp_ms=1, records=[record], control=control
    )


def opened(directory: Path) -> SegmentedLog:
    return SegmentedLog(directory, segment_bytes=SEGMENT_BYTES, cache_bytes=0)


def append(log: SegmentedLog, count: int = 1) -> None:
    for _ in range(count):
        base = log.end_offset
        epoch = 1 + base // 7
        log.append(batch(base, epoch), base, base + 1, epoch)


def fill(directory: Path, count: int = 40) -> None:
    log = opened(directory)
    append(log, count)
    log.flush()
    log.close()


def facts(log: SegmentedLog) -> tuple[int, object, object, bytes]:
    everything = b"".join(
        log.read(offset, 1, offset + 1) for offset in range(log.start_offset, log.end_offset)
    )
    return log.end_offset, log.epoch_starts, log.control_batches, everything


def test_sealed_log_equals_a_scanned_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path)
    assert len(list(tmp_path.glob("*.seal"))) == len(list(tmp_path.glob("*.log"))) - 1 > 5
    scanned_bytes = 0
    original = segment_module.scan_segment

    def counting(content: bytes, *rest: object) -> object:
        nonlocal scanned_bytes
        scanned_bytes += len(content)
        return original(content, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(segment_module, "scan_segment", counting)
    log = opened(tmp_path)
    assert scanned_bytes <= SEGMENT_BYTES
    assert len(log.sealed_at_open) > 5
    from_seals = facts(log)
    log.close()
    for seal in tmp_path.glob("*.seal"):
        seal.unlink()
    log = opened(tmp_path)
    assert log.sealed_at_open == []
    assert facts(log) == from_seals
    log.close()
    assert len(list(tmp_path.glob("*.seal"))) > 5


def test_damaged_seal_is_ignored(tmp_path: Path) -> None:
    fill(tmp_path)
    log = opened(tmp_path)
    wanted = facts(log)
    log.close()
    seal = min(tmp_path.glob("*.seal"))
    content = seal.read_bytes()
    for position in range(0, len(content), 3):
        damaged = bytearray(content)
        damaged[position] ^= 1 << position % 8
        seal.write_bytes(damaged)
        log = opened(tmp_path)
        assert facts(log) == wanted
        log.close()
        assert seal.read_bytes() == content  # written again


def test_segment_that_does_not_match_its_seal_is_scanned(tmp_path: Path) -> None:
    fill(tmp_path)
    second = sorted(tmp_path.glob("*.log"))[1]
    content = second.read_bytes()
    for other in (content[:-1], content + bytes(100)):
        second.write_bytes(other)
        with pytest.raises(StorageFailure, match="is damaged at byte"):
            opened(tmp_path)
    second.unlink()
    with pytest.raises(StorageFailure, match="does not follow"):
        opened(tmp_path)


@pytest.mark.parametrize("field", ["base offset", "length", "epoch", "magic", "CRC-32C"])
def test_no_voters_are_read_from_a_control_batch_with_a_damaged_header(
    tmp_path: Path, field: str
) -> None:
    """The segment is not read at the start, and no checksum covers where a batch belongs: an older voters record
    could pass for the latest one, and another leader for that of the epoch.
    """
    fill(tmp_path)
    positions = {
        "base offset": range(8),
        "length": range(8, 12),
        "epoch": range(12, 16),
        "magic": range(16, 17),
        "CRC-32C": range(17, 21),
    }[field]
    found = 0
    for path in sorted(tmp_path.glob("*.log"))[:-1]:
        content = path.read_bytes()
        seal = read_seal(path)
        assert seal is not None
        for start, _ in seal.control_spans:
            for bit in range(positions[0] * 8, positions[-1] * 8 + 8):
                damaged = bytearray(content)
                damaged[start + bit // 8] ^= 1 << bit % 8
                path.write_bytes(damaged)
                with pytest.raises(StorageFailure, match=r"damaged|is not where"):
                    opened(tmp_path)
                found += 1
        path.write_bytes(content)
    assert found > 5 * 8
    opened(tmp_path).close()


def test_start_reads_at_most_an_index_interval_before_a_control_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = SegmentedLog(tmp_path, segment_bytes=1 << 16, cache_bytes=0)
    append(log, 1500)
    log.flush()
    log.close()
    read: list[int] = []
    original = Segment._pread

    def counting(segment: Segment, size: int, position: int) -> bytes:
        read.append(size)
        return original(segment, size, position)

    monkeypatch.setattr(Segment, "_pread", counting)
    log = SegmentedLog(tmp_path, segment_bytes=1 << 16, cache_bytes=0)
    assert len(log.sealed_at_open) >= 2
    last_bytes = log.segments[-1].size_bytes
    assert max(size for size in read if size != last_bytes) <= INDEX_INTERVAL_BYTES
    log.close()


def test_missing_last_segment_is_detected(tmp_path: Path) -> None:
    """Without seals a log that lost its last file would pass for a shorter one."""
    fill(tmp_path)
    max(tmp_path.glob("*.log")).unlink()
    with pytest.raises(StorageFailure, match="is missing, and acknowledged records with it"):
        opened(tmp_path)


def test_scrub_detects_every_flipped_bit_of_unread_data(tmp_path: Path) -> None:
    fill(tmp_path, count=25)
    log = opened(tmp_path)
    assert scrub(log.sealed_at_open) is None
    path = log.sealed_at_open[1].path
    content = path.read_bytes()
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 1 << position % 8
        path.write_bytes(damaged)
        failure = scrub(log.sealed_at_open)
        assert failure is not None
        assert path.name in str(failure)
    path.write_bytes(content)
    assert scrub(log.sealed_at_open) is None
    path.unlink()  # a prefix that was deleted meanwhile is no damage
    assert scrub(log.sealed_at_open) is None
    log.close()


def test_damaged_control_batch_is_detected_at_open(tmp_path: Path) -> None:
    """Voter sets come from there."""
    fill(tmp_path)
    path = tmp_path / f"{0:020d}.log"
    damaged = bytearray(path.read_bytes())
    damaged[65] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(StorageFailure, match="control batch"):
        opened(tmp_path)


def test_read_never_follows_a_damaged_length(tmp_path: Path) -> None:
    fill(tmp_path)
    log = opened(tmp_path)
    path = log.sealed_at_open[0].path
    content = path.read_bytes()
    for length in (0, 48, -(2**31), 2**31 - 1):
        path.write_bytes(content[:8] + length.to_bytes(4, "big", signed=True) + content[12:])
        with pytest.raises(StorageFailure, match="damaged at byte 0"):
            log.read(1, 1 << 20, log.end_offset)
    log.close()


@pytest.mark.parametrize("end_offset", [3, 25])
def test_truncation_killed_anywhere_leaves_no_seal_of_deleted_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end_offset: int
) -> None:
    origin = tmp_path / "origin"
    fill(origin)

    def truncate_and_continue(directory: Path) -> None:
        log = opened(directory)
        log.truncate_to(end_offset)
        for _ in range(8):
            base = log.end_offset
            log.append(batch(base, 90), base, base + 1, 90)
        log.flush()

    for left, _ in every_cut(monkeypatch, origin, truncate_and_continue):
        log = opened(left)
        assert end_offset <= log.end_offset <= max(40, end_offset + 8)
        kept, *_ = facts(log)
        assert scrub(log.sealed_at_open) is None
        log.close()
        for seal in left.glob("*.seal"):
            seal.unlink()
        log = opened(left)
        assert log.end_offset == kept
        log.close()


def test_full_disk_fails_only_the_seal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(segment: Segment, end_offset: int) -> None:
        raise DiskFull("ENOSPC")

    with monkeypatch.context() as patch:
        patch.setattr(Segment, "seal", full)
        fill(tmp_path)
    assert list(tmp_path.glob("*.seal")) == []
    log = opened(tmp_path)
    assert log.end_offset == 40
    log.close()
    assert list(tmp_path.glob("*.seal"))


def test_random_histories_open_to_the_same_log_with_and_without_seals(tmp_path: Path) -> None:
    rng = random.Random(5)
    for round_number in range(6):
        directory = tmp_path / str(round_number)
        log = opened(directory)
        for _ in range(60):
            act = rng.random()
            if act < 0.7:
                append(log, rng.randint(1, 9))
            elif act < 0.8:
                log.truncate_to(rng.randint(max(0, log.end_offset - 25), log.end_offset))
            else:
                log.flush()
        log.flush()
        wanted = facts(log)[0], facts(log)[1], facts(log)[3]
        log.close()
        bare = tmp_path / f"{round_number}-bare"
        shutil.copytree(directory, bare, ignore=shutil.ignore_patterns("*.seal"))
        for each in (directory, bare):
            log = opened(each)
            assert (facts(log)[0], facts(log)[1], facts(log)[3]) == wanted
            assert scrub(log.sealed_at_open) is None
            log.close()
