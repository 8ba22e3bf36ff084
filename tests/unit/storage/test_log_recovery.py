"""Crash tests of the real log on a real directory: cut anywhere, flip any bit, reopen."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from quorum_node.records.batches import Record, decode_records, encode_batch, split_batches
from quorum_node.storage.errors import StorageFailure
from quorum_node.storage.log import SegmentedLog
from quorum_node.storage.synced_end import FILE_NAME, SyncedEnd

SEGMENT = "00000000000000000000.log"
VALUE = b"value-" + bytes(range(40))


def batch(base: int, epoch: int, count: int = 1, control: bool = False) -> bytes:
    records = [Record(None, VALUE + str(base + n).encode()) for n in range(count)]
    return encode_batch(
        base_offset=base, leader_epoch=epoch, timestamp_ms=1, records=records, control=control
    )


def fill(directory: Path, shape: list[tuple[int, int]]) -> list[bytes]:
    """Append batches of (epoch, record count) and flush; returns their bytes."""
    log = SegmentedLog(directory)
    batches = []
    for epoch, count in shape:
        data = batch(log.end_offset, epoch, count)
        log.append(data, log.end_offset, log.end_offset + count, epoch)
        batches.append(data)
    assert log.flush() == log.end_offset
    log.close()
    return batches


SHAPE = [(1, 1), (1, 3), (2, 2), (2, 1), (4, 3)]
END_OFFSETS = [1, 4, 6, 7, 10]


@pytest.mark.requirement("K595-02")
@pytest.mark.usefixtures("no_sync")
@pytest.mark.parametrize("synced", [None, 4])
def test_log_truncated_anywhere_reopens_with_whole_batches(
    tmp_path: Path, synced: int | None
) -> None:
    """Of a log that nothing is known of, as an older version left it, and of one with a known synced end."""
    batches = fill(tmp_path, SHAPE)
    content = (tmp_path / SEGMENT).read_bytes()
    ends = [sum(map(len, batches[: n + 1])) for n in range(len(batches))]
    for size in range(ends[1], len(content) + 1):
        (tmp_path / SEGMENT).write_bytes(content[:size])
        (tmp_path / FILE_NAME).unlink(missing_ok=True)
        if synced is not None:
            SyncedEnd(tmp_path, synced, 1).close()
        log = SegmentedLog(tmp_path)
        whole = sum(1 for end in ends if end <= size)
        assert log.end_offset == END_OFFSETS[whole - 1]
        assert log.torn_bytes == size - ends[whole - 1]
        assert (tmp_path / SEGMENT).stat().st_size == ends[whole - 1]
        assert log.read(0, 1 << 20, log.end_offset) == content[: ends[whole - 1]]
        # What was cut off can be written again.
        log.append(batch(log.end_offset, 9), log.end_offset, log.end_offset + 1, 9)
        log.flush()
        log.close()
        (tmp_path / "leader-epoch-checkpoint").unlink()
        (tmp_path / SEGMENT).write_bytes(content)
        (tmp_path / "leader-epoch-checkpoint").write_text("0\n3\n1 0\n2 4\n4 7\n")


@pytest.mark.requirement("K595-02")
def test_every_flipped_bit_is_detected_and_nothing_is_truncated(tmp_path: Path) -> None:
    fill(tmp_path, SHAPE)
    content = (tmp_path / SEGMENT).read_bytes()
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 1 << (position % 8)
        (tmp_path / SEGMENT).write_bytes(damaged)
        with pytest.raises(StorageFailure):
            SegmentedLog(tmp_path)
        assert (tmp_path / SEGMENT).read_bytes() == damaged


@pytest.mark.parametrize("bit", range(8))
def test_every_bit_of_the_last_header_is_covered(tmp_path: Path, bit: int) -> None:
    batches = fill(tmp_path, SHAPE)
    content = (tmp_path / SEGMENT).read_bytes()
    start = len(content) - len(batches[-1])
    for position in range(start, start + 61):
        damaged = bytearray(content)
        damaged[position] ^= 1 << bit
        (tmp_path / SEGMENT).write_bytes(damaged)
        with pytest.raises(StorageFailure):
            SegmentedLog(tmp_path)


@pytest.mark.parametrize("zeros", [1, 60, 61, 512, 4096, 10_000])
def test_zeros_after_the_last_batch_are_truncated(tmp_path: Path, zeros: int) -> None:
    fill(tmp_path, SHAPE)
    with (tmp_path / SEGMENT).open("ab") as file:
        file.write(bytes(zeros))
    log = SegmentedLog(tmp_path)
    assert (log.end_offset, log.torn_bytes) == (10, zeros)
    log.close()


def test_batch_with_unwritten_last_sectors_is_truncated(tmp_path: Path) -> None:
    fill(tmp_path, SHAPE)
    before = (tmp_path / SEGMENT).stat().st_size
    data = bytearray(batch(10, 4, count=100))
    assert len(data) > 4096
    for written in (700, 1024, 2500):
        torn = bytes(data[:written]) + bytes(len(data) - written)
        with (tmp_path / SEGMENT).open("ab") as file:
            file.write(torn)
        log = SegmentedLog(tmp_path)
        assert log.end_offset == 10
        log.close()
        assert (tmp_path / SEGMENT).stat().st_size == before


def test_truncated_segment_before_the_last_is_damage(tmp_path: Path) -> None:
    log = SegmentedLog(tmp_path, segment_bytes=200)
    for offset in range(10):
        log.append(batch(offset, 1), offset, offset + 1, 1)
    log.flush()
    log.close()
    segments = sorted(tmp_path.glob("*.log"))
    assert len(segments) > 3
    for known in (tmp_path / FILE_NAME, *tmp_path.glob("*.seal")):
        known.unlink()
    os.truncate(segments[1], segments[1].stat().st_size - 5)
    with pytest.raises(StorageFailure, match="before the end of the log"):
        SegmentedLog(tmp_path)
    segments[1].unlink()
    with pytest.raises(StorageFailure, match="does not follow"):
        SegmentedLog(tmp_path)


WRITER = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from quorum_node.records.batches import Record, encode_batch
from quorum_node.storage.log import SegmentedLog
log = SegmentedLog(Path(sys.argv[1]), segment_bytes=20_000)
offset = log.end_offset
while True:
    for _ in range(5):
        data = encode_batch(base_offset=offset, leader_epoch=offset // 50 + 1, timestamp_ms=1,
                            records=[Record(None, b"%020d" % offset * 50)])
        log.append(data, offset, offset + 1, offset // 50 + 1)
        offset += 1
    print(log.flush(), flush=True)
"""


def test_killed_writer_loses_no_durable_record(tmp_path: Path) -> None:
    durable = 0
    for round_number in range(6):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), *sys.path],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        for _ in range(20 + round_number):
            durable = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        rest = process.communicate()[0].split()
        durable = int(rest[-1]) if rest else durable
        log = SegmentedLog(tmp_path)
        assert log.end_offset >= durable > 0
        offset = 0
        while data := log.read(offset, 100_000, log.end_offset):
            batches, trailing = split_batches(data)
            assert trailing == 0
            for found in batches:
                for record in decode_records(found):
                    assert (record.offset, record.value) == (offset, b"%020d" % offset * 50)
                    offset += 1
        assert offset == log.end_offset
        log.close()
