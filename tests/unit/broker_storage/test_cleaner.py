"""Which log is compacted next, how fast, and what is remembered of it."""

from pathlib import Path
from typing import cast
from uuid import UUID

from quorum_node.records.batches import Record
from quorum_node.storage.broker.cleaner import Cleaner, Throttle
from quorum_node.storage.broker.log_directory import LogDirectory
from quorum_node.storage.broker.log_settings import LogSettings
from quorum_node.storage.broker.partition_log import PartitionLog
from support.data_batches import data_batch

COMPACTS = LogSettings(segment_bytes=500, compacts=True, deletes=False)


def opened(path: Path) -> LogDirectory:
    return LogDirectory(path, node_id=1, cluster_id="c", clock_ms=lambda: 5_000)


def fill(log: PartitionLog, count: int) -> None:
    for _ in range(count):
        log.append([data_batch(log.end_offset, records=[Record(b"k", b"v" * 30)])])


def test_the_dirtiest_log_is_first_and_the_checkpoint_is_the_stock_one(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    logs = {
        name: directory.open_log((name, 0), UUID(int=n), settings)
        for n, (name, settings) in enumerate(
            [("little", COMPACTS), ("much", COMPACTS), ("kept", LogSettings(segment_bytes=500))], 5
        )
    }
    for log in logs.values():
        fill(log, 30)
    cleaner = Cleaner(
        directory, lambda replica: directory.logs[replica].end_offset, lambda: 5_000, Throttle(None)
    )
    first, second = cleaner.clean_one(), cleaner.clean_one()
    assert first is not None
    assert second is not None
    assert {first.replica, second.replica} == {("little", 0), ("much", 0)}
    assert first.after_bytes < first.before_bytes
    assert cleaner.clean_one() is None, "nothing is due"
    fill(logs["much"], 30)
    fill(logs["little"], 6)
    third = cleaner.clean_one()
    assert third is not None
    assert third.replica == ("much", 0)
    lines = (tmp_path / "cleaner-offset-checkpoint").read_text().splitlines()
    assert lines[:2] == ["0", "2"]
    assert f"much 0 {third.end_offset}" in lines
    directory.close(1)
    assert opened(tmp_path).cleaned["much", 0] == third.end_offset


def test_a_log_that_can_not_be_read_is_left_out_and_the_others_go_on(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    bad = directory.open_log(("z", 0), UUID(int=5), COMPACTS)
    batch = data_batch(0, records=[Record(b"k", b"v" * 30)])
    data = bytearray(cast(bytes, batch.data))
    data[22] |= 4
    bad.append([batch._replace(data=bytes(data))])
    fill(bad, 30)
    good = directory.open_log(("a", 0), UUID(int=6), COMPACTS)
    fill(good, 30)
    cleaner = Cleaner(
        directory, lambda replica: directory.logs[replica].end_offset, lambda: 5_000, Throttle(None)
    )
    results = [cleaner.clean_one(), cleaner.clean_one()]
    assert [each.replica for each in results if each] == [("a", 0)]
    assert "codec 4" in cleaner.uncleanable["z", 0]


def test_the_throttle_waits_for_as_long_as_the_bytes_take() -> None:
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
    assert waited - before <= 0.1, "an idle minute is not saved up, and costs nothing"
