"""A truncation restores the state of producers with little reading: a follower truncates on the loop, when others wait for a new leader."""

from pathlib import Path
from random import Random

import pytest

from quorum_node.broker.batch import Batch
from quorum_node.storage.broker.log_loading import Known
from quorum_node.storage.broker.log_settings import LogSettings
from quorum_node.storage.broker.partition_log import PartitionLog
from quorum_node.storage.broker.producer_copies import (
    INTERVAL_BYTES,
    MOST_PRODUCERS,
    ProducerCopies,
)
from quorum_node.storage.broker.producer_table import ProducerTable
from quorum_node.storage.broker.producer_walk import marker_of
from quorum_node.storage.file_system import PosixFileSystem
from support.data_batches import data_batch, end_of_transaction

LARGE = LogSettings(segment_bytes=1 << 30)
VALUE_BYTES = 16 << 10
MANY = 5 * INTERVAL_BYTES // VALUE_BYTES
BESIDE_BYTES = 1 << 20
"""What a truncation reads beside the batches: of indexes, and pieces of files that are longer than needed."""


class CountedReads(PosixFileSystem):
    """`read_bytes`: of all reads."""

    read_bytes = 0

    def pread(self, fd: int, size: int, position: int) -> bytes:
        found = super().pread(fd, size, position)
        self.read_bytes += len(found)
        return found

    def of_truncation(self, log: PartitionLog, end_offset: int) -> int:
        before = self.read_bytes
        log.truncate_to(end_offset)
        return self.read_bytes - before


def appended(log: PartitionLog, first: int, count: int = MANY) -> None:
    for offset in range(first, first + count):
        log.append([data_batch(offset, producer_id=1, sequence=offset, value_bytes=VALUE_BYTES)])


def test_truncation_of_the_last_batch_reads_an_interval_of_the_segment(tmp_path: Path) -> None:
    files = CountedReads()
    log = PartitionLog.open(tmp_path, LARGE, files=files)
    appended(log, 0)
    assert len(log.segments) == 1
    for end_offset in (MANY - 1, MANY - 2):
        assert files.of_truncation(log, end_offset) <= INTERVAL_BYTES + BESIDE_BYTES
        ((entry,),) = [log.producers()]
        assert entry.batches[-1].end_offset == end_offset
    log.close()


def test_so_does_one_after_the_log_was_read_at_its_opening(tmp_path: Path) -> None:
    """A leader that was killed truncates when it is a follower."""
    appended(PartitionLog.open(tmp_path, LARGE), 0)
    files = CountedReads()
    log = PartitionLog.open(tmp_path, LARGE, Known(0, 0), files=files)
    assert files.of_truncation(log, MANY - 1) <= INTERVAL_BYTES + BESIDE_BYTES
    log.close()


@pytest.mark.parametrize("starts", [1, 2])
def test_so_does_one_below_the_end_at_a_clean_stop(tmp_path: Path, starts: int) -> None:
    """Of the last segment nothing is read when the log is opened then."""
    log = PartitionLog.open(tmp_path, LARGE)
    appended(log, 0)
    files = CountedReads()
    for _ in range(starts):
        log.close()
        log = PartitionLog.open(tmp_path, LARGE, Known(MANY, 0, was_closed=True), files=files)
    for end_offset in (MANY - 1, MANY - 2):
        assert files.of_truncation(log, end_offset) <= INTERVAL_BYTES + BESIDE_BYTES
        ((entry,),) = [log.producers()]
        assert entry.batches[-1].end_offset == end_offset
    log.close()


def test_snapshots_within_a_complete_segment_go_with_the_next_start(tmp_path: Path) -> None:
    log = PartitionLog.open(tmp_path, LARGE)
    appended(log, 0)
    log.close()
    before = len(snapshots_in(tmp_path))
    assert before > 3
    log = PartitionLog.open(tmp_path, LARGE, Known(MANY, 0, was_closed=True))
    assert len(snapshots_in(tmp_path)) == before
    log.roll()
    log.append([data_batch(MANY, producer_id=1, sequence=MANY)])
    log.close()
    log = PartitionLog.open(tmp_path, LARGE, Known(MANY + 1, 0, was_closed=True))
    assert snapshots_in(tmp_path) == [MANY, MANY + 1]
    log.close()


