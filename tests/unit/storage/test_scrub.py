"""The scrub reads again what was synced, also in the segment that is being written, and condemns nothing else."""

from pathlib import Path

import pytest

from quorum_node.records.batches import encode_values
from quorum_node.storage.log import SegmentedLog
from quorum_node.storage.scrub import scrub
from quorum_node.storage.segment import Segment

pytestmark = [pytest.mark.requirement("K595-02")]


def append(log: SegmentedLog, count: int) -> None:
    for _ in range(count):
        base = log.end_offset
        data = encode_values(
            base_offset=base, leader_epoch=1, timestamp_ms=1_700_000_000_000, values=[b"v" * 20]
        )
        log.append(data, base, base + 1, 1)


def flip(path: Path, position: int, bit: int = 0) -> bytes:
    """The unchanged content."""
    content = path.read_bytes()
    changed = bytearray(content)
    changed[position] ^= 1 << bit
    path.write_bytes(changed)
    return content


@pytest.mark.parametrize("cut", [False, True], ids=["appended", "cut and appended again"])
def test_every_flipped_bit_below_the_synced_end_of_the_active_segment_is_detected(
    tmp_path: Path, cut: bool
) -> None:
    """A segment that was cut has no checksum as a whole: there the batches' own have to do, and what offsets and epochs are known."""
    log = SegmentedLog(tmp_path)
    append(log, 6)
    if cut:
        log.flush()
        log.truncate_to(3)
        append(log, 2)
    log.flush()
    (segment,) = log.segments
    assert scrub(log.segments) is None
    for position in range(segment.size_bytes):
        content = flip(segment.path, position, position % 8)
        failure = scrub(log.segments)
        assert failure is not None, position
        assert segment.path.name in str(failure)
        segment.path.write_bytes(content)
    assert scrub(log.segments) is None


def test_segment_unchanged_since_the_start_is_scrubbed_as_well(
    tmp_path: Path,
) -> None:
    """A start reads the file from the disk: what it found there counts as synced, also in the last segment."""
    log = SegmentedLog(tmp_path)
    append(log, 3)
    log.flush()
    log.close()
    log = SegmentedLog(tmp_path)
    (segment,) = log.segments
    assert scrub(log.segments) is None
    epoch_of_the_last = segment.size_bytes * 2 // 3 + 13
    flip(segment.path, epoch_of_the_last)
    failure = scrub(log.segments)
    assert failure is not None
    assert segment.path.name in str(failure)


def test_unsynced_data_is_not_reported_as_damage(tmp_path: Path) -> None:
    log = SegmentedLog(tmp_path)
    append(log, 2)
    log.flush()
    synced_bytes = log.segments[0].size_bytes
    append(log, 2)
    flip(log.segments[0].path, synced_bytes + 30)
    assert scrub(log.segments) is None
    log.segments[0].path.write_bytes(log.segments[0].path.read_bytes()[: synced_bytes - 1])
    failure = scrub(log.segments)
    assert failure is not None
    assert "the file ends after" in str(failure)


def test_all_segments_are_scrubbed_in_turn(tmp_path: Path) -> None:
    log = SegmentedLog(tmp_path, segment_bytes=300)
    append(log, 30)
    log.flush()
    assert len(log.segments) > 4
    for segment in log.segments:
        content = flip(segment.path, 40)
        failure = scrub(log.segments)
        assert failure is not None
        assert segment.path.name in str(failure)
        segment.path.write_bytes(content)
    assert scrub(log.segments) is None


@pytest.mark.parametrize("change", ["truncate", "truncate and append", "drop", "reset"])
def test_segment_truncated_during_the_scrub_is_no_damage(tmp_path: Path, change: str) -> None:
    """At every piece that is read: the bytes under the reader change, and so does what they should be."""
    log = SegmentedLog(tmp_path, segment_bytes=1 << 20)
    append(log, 8)
    log.flush()
    seen: list[Segment] = list(log.segments)

    def meanwhile(size_bytes: int) -> bool:
        if log.end_offset == 8:
            log.truncate_to(0 if change == "drop" else 4)
            if change == "truncate and append":
                append(log, 9)
                log.flush()
            if change == "reset":
                log.truncate_to(0)
        return True

    flip(seen[0].path, seen[0].size_bytes - 10)
    assert scrub(seen, meanwhile) is None


def test_scrub_rate_is_kept_and_stop_is_honoured(tmp_path: Path) -> None:
    log = SegmentedLog(tmp_path)
    append(log, 8)
    log.flush()
    read: list[int] = []

    def pause(size_bytes: int) -> bool:
        read.append(size_bytes)
        return False

    flip(log.segments[0].path, 40)
    assert scrub(log.segments, pause) is None, "ended before it was complete"
    assert sum(read) == log.segments[0].size_bytes
