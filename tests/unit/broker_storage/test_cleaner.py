"""Which log is compacted next, at which rate, and what is stored about it."""

import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast
from uuid import UUID

import pytest
from crc32c import crc32c

from quorum_node.records.batches import Record
from quorum_node.storage.broker import cleaner as cleaner_module
from quorum_node.storage.broker.batch_walk import batch_at
from quorum_node.storage.broker.cleaner import Cleaned, Cleaner, Stopped, Throttle, UncleanableLog
from quorum_node.storage.broker.compaction import CleanablePart
from quorum_node.storage.broker.log_directory import LogDirectory
from quorum_node.storage.broker.log_settings import LogSettings
from quorum_node.storage.broker.partition_log import PartitionLog
from quorum_node.storage.broker.stored_records import StoredRecord, stored_records
from support.data_batches import data_batch, end_of_transaction

COMPACTS = LogSettings(segment_bytes=500, compacts=True, deletes=False)


def opened(path: Path) -> LogDirectory:
    return LogDirectory(path, node_id=1, cluster_id="c", clock_ms=lambda: 5_000)


def fill(log: PartitionLog, count: int) -> None:
    for _ in range(count):
        log.append([data_batch(log.end_offset, records=[Record(b"k", b"v" * 30)])])


def round_of(cleaner: Cleaner, directory: LogDirectory) -> list[Cleaned | UncleanableLog]:
    reported: list[Cleaned | UncleanableLog] = []
    cleaner.clean_due(
        {name: log.end_offset for name, log in directory.logs.items()}, reported.append
    )
    return reported


def cleaned_by(cleaner: Cleaner, directory: LogDirectory) -> list[Cleaned]:
    return [each for each in round_of(cleaner, directory) if isinstance(each, Cleaned)]


def records_of(log: PartitionLog) -> list[StoredRecord]:
    offset, found = log.start_offset, []
    while data := log.read(offset, 1):
        batch = batch_at(data, 0, 0, len(data))
        if batch.record_count:
            found += stored_records(data)
        offset = batch.end_offset
    return found


def test_dirtiest_log_is_cleaned_first_and_the_checkpoint_has_the_stock_format(
    tmp_path: Path,
) -> None:
    directory = opened(tmp_path)
    logs = {
        name: directory.open_log((name, 0), UUID(int=n), settings)
        for n, (name, settings) in enumerate(
            [("little", COMPACTS), ("much", COMPACTS), ("kept", LogSettings(segment_bytes=500))], 5
        )
    }
    for log in logs.values():
        fill(log, 30)
    cleaner = Cleaner(directory, lambda: 5_000, Throttle(None))
    first, second = cleaned_by(cleaner, directory)
    assert {first.replica, second.replica} == {("little", 0), ("much", 0)}
    assert first.after_bytes < first.before_bytes
    assert not cleaned_by(cleaner, directory), "no log is due"
    fill(logs["much"], 30)
    fill(logs["little"], 6)
    third, *_ = cleaned_by(cleaner, directory)
    assert third.replica == ("much", 0)
    lines = (tmp_path / "cleaner-offset-checkpoint").read_text().splitlines()
    assert lines[:2] == ["0", "2"]
    assert f"much 0 {third.end_offset}" in lines
    directory.close(1)
    assert opened(tmp_path).cleaned["much", 0] == third.end_offset