def snapshots_in(path: Path) -> list[int]:
    return sorted(int(each.stem) for each in path.glob("*.snapshot"))


def test_long_truncation_reads_no_more_than_it_removes(tmp_path: Path) -> None:
    files = CountedReads()
    log = PartitionLog.open(tmp_path, LARGE, files=files)
    appended(log, 0)
    size_bytes = log.size_bytes
    for tenths in (8, 5, 2):
        before = log.size_bytes
        read = files.of_truncation(log, MANY * tenths // 10)
        assert read <= max(before - log.size_bytes, INTERVAL_BYTES) + BESIDE_BYTES
    assert log.size_bytes < size_bytes / 4
    log.close()


def test_few_copies_remain_of_a_long_log() -> None:
    """Any truncation walks at most as many bytes as it removes, or an interval."""
    copies, table, random = ProducerCopies(), ProducerTable(), Random(1)
    end, most = 0, 0
    while end < 10_000 * INTERVAL_BYTES:
        size_bytes = random.randrange(1, INTERVAL_BYTES)
        end += size_bytes
        table.end_offset = end
        copies.applied(size_bytes, table)
        most = max(most, len(copies))
        cut = end - random.choice((1, INTERVAL_BYTES, 9 * INTERVAL_BYTES, random.randrange(end)))
        found = copies.newest(cut)
        begin = 0 if found is None else found.end_offset
        assert cut - begin <= max(end - cut, 2 * INTERVAL_BYTES)
    assert most < 40


def test_no_copies_are_made_of_very_many_producers() -> None:
    copies, table = ProducerCopies(), ProducerTable()
    for producer_id in range(MOST_PRODUCERS + 1):
        table.add_batch(producer_id, 0, 0, producer_id, producer_id + 1, 0, is_transactional=False)
    copies.applied(INTERVAL_BYTES, table)
    assert not len(copies)
    table.expire(1 << 40, 1)
    copies.applied(1, table)
    assert len(copies) == 1


def _apply(table: ProducerTable, batch: Batch, *, transactional: bool = True) -> None:
    table.add_batch(
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.base_offset,
        batch.end_offset,
        batch.max_timestamp_ms,
        is_transactional=transactional,
    )
    table.end_offset = batch.end_offset


@pytest.mark.parametrize("is_copy_changed", [False, True])
def test_copy_and_original_change_independently(is_copy_changed: bool) -> None:
    table = ProducerTable()
    for offset, producer_id in enumerate((1, 2)):
        _apply(table, data_batch(offset, producer_id=producer_id, sequence=0, transactional=True))
    copy = table.copied()
    changed, kept = (copy, table) if is_copy_changed else (table, copy)
    before = kept.entries()
    _apply(changed, data_batch(2, producer_id=1, sequence=1, transactional=True))
    _apply(changed, data_batch(3, producer_id=3, sequence=0, transactional=True))
    marker = marker_of(end_of_transaction(4, 2, abort=True).data)  # type: ignore[arg-type]
    assert marker is not None
    changed.add_marker(2, 0, 4, 1_000, marker)
    changed.expire(1 << 40, 1)
    assert (kept.entries(), kept.end_offset) == (before, 2)
    assert len(changed.entries()) == 2
    assert [each.first_unstable_offset(4) for each in (kept, changed)] == [0, 0]
    _apply(kept, data_batch(2, producer_id=2, sequence=9, transactional=True))
    assert [each.producer_id for each in changed.entries()] == [1, 3]


def test_decided_transaction_above_the_high_watermark_is_known_after_a_truncation(
    tmp_path: Path,
) -> None:
    """Its marker is before the copy, so no walk meets it."""
    log = PartitionLog.open(tmp_path, LARGE)
    log.append([data_batch(0, producer_id=7, sequence=0, transactional=True)])
    log.append([end_of_transaction(1, 7, abort=True)])
    appended(log, 2)
    log.truncate_to(log.end_offset - 1)
    assert log.first_unstable_offset(1) == 0
    assert log.first_unstable_offset(2) is None
    log.close()
