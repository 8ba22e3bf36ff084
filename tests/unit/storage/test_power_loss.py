"""Power that goes between any two steps of a log, on a disk that loses what was not synced."""

from contextlib import suppress
from itertools import product
from pathlib import Path
from random import Random

import pytest

from quorum_node.records.batches import Record, encode_batch
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.storage.log import SegmentedLog
from quorum_simulation.files.file_system import PowerLost, SimulatedFiles

FOLDER = Path("/log")
pytestmark = pytest.mark.requirement("K595-06")


def append(log: SegmentedLog, epoch: int) -> None:
    base = log.end_offset
    records = [Record(None, b"x" * 50)]
    data = encode_batch(base_offset=base, leader_epoch=epoch, timestamp_ms=1, records=records)
    log.append(data, base, base + 1, epoch)


def opened(files: SimulatedFiles) -> SegmentedLog:
    return SegmentedLog(FOLDER, segment_bytes=400, files=files)


def test_truncation_is_durable_before_a_new_epoch() -> None:
    """Seed 1 of the simulation: the cut was undone, and the checkpoint knew of the new epoch already."""
    for seed, cut_at, shuffled in product(range(12), (2, 4, 5, 9), (False, True)):
        files = SimulatedFiles(Random(seed), shuffled=shuffled)
        log = opened(files)
        for _ in range(10):
            append(log, epoch=1)
        log.flush()
        log.truncate_to(cut_at)
        append(log, epoch=2)
        files.lose_power()
        again = opened(files)
        assert again.end_offset >= cut_at
        assert again.epoch_starts in ([(1, 0)], [(1, 0), (2, cut_at)])


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_power_loss_between_two_segments_is_recovered(seed: int, shuffled: bool) -> None:
    """Of what was not synced the name of the new segment may be all that arrives."""
    files = SimulatedFiles(Random(seed), shuffled=shuffled)
    log = opened(files)
    for _ in range(3):
        append(log, epoch=1)
    log.flush()
    for _ in range(6):
        append(log, epoch=1)
    assert len(log.segments) > 1
    files.lose_power()
    again = opened(files)
    assert 3 <= again.end_offset <= 9
    append(again, epoch=1)
    again.flush()
    files.lose_power()
    assert opened(files).end_offset == again.end_offset


@pytest.mark.parametrize("calls", range(24))
def test_interrupted_reset_is_no_damage(calls: int) -> None:
    """What was synced of the older log is known from a snapshot, and the log may still be there, or in part, or empty."""
    before, downloaded = SnapshotId(4, 1), SnapshotId(50, 3)
    for seed, shuffled in product(range(20), (False, True)):
        files = SimulatedFiles(Random(seed), shuffled=shuffled)
        log = opened(files)
        for _ in range(10):
            append(log, epoch=1)
        log.flush()
        assert len(log.segments) > 2
        files.calls_left = calls
        with suppress(PowerLost):
            log.reset_to(downloaded)
        files.lose_power()
        again = SegmentedLog(
            FOLDER,
            segment_bytes=400,
            snapshots=(before, downloaded),
            synced_offset=before.end_offset,
            files=files,
        )
        assert again.end_offset <= 10 or again.end_offset == downloaded.end_offset
