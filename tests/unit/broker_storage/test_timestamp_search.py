"""Offsets by timestamp: beside deleted records, in pieces, and with timestamps in any order."""

from pathlib import Path
from random import Random

import pytest

from quorum_node.storage.broker.errors import VoidSearch
from quorum_node.storage.broker.log_settings import LogSettings
from quorum_node.storage.broker.partition_log import PartitionLog
from quorum_node.storage.broker.timestamp_search import (
    offset_for_timestamp,
    offset_of_newest,
    searched,
)
from support.data_batches import data_batch
from support.finished_search import finished, pieces_of

MANY = 2_000


def log_of(
    root: Path, timestamps_ms: list[int], settings: LogSettings | None = None
) -> PartitionLog:
    log = PartitionLog.open(root, settings or LogSettings())
    log.append([data_batch(at, timestamp_ms=each) for at, each in enumerate(timestamps_ms)])
    return log


def test_record_with_the_largest_timestamp_is_one_that_is_not_deleted(tmp_path: Path) -> None:
    log = PartitionLog.open(tmp_path, LogSettings())
    for offset, timestamp_ms in enumerate((9_000, 1_000, 500)):
        log.append([data_batch(offset, timestamp_ms=timestamp_ms)])
    log.append([data_batch(3, count=4, timestamp_ms=100, first_timestamp_ms=150)])
    log.delete_records_below(1)
    assert finished(offset_of_newest(log)) == (1, 1_000, 0)
    log.delete_records_below(3)
    assert finished(offset_of_newest(log)) == (3, 150, 0)
    log.delete_records_below(5)  # within the last batch, whose newest record is the first one
    assert finished(offset_of_newest(log)) == (5, 100, 0)


def test_search_among_timestamps_that_do_not_ascend_is_done_in_pieces(tmp_path: Path) -> None:
    """It has to read the header of each batch."""
    log = log_of(tmp_path, [5_000, *[1_000] * MANY, 9_000])
    assert pieces_of(offset_for_timestamp(log, 6_000)) >= 3
    assert finished(offset_for_timestamp(log, 6_000)) == (MANY + 1, 9_000, 0)
    log.delete_records_below(1)
    assert pieces_of(offset_of_newest(log, MANY)) >= 3
    assert finished(offset_of_newest(log, MANY)) == (1, 1_000, 0)


def test_search_in_a_large_batch_is_done_in_pieces(tmp_path: Path) -> None:
    log = PartitionLog.open(tmp_path, LogSettings())
    log.append([data_batch(0, count=MANY, timestamp_ms=100, first_timestamp_ms=150)])
    log.delete_records_below(1)
    assert pieces_of(offset_for_timestamp(log, 120)) >= 3
    assert finished(offset_for_timestamp(log, 120)) is None
    assert pieces_of(offset_of_newest(log)) >= 3
    assert finished(offset_of_newest(log)) == (1, 100, 0)


def test_what_is_committed_is_searched_with_the_index(tmp_path: Path) -> None:
    """While records are written, the end of the log is hardly ever committed."""
    log = log_of(tmp_path, [1_000 + each for each in range(MANY)])
    log.read(0, 1 << 20, MANY - 2)  # a reader has got to the high watermark
    assert pieces_of(offset_of_newest(log, MANY - 1)) == 0
    assert finished(offset_of_newest(log, MANY - 1)) == (MANY - 2, 2_998, 0)
    assert pieces_of(offset_for_timestamp(log, 1 << 40)) == 0, "later than all records"


@pytest.mark.parametrize("has_gone", ["truncated", "closed"])
def test_search_ends_with_the_log(tmp_path: Path, has_gone: str) -> None:
    log = log_of(tmp_path, [5_000, *[1_000] * MANY, 9_000])
    search = searched(log, offset_for_timestamp(log, 6_000))
    next(search)
    if has_gone == "closed":
        log.close()
    else:
        log.truncate_to(10)
        log.append([data_batch(10, timestamp_ms=7_000)])
    with pytest.raises(VoidSearch):
        next(search)


def first_since(
    timestamps_ms: list[int], timestamp_ms: int, start: int, limit: int
) -> tuple[int, int] | None:
    found = ((at, each) for at, each in enumerate(timestamps_ms) if at >= start)
    first = next((each for each in found if each[1] >= timestamp_ms), None)
    return None if first is None or first[0] >= limit else first


@pytest.mark.parametrize("seed", range(20))
def test_timestamps_in_any_order(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    timestamps = [random.choice((random.randrange(100), 50 + at)) for at in range(200)]
    settings = LogSettings(
        segment_bytes=random.choice((2_000, 5_000, 1 << 20)),
        index_interval_bytes=random.choice((1, 200, 1_000)),
    )
    log = log_of(tmp_path, timestamps, settings)
    if random.random() < 0.5:
        log.truncate_to(180)
        log.append([data_batch(at, timestamp_ms=timestamps[at]) for at in range(180, 200)])
    for start in (0, random.randrange(100), 100 + random.randrange(99)):
        log.delete_records_below(start)
        for limit in {200, start + 1, *(random.randrange(start + 1, 201) for _ in range(5))}:
            log.read(start, 1 << 20, limit - 1)  # leaves a hint
            readable = timestamps[start:limit]
            newest = finished(offset_of_newest(log, limit))
            assert newest is not None
            expected = start + readable.index(max(readable)), max(readable)
            assert newest[:2] == expected, (start, limit)
            wanted = random.randrange(300)
            found = finished(offset_for_timestamp(log, wanted, limit))
            assert (found and found[:2]) == first_since(timestamps, wanted, start, limit)
