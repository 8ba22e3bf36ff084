"""What a leader sends once more is read from the disk and looked through: every flipped bit is found."""

from pathlib import Path

import pytest

from quorum_node.records.batches import CorruptBatch, encode_values, split_batches
from quorum_node.storage.errors import StorageFailure
from quorum_node.storage.log import SegmentedLog

pytestmark = [pytest.mark.requirement("K595-02")]


def batch(base: int, epoch: int, values: list[bytes]) -> bytes:
    return encode_values(
        base_offset=base, leader_epoch=epoch, timestamp_ms=1_700_000_000_000, values=values
    )


def filled(directory: Path) -> SegmentedLog:
    log = SegmentedLog(directory, cache_bytes=1 << 20)
    for base, epoch in ((0, 1), (2, 1), (4, 3), (6, 3)):
        log.append(batch(base, epoch, [b"a", b"b"]), base, base + 2, epoch)
    log.flush()
    return log


def test_valid_log_is_read_unchanged(tmp_path: Path) -> None:
    log = filled(tmp_path)
    for start in range(8):
        for limit in (start, 6, 8):
            assert log.read_checked(start, 1 << 20, limit) == log.read(start, 1 << 20, limit)
    assert log.read_checked(8, 1 << 20, 8) == b""


def test_every_flipped_bit_of_the_file_is_detected(tmp_path: Path) -> None:
    log = filled(tmp_path)
    path = next(tmp_path.glob("*.log"))
    content = path.read_bytes()
    for bit in range(len(content) * 8):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        with pytest.raises(StorageFailure, match="damaged"):
            log.read_checked(0, 1 << 20, 8)
        with pytest.raises(StorageFailure):
            log.flush()
        log._failure = None


BATCHES = 4
FIELDS = {"base offset": range(8), "last offset delta": range(23, 27)}


@pytest.mark.parametrize("limit", [2 * BATCHES, 2 * BATCHES - 2])
@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("damaged", range(BATCHES))
def test_read_reports_a_batch_at_a_wrong_position_as_damage(
    tmp_path: Path, field: str, damaged: int, limit: int
) -> None:
    """Otherwise a read there would return nothing for ever; no client gets the records of another offset.

    An observer's reads end before the log does, at the high watermark.
    """
    filled(tmp_path).close()
    log = SegmentedLog(tmp_path, cache_bytes=0)
    path = next(tmp_path.glob("*.log"))
    content = path.read_bytes()
    size = len(content) // BATCHES
    for at in FIELDS[field]:
        for bit in range(8):
            changed = bytearray(content)
            changed[damaged * size + at] ^= 1 << bit
            path.write_bytes(changed)
            for start in range(2 * damaged, limit, 2):
                log._failure = None
                try:
                    data = log.read(start, 1 << 20, limit)
                except StorageFailure:
                    continue
                assert data, (at, bit, start)
                try:
                    first = split_batches(data)[0][0]
                except CorruptBatch:
                    continue  # data that a checksum covers may be returned: the reader detects the damage
                assert first.header.base_offset == start, (at, bit)
                assert content.startswith(first.data, size * start // 2), (at, bit)


def test_read_limit_within_a_batch_is_no_damage(tmp_path: Path) -> None:
    filled(tmp_path).close()
    log = SegmentedLog(tmp_path, cache_bytes=0)
    assert log.read(2, 1 << 20, 3) == b""
    assert log.read(2, 1 << 20, 4)
    log.close()


def test_cached_data_that_differs_from_a_valid_disk_is_dropped(tmp_path: Path) -> None:
    log = filled(tmp_path)
    good = log.read(0, 1 << 20, 8)
    entry = batch(0, 1, [b"a", b"X"])
    log._cache.truncate_to(-1)
    log._cache.append(0, 2, entry)
    assert log.read(0, 1 << 20, 2) == entry
    assert log.read_checked(0, 1 << 20, 8) == good
    assert log.read(0, 1 << 20, 8) == good
