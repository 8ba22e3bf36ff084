"""Files in a broker's directories that are not the broker's, or are damaged: they cost no data, and no directory."""

import json
import shutil
from pathlib import Path
from struct import Struct
from uuid import UUID

import pytest

from quorum_node.storage.broker.log_directory import LogDirectory
from quorum_node.storage.broker.log_loading import Known
from quorum_node.storage.broker.log_settings import LogSettings
from quorum_node.storage.broker.partition_log import PartitionLog
from support.data_batches import data_batch

TOPIC = UUID(int=7)
REPLICA = ("t", 3)
SMALL = LogSettings(segment_bytes=1_000, index_interval_bytes=100)
FIRST = f"{0:020d}"
CLEAN = Known(recovery_point=30, was_closed=True)
CRASHED = Known(recovery_point=10)


def written(folder: Path) -> tuple[list[int], bytes]:
    """A log of 30 batches in several segments and three epochs, closed: the base offsets, and what is read."""
    log = PartitionLog.open(folder, SMALL)
    for offset in range(30):
        log.append([data_batch(offset, epoch=offset // 10)])
    bases = [each.base_offset for each in log.segments]
    found = contents(log)
    log.close()
    assert len(bases) > 2
    return bases, found


def contents(log: PartitionLog) -> bytes:
    found, offset = [], log.start_offset
    while data := log.read(offset, 1):
        found.append(bytes(data))
        offset = int.from_bytes(data[:8], "big") + 1
    return b"".join(found)


@pytest.mark.parametrize("known", [CLEAN, CRASHED])
@pytest.mark.parametrize(
    "name",
    [
        f"{29:020d}.copy.log",
        "٠" * 19 + "٣.log",
        "9" * 20 + ".log",
        f"{61:020d}.old.index",
        "notes.cleaned",
        "leader-epoch-checkpoint.swap",
        "notes.deleted",
        "notes.tmp",
    ],
)
def test_stray_file_beside_segments_is_neither_read_nor_removed(
    tmp_path: Path, name: str, known: Known
) -> None:
    bases, before = written(tmp_path)
    (tmp_path / name).write_bytes(b"stray")
    log = PartitionLog.open(tmp_path, SMALL, known)
    assert (contents(log), log.end_offset) == (before, 30)
    assert [each.base_offset for each in log.segments] == bases
    assert log.epoch_history.starts == ((0, 0), (1, 10), (2, 20))
    assert (tmp_path / name).read_bytes() == b"stray"
    log.close(cleanly=False)


def test_stray_cleaned_file_does_not_remove_compacted_segments(tmp_path: Path) -> None:
    _, before = written(tmp_path)
    (tmp_path / f"{FIRST}.log").rename(tmp_path / f"{FIRST}.log.swap")
    (tmp_path / "notes.cleaned").write_bytes(b"stray")
    log = PartitionLog.open(tmp_path, SMALL, CRASHED)
    assert contents(log) == before
    log.close(cleanly=False)


@pytest.mark.parametrize("known", [CLEAN, CRASHED])
@pytest.mark.parametrize("entry", [(3, -5), (-3, 5), (3, 7), (0, 400), (3, 1 << 30)])
@pytest.mark.parametrize("number", [0, -1])
def test_foreign_offset_index_is_rebuilt(
    tmp_path: Path, entry: tuple[int, int], known: Known, number: int
) -> None:
    bases, before = written(tmp_path)
    (tmp_path / f"{bases[number]:020d}.index").write_bytes(Struct(">ii").pack(*entry))
    log = PartitionLog.open(tmp_path, SMALL, known)
    assert (contents(log), log.end_offset) == (before, 30)
    log.close(cleanly=False)


@pytest.mark.parametrize(
    "text", ["", "\0" * 50, "0\n1\n" + "9" * 5000 + " 0\n", "0\n1\n2147483648 0\n", "0\n1\n0 -1\n"]
)
def test_damaged_epochs_are_rebuilt_from_the_log(tmp_path: Path, text: str) -> None:
    _, before = written(tmp_path)
    (tmp_path / "leader-epoch-checkpoint").write_text(text)
    log = PartitionLog.open(tmp_path, SMALL, CLEAN)
    assert contents(log) == before
    assert log.epoch_history.starts == ((0, 0), (1, 10), (2, 20))
    assert any("leader-epoch-checkpoint is damaged" in note for note in log.notes)
    log.close()
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n3\n0 0\n1 10\n2 20\n"


def opened(path: Path) -> LogDirectory:
    return LogDirectory(path, node_id=1, cluster_id="c", clock_ms=lambda: 0)


def filled(path: Path) -> None:
    directory = opened(path)
    directory.open_log(REPLICA, TOPIC, SMALL).append([data_batch(n) for n in range(5)])
    directory.close(broker_epoch=7)


@pytest.mark.parametrize("name", ["t-03", "t-٣", "t-0000000003", "u-03"])
def test_copy_of_a_replica_under_another_name_is_not_the_replica(tmp_path: Path, name: str) -> None:
    filled(tmp_path)
    shutil.copytree(tmp_path / "t-3", tmp_path / name)
    (tmp_path / name / "partition.metadata").unlink()
    assert opened(tmp_path).replicas() == {REPLICA: TOPIC}


@pytest.mark.parametrize("name", ["t-4", f"t-4.{TOPIC.hex}-delete", f"t-4.{TOPIC.hex}-stray"])
def test_file_with_the_name_of_a_replica_is_left_alone(tmp_path: Path, name: str) -> None:
    filled(tmp_path)
    (tmp_path / name).write_text("not a directory")
    directory = opened(tmp_path)
    assert directory.replicas() == {REPLICA: TOPIC}
    directory.remove_due()
    assert directory.failure is None
    assert (tmp_path / name).read_text() == "not a directory"


def test_removed_replica_with_directories_inside_fails_no_directory(tmp_path: Path) -> None:
    filled(tmp_path)
    gone = tmp_path / f"t-4.{TOPIC.hex}-delete"
    (gone / "a" / "b").mkdir(parents=True)
    (gone / "a" / "b" / "file").write_text("x")
    outside = tmp_path / "kept"
    outside.mkdir()
    (outside / "file").write_text("kept")
    (gone / "link").symlink_to(outside)
    directory = opened(tmp_path)
    assert directory.remove_due() == 1
    assert directory.failure is None
    assert not gone.exists()
    assert (outside / "file").read_text() == "kept"


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"brokerEpoch": 1e999}',
        '{"brokerEpoch": ' + "9" * 5000 + "}",
        json.dumps({"brokerEpoch": 1 << 63}),
        json.dumps({"brokerEpoch": -7}),
    ],
)
def test_damaged_marker_of_a_clean_stop_has_no_epoch(tmp_path: Path, text: str) -> None:
    filled(tmp_path)
    (tmp_path / ".kafka_cleanshutdown").write_text(text)
    directory = opened(tmp_path)
    assert (directory.was_closed, directory.closed_epoch) == (True, None)


@pytest.mark.parametrize("offset", ["-1", str(1 << 63), "9" * 5000])
def test_checkpoint_with_an_impossible_offset_is_ignored(tmp_path: Path, offset: str) -> None:
    filled(tmp_path)
    for name in ("log-start-offset", "recovery-point-offset", "replication-offset"):
        (tmp_path / f"{name}-checkpoint").write_text(f"0\n1\nt 3 {offset}\n")
    directory = opened(tmp_path)
    log = directory.open_log(REPLICA, TOPIC, SMALL)
    assert (log.start_offset, log.end_offset, directory.high_watermarks) == (0, 5, {})
    directory.close(1, cleanly=False)
