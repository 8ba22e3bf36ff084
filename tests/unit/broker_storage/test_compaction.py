"""Compaction beside a model: of each key the newest record, tombstones for their retention, markers as long as they have an effect."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import cast

import pytest
from crc32c import crc32c

from quorum_node.broker.batch import Batch
from quorum_node.records.batches import Record
from quorum_node.storage.broker.batch_walk import FileBatch, batch_at
from quorum_node.storage.broker.compaction import (
    Uncleanable,
    cleanable_part,
    compact,
)
from quorum_node.storage.broker.log_loading import Known
from quorum_node.storage.broker.log_settings import LogSettings
from quorum_node.storage.broker.partition_log import PartitionLog
from quorum_node.storage.broker.stored_records import StoredRecord, stored_records
from quorum_node.storage.broker.timestamp_search import offset_for_timestamp, offset_of_newest
from quorum_simulation.files.file_system import PowerLost, SimulatedFiles
from support.data_batches import data_batch, end_of_transaction
from support.finished_search import finished

SETTINGS = LogSettings(
    segment_bytes=600,
    index_interval_bytes=100,
    compacts=True,
    deletes=False,
    delete_retention_ms=1_000,
    file_delete_delay_ms=0,
)
FOLDER = Path("/p")


def opened(files: SimulatedFiles, known: Known = Known()) -> PartitionLog:  # noqa: B008
    files.make_directories(FOLDER)
    return PartitionLog.open(FOLDER, SETTINGS, known, files=files, clock_ms=lambda: 1_000)


def keyed(offset: int, *pairs: tuple[str, str | None], **others: object) -> Batch:
    records = [Record(k.encode(), None if v is None else v.encode()) for k, v in pairs]
    return data_batch(offset, records=records, **others)  # type: ignore[arg-type]


def batches_of(log: PartitionLog) -> list[tuple[FileBatch, bytes]]:
    offset, found = log.start_offset, []
    while data := log.read(offset, 1):
        batch = batch_at(data, 0, 0, len(data))
        found.append((batch, data))
        offset = batch.end_offset
    return found


def records_of(log: PartitionLog) -> list[StoredRecord]:
    """Without what a reader of committed records skips."""
    aborted = log.aborted_transactions(0, log.end_offset)
    found: list[StoredRecord] = []
    for batch, data in batches_of(log):
        is_aborted = batch.is_transactional and any(
            each.producer_id == batch.producer_id
            and each.first_offset <= batch.base_offset < each.last_offset
            for each in aborted
        )
        if batch.record_count and not batch.is_control and not is_aborted:
            found += stored_records(data)
    return found


def cleaned(log: PartitionLog, cleaned_to: int = 0, now_ms: int = 5_000, **others: int) -> int:
    part = cleanable_part(log, cleaned_to, log.end_offset, now_ms)
    return compact(log, part, now_ms, **others)  # type: ignore[arg-type]


def test_newest_record_of_each_key_keeps_its_offset() -> None:
    log = opened(SimulatedFiles(Random(1)))
    for offset in range(0, 60, 2):
        log.append([keyed(offset, (f"k{offset % 6}", f"v{offset}"), ("same", f"{offset + 1}"))])
    active = log.segments[-1].base_offset
    before = {each.offset: each for each in records_of(log)}
    size_bytes = log.size_bytes
    assert cleaned(log) == active
    after = records_of(log)
    assert log.size_bytes < size_bytes / 2
    assert all(before[each.offset] == each for each in after), "offsets and contents are as before"
    below = [each.key for each in after if each.offset < active]
    assert sorted(cast(list[bytes], below)) == [b"k0", b"k2", b"k4", b"same"]
    assert [each.offset for each in after if each.offset >= active] == list(range(active, 60))
    assert log.read(0, 1)[:8] == after[0].offset.to_bytes(8, "big") or log.read(0, 1)


def test_tombstone_is_removed_after_its_retention() -> None:
    log = opened(SimulatedFiles(Random(1)))
    log.append([keyed(0, ("gone", "v")), keyed(1, ("gone", None)), keyed(2, ("kept", "v"))])
    log.roll()
    log.append([keyed(3, ("other", "v"))])
    log.roll()
    end = cleaned(log, now_ms=5_000)
    assert [(each.offset, each.has_value) for each in records_of(log)] == [
        (1, False), (2, True), (3, True),
    ]  # fmt: skip
    assert records_of(log)[0].timestamp_ms == 1_000, "the horizon changes no timestamp"
    (marked, _) = batches_of(log)[0]
    assert (marked.attributes & 0x40, marked.base_timestamp_ms) == (0x40, 6_000)
    for offset, now_ms, left in ((4, 5_999, [1, 2, 3, 4]), (5, 6_000, [2, 3, 4, 5])):
        log.append([keyed(offset, (f"new{offset}", "v"))])
        log.roll()
        end = cleaned(log, end, now_ms)
        assert [each.offset for each in records_of(log)] == left


def test_uncleanable_records_are_kept() -> None:
    log = opened(SimulatedFiles(Random(1)))
    for offset in range(40):
        log.append([keyed(offset, ("k", f"{offset}"), timestamp_ms=offset)])
    active = log.segments[-1].base_offset
    assert cleanable_part(log, 0, 40, 50).end_offset == active
    assert cleanable_part(log, 0, 11, 50).end_offset == 11, "not replicated"
    part = cleanable_part(log, 0, 11, 50)
    assert compact(log, part, 50) == 11
    assert [each.offset for each in records_of(log)] == [10, *range(11, 40)]
    assert not cleanable_part(log, active, 40, 50).is_due(log, 50)
    assert cleanable_part(log, 11, 40, 50).is_due(log, 50)
    assert cleanable_part(log, 99, 40, 50).start_offset == 0, "the checkpoint is of another log"


def test_memory_is_bounded_and_the_round_ends_when_it_is_full() -> None:
    log = opened(SimulatedFiles(Random(1)))
    for offset in range(60):
        log.append([keyed(offset, (f"k{offset % 20}", f"{offset}"))])
    active = log.segments[-1].base_offset
    end, rounds = 0, 0
    while end < active:
        before, end = end, cleaned(log, end, map_bytes=5 * 200)
        assert before < end
        rounds += 1
    assert rounds > 3
    assert len({each.key for each in records_of(log) if each.offset < active}) == 20


def test_producers_and_transactions_survive_compaction() -> None:
    files = SimulatedFiles(Random(1))
    log = opened(files)
    log.append([
        keyed(0, ("a", "1"), producer_id=1, sequence=0, transactional=True),
        keyed(1, ("a", "2"), producer_id=2, sequence=0, transactional=True),
        end_of_transaction(2, 1, abort=True),
        end_of_transaction(3, 2, abort=False),
        keyed(4, ("a", "3"), producer_id=2, sequence=1, transactional=True),
        end_of_transaction(5, 2, abort=True),
        keyed(6, ("b", "1"), producer_id=3, sequence=0),
        keyed(7, ("b", "2")),
    ])  # fmt: skip
    log.roll()
    log.append([keyed(8, ("c", "1"), producer_id=9, sequence=0, transactional=True)])
    log.roll()
    assert cleanable_part(log, 0, 9, 5_000).end_offset == 8, "an open transaction is not cleaned"
    cleaned(log)
    seen = {each.offset: each for each in records_of(log)}
    assert sorted(seen) == [1, 7, 8], "an aborted record removed an older one"
    for again in (log, opened(files)):
        entries = {each.producer_id: each for each in again.producers()}
        assert {n: e.batches[-1].last_sequence for n, e in entries.items()} == {
            1: 0,
            2: 1,
            3: 0,
            9: 0,
        }
        assert again.first_unstable_offset(9) == 8
        assert [each.offset for each in records_of(again)] == [1, 7, 8]


def test_markers_are_removed_when_their_transaction_is_gone_and_retention_is_over() -> None:
    log = opened(SimulatedFiles(Random(1)))
    log.append([
        keyed(0, ("a", "1"), producer_id=1, sequence=0, transactional=True),
        end_of_transaction(1, 1, abort=False),
        keyed(2, ("a", "2")),
        keyed(3, ("z", "1"), producer_id=1, sequence=1),
    ])  # fmt: skip
    log.roll()
    end = cleaned(log, now_ms=5_000)
    markers: Callable[[], list[int]] = lambda: [  # noqa: E731
        batch.base_offset for batch, _ in batches_of(log) if batch.is_control
    ]
    assert markers() == [1]
    for offset, now_ms, left in ((4, 6_000, [1]), (5, 6_999, [1]), (6, 7_000, [])):
        log.append([keyed(offset, (f"k{offset}", "v"))])
        log.roll()
        end = cleaned(log, end, now_ms)
        assert markers() == left, now_ms


def test_unreadable_batch_leaves_the_log_unchanged() -> None:
    log = opened(SimulatedFiles(Random(1)))
    log.append([keyed(0, ("a", "1"))])
    batch = keyed(1, ("a", "2"))
    data = bytearray(cast(bytes, batch.data))
    data[22] |= 7
    data[17:21] = crc32c(memoryview(data)[21:]).to_bytes(4, "big")
    log.append([batch._replace(data=bytes(data))])
    log.roll()
    before = log.read(0, 1 << 20)
    with pytest.raises(Uncleanable, match="codec 7"):
        cleaned(log)
    assert log.read(0, 1 << 20) == before


class GaveUp(Exception):
    """Nothing of the disk."""


def filled(random: Random, log: PartitionLog) -> None:
    for offset in range(0, 80, 2):
        value = None if random.random() < 0.2 else f"{offset}"
        pairs = [(f"k{random.randrange(8)}", value), (f"k{random.randrange(8)}", f"{offset + 1}")]
        log.append([keyed(offset, *pairs)])


@pytest.mark.parametrize("seed", range(25))
def test_power_loss_at_any_point_loses_no_newest_record(seed: int) -> None:
    """At every call in turn, more or less."""
    random = Random(seed)
    files = SimulatedFiles(random, shuffled=seed % 2 == 1)
    log = opened(files)
    filled(random, log)
    log.flush()
    newest = newest_of(log)
    everything = {each[:4] for each in records_of(log)}
    files.calls_left = seed * 3 + random.randrange(3)
    try:
        cleaned(log)
    except PowerLost:
        pass
    files.calls_left = None
    files.lose_power()
    # Without a known recovery point a gap between segments counts as an end that was never synced.
    again = opened(files, Known(80 if seed % 3 else 0))
    found = records_of(again)
    assert newest_of(again) == newest
    assert {each[:4] for each in found} <= everything
    assert again.end_offset == 80
    assert not [n for n in files.names(FOLDER) if n.endswith((".cleaned", ".swap"))]
    cleaned(again)
    assert newest_of(again) == newest


def newest_of(log: PartitionLog) -> dict[bytes | None, tuple[object, ...]]:
    """By key; not the bytes, as the horizon of tombstones changes how a timestamp is written."""
    return {each.key: each[:4] for each in records_of(log)}


def test_compaction_reports_every_byte_and_can_be_cancelled() -> None:
    log = opened(SimulatedFiles(Random(1)))
    filled(Random(1), log)
    part = cleanable_part(log, 0, 80, 5_000)
    reported: list[int] = []
    before = log.read(0, 1 << 20)

    def give_up(size_bytes: int) -> None:
        reported.append(size_bytes)
        if sum(reported) > part.dirty_bytes + 200:
            raise GaveUp

    with pytest.raises(GaveUp):
        compact(log, part, 5_000, throttle=give_up)
    assert log.read(0, 1 << 20) == before
    compact(log, part, 5_000, throttle=reported.append)
    assert sum(reported) > 2 * part.dirty_bytes


def test_replaced_segments_count_although_a_later_one_was_unfinished() -> None:
    files = SimulatedFiles(Random(1))
    log = opened(files)
    filled(Random(1), log)
    cleaned(log)
    log.flush()
    before, bases = records_of(log), [each.base_offset for each in log.segments]
    first, second = (f"{base:020d}.log" for base in bases[:2])
    files.rename(FOLDER / first, FOLDER / f"{first}.swap")
    files.close(files.open(FOLDER / f"{second}.cleaned", os.O_RDWR | os.O_CREAT))
    files.close(files.open(FOLDER / f"{second}.swap", os.O_RDWR | os.O_CREAT))
    files.end_process()
    again = opened(files, Known(80))
    assert records_of(again) == before
    assert [n for n in files.names(FOLDER) if n.endswith((".cleaned", ".swap"))] == []


@pytest.mark.parametrize("reopened", [False, True])
def test_log_is_due_within_the_maximum_lag_of_its_oldest_record(
    tmp_path: Path, reopened: bool
) -> None:
    """However small the dirty part is. The first record of a segment counts, as its tombstone has to be applied in time."""
    settings = replace(SETTINGS, max_compaction_lag_ms=100, min_cleanable_dirty_ratio=1.0)
    log = PartitionLog.open(tmp_path, settings, clock_ms=lambda: 1_000)
    for offset in range(20):
        log.append([keyed(offset, (f"k{offset}", "v"), timestamp_ms=1_000 + 50 * offset)])
    if reopened:
        log.close()
        log = PartitionLog.open(tmp_path, settings, Known(20, 0, True))
    first, second, *_ = (each.base_offset for each in log.segments)
    assert second - first > 2
    for cleaned_to, oldest_ms in ((0, 1_000), (second, 1_000 + 50 * second)):
        for now_ms, is_due in ((oldest_ms + 100, False), (oldest_ms + 101, True)):
            part = cleanable_part(log, cleaned_to, 20, now_ms)
            clean = replace(part, clean_bytes=1)
            assert clean.is_due(log, now_ms) == is_due, (cleaned_to, now_ms)
    log.close()
    assert cleanable_part(log, 0, 20, 5_000).dirty_bytes, "another thread may still look at it"


def test_unsynced_end_of_a_segment_is_missed_in_a_compacted_log_too() -> None:
    """Pages reach the disk in any order. A replica with a gap would never fetch what it misses."""
    files = SimulatedFiles(Random(1))
    log = opened(files)
    for offset in range(9):
        log.append([keyed(offset, (f"k{offset}", "v"))])
        if offset % 3 == 2:
            log.roll()
        if offset == 2:
            log.flush()
    second = log.segments[1]
    files.ftruncate(second.fd, second.position_of(4))
    log.close(cleanly=False)
    again = opened(files, Known(recovery_point=3))
    assert again.end_offset == 4
    assert [each.offset for each in records_of(again)] == [0, 1, 2, 3]


@pytest.mark.parametrize("is_noted", [True, False])
def test_records_that_compaction_removed_at_the_end_of_a_segment_are_not_missed(
    is_noted: bool,
) -> None:
    """Also if the process was killed before it noted how far the log is clean."""
    files = SimulatedFiles(Random(1))
    log = opened(files)
    for offset in range(13):
        log.append([keyed(offset, ("same", "v" * 80))])
    assert len(log.segments) > 2
    end = cleaned(log)
    log.close(cleanly=False)
    again = opened(files, Known(cleaned_offset=end if is_noted else 0))
    assert again.end_offset == 13
    assert records_of(again)[-1].offset == 12


def test_search_by_timestamp_finds_no_batch_without_records() -> None:
    log = opened(SimulatedFiles(Random(1)))
    log.append([keyed(0, ("a", "v"), timestamp_ms=1_000)])
    log.append([keyed(1, ("b", "v"), timestamp_ms=9_000, producer_id=5, sequence=0)])
    log.roll()
    log.append([keyed(2, ("b", "v"), timestamp_ms=2_000), keyed(3, ("c", "v"), timestamp_ms=3_000)])
    log.roll()
    cleaned(log)
    assert (1, 0) in [(each.base_offset, each.record_count) for each, _ in batches_of(log)]
    found = finished(offset_for_timestamp(log, 1_500))
    assert found is not None
    assert (found.offset, found.timestamp_ms) == (2, 2_000)
    newest = finished(offset_of_newest(log))
    assert newest is not None
    assert (newest.offset, newest.timestamp_ms) == (3, 3_000)


def test_segment_that_was_truncated_and_filled_again_meanwhile_is_not_replaced() -> None:
    """A new leader replaced the uncommitted end of the segment, while an old copy of it was being written."""
    log = opened(SimulatedFiles(Random(1)))
    for offset in range(6):
        log.append([keyed(offset, (f"k{offset}", "old"))])
    log.roll()
    log.append([keyed(6, ("k6", "old"))])
    steps = 0

    def follow_another_leader(size_bytes: int) -> None:
        nonlocal steps
        steps += 1
        if steps == 10:  # the last batch of the second pass
            log.truncate_to(4)
            log.append([keyed(4, ("k4", "new"), epoch=1), keyed(5, ("k5", "new"), epoch=1)])
            log.roll()
            log.append([keyed(6, ("k6", "new"), epoch=1)])

    part = cleanable_part(log, 0, 4, 5_000)
    compact(log, part, 5_000, throttle=follow_another_leader)
    assert steps == 10
    epochs = [(batch.base_offset, batch.leader_epoch) for batch, _ in batches_of(log)]
    assert epochs == [(0, 0), (1, 0), (2, 0), (3, 0), (4, 1), (5, 1), (6, 1)]