def test_unreadable_log_is_skipped_and_others_are_cleaned(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    bad = directory.open_log(("z", 0), UUID(int=5), COMPACTS)
    batch = data_batch(0, records=[Record(b"k", b"v" * 30)])
    data = bytearray(cast(bytes, batch.data))
    data[22] |= 7
    data[17:21] = crc32c(memoryview(data)[21:]).to_bytes(4, "big")
    bad.append([batch._replace(data=bytes(data))])
    fill(bad, 30)
    good = directory.open_log(("a", 0), UUID(int=6), COMPACTS)
    fill(good, 30)
    cleaner = Cleaner(directory, lambda: 5_000, Throttle(None))
    reported = round_of(cleaner, directory)
    assert [each.replica for each in reported if isinstance(each, Cleaned)] == [("a", 0)]
    (uncleanable,) = (each for each in reported if isinstance(each, UncleanableLog))
    assert uncleanable.replica == ("z", 0)
    assert "codec 7" in uncleanable.reason
    fill(bad, 30)
    assert not round_of(cleaner, directory), "reported more than once"


def test_bit_rot_does_not_get_a_new_checksum(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    log = directory.open_log(("t", 0), UUID(int=5), COMPACTS)
    fill(log, 30)
    path = log.segments[0].path
    content = bytearray(path.read_bytes())
    content[70] ^= 1
    path.write_bytes(content)
    (uncleanable,) = round_of(Cleaner(directory, lambda: 5_000, Throttle(None)), directory)
    assert isinstance(uncleanable, UncleanableLog)
    assert "CRC-32C" in uncleanable.reason
    assert path.read_bytes() == content, "nothing was changed"
    assert not list(path.parent.glob("*.cleaned"))


def test_log_deleted_meanwhile_is_no_failed_disk(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    log = directory.open_log(("t", 0), UUID(int=5), COMPACTS)
    fill(log, 40)
    held: list[bool] = []

    class Going(Throttle):
        def __call__(self, size_bytes: int) -> None:
            if not held:
                directory.delete(("t", 0))
                held.append(os.fstat(log.segments[0].fd).st_size > 0)
                again = directory.open_log(("t", 0), UUID(int=6), COMPACTS)
                fill(again, 3)

    cleaner = Cleaner(directory, lambda: 5_000, Going(None))
    assert round_of(cleaner, directory) == []
    assert held == [True], "its files stay open while they are read"
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(log.segments[0].fd)
    assert ("t", 0) not in directory.cleaned, "the new topic of that name is not clean"
    assert directory.failure is None
    assert not list((tmp_path / "t-0").glob("*.cleaned"))


def test_segments_deleted_by_retention_stay_open_while_they_are_compacted(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    settings = replace(COMPACTS, file_delete_delay_ms=0)
    log = directory.open_log(("t", 0), UUID(int=5), settings)
    fill(log, 40)
    first = log.segments[0]

    class Going(Throttle):
        def __call__(self, size_bytes: int) -> None:
            if log.segments[0] is first:
                assert log.delete_segments(log.segments[:2])
                directory.remove_due()
                assert os.fstat(first.fd).st_size

    round_of(Cleaner(directory, lambda: 5_000, Going(None)), directory)
    assert log.segments[0] is not first
    directory.remove_due()
    assert not first.path.with_suffix(".log.deleted").exists()
    assert [each.key for each in records_of(log)][-1] == b"k"


def test_truncated_log_is_not_clean_after_the_truncation_offset(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    log = directory.open_log(("t", 0), UUID(int=5), COMPACTS)
    fill(log, 40)
    round_of(Cleaner(directory, lambda: 5_000, Throttle(None)), directory)
    assert directory.cleaned["t", 0] > 10
    log.truncate_to(10)
    directory.note_cut(("t", 0), log)
    assert directory.cleaned["t", 0] == 10
    assert "t 0 10" in (tmp_path / "cleaner-offset-checkpoint").read_text().splitlines()


def test_cleaned_offset_of_a_deleted_log_is_removed(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    log = directory.open_log(("t", 0), UUID(int=5), COMPACTS)
    directory.delete(("t", 0))
    again = directory.open_log(("t", 0), UUID(int=6), COMPACTS)
    directory.note_cleaned(("t", 0), log, 30)
    assert ("t", 0) not in directory.cleaned
    directory.note_cleaned(("t", 0), again, 20)
    assert directory.cleaned["t", 0] == 20


def test_log_with_an_uncleanable_next_record_is_not_due(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    log = directory.open_log(("t", 0), UUID(int=5), COMPACTS)
    fill(log, 40)
    cleaner, reported = Cleaner(directory, lambda: 5_000, Throttle(None)), list[object]()
    for _ in range(3):
        cleaner.clean_due({("t", 0): 17}, reported.append)
    assert [each.end_offset for each in reported if isinstance(each, Cleaned)] == [17]


@pytest.mark.parametrize(
    ("ratio", "dirty_bytes", "is_due"),
    [(0.5, 100, False), (0.5, 101, True), (0.0, 1, True), (0.0, 0, False), (1.0, 100, False)],
)
def test_dirty_ratio_has_to_be_exceeded(
    tmp_path: Path, ratio: float, dirty_bytes: int, is_due: bool
) -> None:
    """As in a stock broker (`LogCleanerManager.grabFilthiestCompactedLog`): equal is not enough."""
    settings = replace(COMPACTS, min_cleanable_dirty_ratio=ratio)
    log = opened(tmp_path).open_log(("t", 0), UUID(int=5), settings)
    clean_bytes = 0 if ratio == 1.0 else 100
    part = CleanablePart(0, 10, clean_bytes, dirty_bytes, oldest_ms=-1)
    assert part.is_due(log, 5_000) is is_due


def test_stop_discards_unfinished_cleaning(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    log = directory.open_log(("t", 0), UUID(int=5), COMPACTS)
    fill(log, 40)
    before = log.read(0, 1 << 20)
    throttle = Throttle(10.0)
    threading.Timer(0.1, throttle.stop).start()
    with pytest.raises(Stopped):
        round_of(Cleaner(directory, lambda: 5_000, throttle), directory)
    assert log.read(0, 1 << 20) == before
    assert not list((tmp_path / "t-0").glob("*.cleaned"))
    fill(log, 3)


def test_stopped_throttle_returns_without_waiting() -> None:
    throttle = Throttle(None)
    throttle(1_000_000)
    throttle.stop()
    with pytest.raises(Stopped):
        throttle(1)


def test_throttle_leaves_three_quarters_of_the_time_to_others() -> None:
    used, waited = 0.0, 0.0

    def sleep(seconds: float) -> None:
        nonlocal waited
        waited += seconds

    throttle = Throttle(None, lambda: 0.0, sleep, cpu_share=0.25, cpu_seconds=lambda: used)
    throttle.begin()
    for _ in range(1_000):
        used += 0.0005
        throttle(100)
    assert waited == pytest.approx(3 * used, rel=0.05)


def test_throttle_waits_in_proportion_to_the_bytes() -> None:
    now, waited = 10.0, 0.0

    def sleep(seconds: float) -> None:
        nonlocal now, waited
        now += seconds
        waited += seconds

    throttle = Throttle(1_000.0, lambda: now, sleep)
    for _ in range(100):
        throttle(50)
    assert 4.9 <= waited <= 5.01
    now += 60
    before = waited
    throttle(100)
    assert waited - before <= 0.1, "an idle minute changed the budget"


def test_cost_of_finding_due_logs_is_linear_in_the_number_of_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, count = opened(tmp_path), 12
    for number in range(count):
        fill(directory.open_log((f"t{number}", 0), UUID(int=number + 1), COMPACTS), 12)
    measured = []
    real = cleaner_module.cleanable_part

    def counting(log: PartitionLog, *rest: int) -> CleanablePart:
        measured.append(log)
        return real(log, *rest)

    monkeypatch.setattr(cleaner_module, "cleanable_part", counting)
    cleaner = Cleaner(directory, lambda: 5_000, Throttle(None))
    assert len(cleaned_by(cleaner, directory)) == count
    assert len(measured) == 2 * count, "once to order them, once before it is compacted"


def test_old_segments_are_removed_while_the_rest_of_a_large_log_is_compacted(
    tmp_path: Path,
) -> None:
    """Otherwise a compaction would need as much free space as the log has, for hours."""
    directory = opened(tmp_path)
    settings = replace(COMPACTS, file_delete_delay_ms=0)
    log = directory.open_log(("t", 0), UUID(int=5), settings)
    for number in range(60):
        records = [Record(b"%d" % number, b"v" * 30)]
        log.append([data_batch(log.end_offset, records=records)])
        log.append([data_batch(log.end_offset, records=records)])
    waiting: list[int] = []

    class Watched(Throttle):
        def __call__(self, size_bytes: int) -> None:
            super().__call__(size_bytes)
            waiting.append(len(list(log.directory.glob("*.log.deleted"))))

    before = len(log.segments)
    (cleaned,) = cleaned_by(Cleaner(directory, lambda: 5_000, Watched(None)), directory)
    assert cleaned.after_bytes < cleaned.before_bytes
    assert before > 20
    assert max(waiting) <= 1, "those of the previous group are gone"
    assert {each.offset for each in records_of(log)} >= set(range(1, 120, 2))


def _during_the_second_pass(directory: LogDirectory, act: Callable[[], object]) -> list[object]:
    """What a round reports whose only log changes while it is compacted."""
    calls = 0

    class Interrupting(Throttle):
        def __call__(self, size_bytes: int) -> None:
            nonlocal calls
            calls += 1
            if calls == 70:
                act()

    reported: list[object] = []
    ends = {name: log.end_offset for name, log in directory.logs.items()}
    Cleaner(directory, lambda: 5_000, Interrupting(None)).clean_due(ends, reported.append)
    assert calls >= 70
    assert directory.failure is None
    return reported


def test_log_that_is_deleted_during_its_compaction_is_left(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    log = directory.open_log(("t", 0), UUID(int=5), replace(COMPACTS, file_delete_delay_ms=0))
    fill(log, 60)
    assert not _during_the_second_pass(directory, lambda: directory.delete(("t", 0)))
    assert not (tmp_path / "cleaner-offset-checkpoint").exists()


def test_log_that_is_truncated_during_its_compaction_is_compacted_again(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    log = directory.open_log(("t", 0), UUID(int=5), replace(COMPACTS, file_delete_delay_ms=0))
    fill(log, 60)
    assert not _during_the_second_pass(directory, lambda: log.truncate_to(40))
    assert not (tmp_path / "cleaner-offset-checkpoint").exists()
    fill(log, 60)
    assert cleaned_by(Cleaner(directory, lambda: 5_000, Throttle(None)), directory)


def test_log_that_is_truncated_when_its_turn_comes_is_left(tmp_path: Path) -> None:
    """The high watermark was looked up before: by now, records below it may not be committed."""
    directory = opened(tmp_path)
    log = directory.open_log(("t", 0), UUID(int=5), COMPACTS)
    fill(log, 60)

    class Truncating(dict[tuple[str, int], int]):
        def __getitem__(self, replica: tuple[str, int]) -> int:
            log.truncate_to(20)
            fill(log, 60)
            return 60

    reported: list[Cleaned | UncleanableLog] = []
    cleaner = Cleaner(directory, lambda: 5_000, Throttle(None))
    cleaner.clean_due(Truncating({("t", 0): 60}), reported.append)
    assert reported == []
    assert [each.offset for each in records_of(log)] == list(range(80))


def test_records_stay_if_retention_removes_the_end_of_an_aborted_transaction_before_them(
    tmp_path: Path,
) -> None:
    """Between two groups of segments: the producer's later records are not those of the aborted transaction."""
    directory = opened(tmp_path)
    log = directory.open_log(("t", 0), UUID(int=5), replace(COMPACTS, file_delete_delay_ms=0))
    sequence = 0

    def write(key: bytes) -> None:
        nonlocal sequence
        log.append(
            [
                data_batch(
                    log.end_offset,
                    records=[Record(key, b"v" * 30)],
                    producer_id=7,
                    transactional=True,
                    sequence=sequence,
                )
            ]
        )
        sequence += 1

    for number in range(12):
        write(b"aborted %d" % number)
    log.append([end_of_transaction(log.end_offset, 7, abort=True)])
    log.roll()
    kept = [b"kept %d" % number for number in range(12)]
    for key in kept:
        write(key)
    log.append([end_of_transaction(log.end_offset, 7, abort=False)])
    log.roll()
    fill(log, 1)
    aborted = [each for each in log.segments if each.base_offset < 13]
    assert len(aborted) >= 3

    class Retaining(Throttle):
        def __call__(self, size_bytes: int) -> None:
            if aborted[0] in log.segments and any(log.directory.glob("*.cleaned")):
                log.delete_segments(aborted)

    cleaner = Cleaner(directory, lambda: 5_000, Retaining(None))
    cleaner.clean_due({("t", 0): log.end_offset})
    assert log.start_offset == 13
    found = [each.key for each in records_of(log)]
    assert [key for key in kept if key not in found] == []
