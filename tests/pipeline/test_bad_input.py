"""Damaged logs, sources that disappear and destinations that are full: reported with file and offset, quarantined, never skipped.

After each of them the archive is unchanged, or complete up to the damage, and continues when the source or destination is back.
"""

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from quorum_node.records import metadata as md
from quorum_node.records.batches import encode_values, framed
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.log_directory import open_log
from quorum_pipeline.spark.archive import Archive
from quorum_pipeline.spark.archive_job import ArchiveJob
from quorum_pipeline.spark.hadoop_files import HadoopFiles
from quorum_pipeline.state.moment import Moment
from support.local_quorum import LocalQuorum, wait_until
from support.loop_disk import LoopDisk, require_loop_disks
from support.pipeline_process import PipelineProcess, run_pipeline
from support.written_archive import archived_state
from support.written_log import LogWriter, write_history

pytestmark = [pytest.mark.long, pytest.mark.timeout(900), pytest.mark.requirement("SP-02")]


def archive_all(archive: Archive, source: Path, max_rows: int = 1_000_000) -> None:
    ArchiveJob(archive, open_log(source), max_rows, None).run(lambda end: None, print)


def offsets(archive: Archive) -> list[int]:
    return sorted(row.offset for row in archive.read().select("offset").collect())


def pairs(directory: Path, batches: int, segment_bytes: int = 700) -> LogWriter:
    """Batches of two records each."""
    writer = LogWriter(directory, segment_bytes=segment_bytes)
    for _ in range(batches):
        writer.append(md.NoOpRecord(), md.NoOpRecord())
    return writer


def no_operations(offset: int, count: int) -> bytes:
    """One batch."""
    values = [md.encode_metadata(md.NoOpRecord())] * count
    return encode_values(base_offset=offset, leader_epoch=1, timestamp_ms=1, values=values)


def cut(path: Path, bytes_less: int) -> None:
    path.write_bytes(path.read_bytes()[:-bytes_less])


def test_truncated_segment_and_records_of_unknown_versions_are_quarantined(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Every micro batch that the damage reaches into has it in its quarantine; what is sound is archived."""
    writer = pairs(tmp_path / "node", 20)
    known = md.encode_metadata(md.NoOpRecord())
    writer.append_bytes([known[:2] + b"\x63" + known[3:], known])
    first, second = open_log(writer.directory).segments[:2]
    cut(first.path, 5)
    archive = Archive(spark, str(tmp_path / "archive"))
    archive_all(archive, writer.directory, max_rows=second.base_offset - 1)
    lost = [second.base_offset - 2, second.base_offset - 1]
    assert offsets(archive) == [n for n in range(42) if n not in (*lost, 40)]
    apart = archive.quarantine()
    assert apart is not None
    rows = {row.offset: row for row in apart.collect()}
    assert sorted(rows) == [*lost, 40]
    for offset in lost:
        assert rows[offset].source == str(first.path)
        assert rows[offset].problem == "it ends in the middle of a batch"
    assert rows[40].problem == "NoOpRecord version 99 is not known"
    writer.append(md.NoOpRecord())
    archive_all(archive, writer.directory)
    assert offsets(archive)[-1] == 42
    assert archive.contents().quarantined == 3
    writer.close()


def test_damage_at_the_end_of_a_log_is_reported_and_another_replica_continues(
    spark: SparkSession, tmp_path: Path
) -> None:
    writer = pairs(tmp_path / "a", 10, segment_bytes=1 << 20)
    writer.close()
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    (segment,) = open_log(tmp_path / "b").segments
    content = bytearray(segment.path.read_bytes())
    content[-3] ^= 1
    segment.path.write_bytes(content)
    archive = Archive(spark, str(tmp_path / "archive"))
    place = rf"{segment.path.name} is damaged at byte {len(content) // 10 * 9}, offset 18: checksum"
    for _ in range(2):
        with pytest.raises(PipelineError, match=place):
            archive_all(archive, tmp_path / "b", max_rows=5)
        assert offsets(archive) == list(range(18))
    with pytest.raises(Exception, match=place):
        spark.read.format("metadata_log").load(str(tmp_path / "b")).count()
    archive_all(archive, tmp_path / "a")
    assert offsets(archive) == list(range(20))
    assert archive.contents().quarantined == 0


@pytest.mark.parametrize("mounted", [True, False])
def test_whatever_is_damaged_the_rest_is_archived(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mounted: bool
) -> None:
    """A batch that can't be decoded at the border of two ranges, a segment without a byte, whose ranges have no record, and garbage
    that takes no record with it.
    """
    if not mounted:
        monkeypatch.setattr(HadoopFiles, "local_path", lambda self, directory: None)
    log = tmp_path / "log"
    log.mkdir()
    undecodable = framed(3, 1, (0, 4, 1, 1, -1, -1, -1, 5), b"\xff" * 60)
    segments = {
        0: no_operations(0, 3) + undecodable + no_operations(8, 2),
        10: b"",
        20: no_operations(20, 2) + b"\0" * 50 + no_operations(22, 3),
        25: no_operations(25, 3),
    }
    for base, content in segments.items():
        (log / f"{base:020d}.log").write_bytes(content)
    archive = Archive(spark, str(tmp_path / "archive"))
    archive_all(archive, log, max_rows=5)
    assert offsets(archive) == [0, 1, 2, 8, 9, *range(20, 28)]
    apart = archive.quarantine()
    assert apart is not None
    assert sorted(row.offset for row in apart.collect()) == [3, 5, 10, 15, 22]
    assert archive.contents().quarantined == 5
    assert archive.compact(1_000, print) == 1
    assert (len(offsets(archive)), archive.contents().quarantined) == (13, 5)


def test_snapshot_without_footer_is_not_used_as_start(spark: SparkSession, tmp_path: Path) -> None:
    """The log continues from it: without it there is no state, so nothing is archived."""
    writer = LogWriter(tmp_path / "node", segment_bytes=300)
    write_history(writer)
    path = writer.directory / writer.snapshot(drop_log=True).file_name
    writer.elect(3)
    sound = path.read_bytes()
    cut(path, 12 + int.from_bytes(sound[8:12], "big"))
    archive = Archive(spark, str(tmp_path / "archive"))
    with pytest.raises(PipelineError, match=rf"{path.name}, byte \d+: .* is damaged"):
        archive_all(archive, writer.directory)
    assert archive.contents().ranges == ()
    path.write_bytes(sound)
    archive_all(archive, writer.directory)
    state = archived_state(tmp_path / "archive", Moment())
    assert b"".join(state.snapshot()) == writer.image_bytes()
    writer.close()


def test_log_without_records_archives_nothing_until_records_arrive(
    spark: SparkSession, tmp_path: Path
) -> None:
    """From the beginning, and behind a snapshot: nothing is archived, and what comes is."""
    empty = tmp_path / "node" / "__cluster_metadata-0"
    empty.mkdir(parents=True)
    (empty / f"{0:020d}.log").touch()
    archive = Archive(spark, str(tmp_path / "archive"))
    for _ in range(2):
        archive_all(archive, empty)
        assert archive.contents().ranges == ()
    shutil.rmtree(empty)
    writer = pairs(tmp_path / "node", 3)
    archive_all(archive, writer.directory)
    assert offsets(archive) == list(range(6))
    writer.snapshot(drop_log=True)
    for segment in writer.directory.glob("*.log"):
        segment.unlink()
    behind = Archive(spark, str(tmp_path / "behind"))
    archive_all(behind, writer.directory)
    assert behind.contents().ranges == ()
    writer.close()


def test_log_of_another_history_and_missing_directories_are_rejected(
    spark: SparkSession, tmp_path: Path
) -> None:
    """What was never committed may be replaced in a log; nothing is archived behind what it is not."""
    archive = Archive(spark, str(tmp_path / "archive"))
    archive_all(archive, pairs(tmp_path / "a", 5).directory)
    other = pairs(tmp_path / "b", 4)
    other.epoch = 9
    for _ in range(3):
        other.append(md.NoOpRecord(), md.NoOpRecord())
    with pytest.raises(PipelineError, match=r"at offset 9 it has a batch of epoch 1"):
        archive_all(archive, other.directory)
    assert offsets(archive) == list(range(10))
    (only,) = (tmp_path / "archive" / "records").iterdir()
    shutil.rmtree(only)
    archive_all(archive, other.directory)
    assert offsets(archive) == list(range(14)), "an empty archive may be of any log"


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("", "'': .*empty string"),
        ("a:b:c", "'a:b:c': .*Relative path in absolute URI"),
        ("foo://x", 'foo://x: Spark has no connector for foo, .*No FileSystem for scheme "foo"'),
        ("hdfs://nowhere.invalid:1/x", "hdfs://nowhere.invalid:1/x: .*UnknownHostException"),
    ],
)
def test_invalid_destination_is_rejected(spark: SparkSession, place: str, says: str) -> None:
    with pytest.raises(PipelineError, match=says):
        Archive(spark, place).contents()


def test_java_error_is_reported_in_one_line(tmp_path: Path) -> None:
    """Its stacks are for who writes Spark: a master that is none, a directory in which nothing can be made."""
    pairs(tmp_path / "node", 3).close()
    log, archive = ("--log", tmp_path / "node"), tmp_path / "archive"
    archive.mkdir()
    (archive / "records").touch()
    for more, says in (
        (("--master", "foo"), "Spark can't start with the master foo: "),
        (("--master", "local[1]"), f"offsets 0 to 6 are not archived in {archive}: "),
    ):
        done = run_pipeline("archive", *log, "--to", archive, *more)
        assert done.returncode == 2, done.stderr
        assert done.stderr.splitlines()[-1].startswith(f"quorum-pipeline archive: {says}")
        assert "\tat " not in done.stderr
        assert "Traceback" not in done.stderr
    done = run_pipeline("archive", "--compact", "--to", tmp_path / "none")
    assert (done.returncode, "is not an archive, or is empty" in done.stderr) == (2, True)


def test_failing_executors_are_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every command that runs on Spark: here their Python can't be started."""
    pairs(tmp_path / "node", 3).close()
    monkeypatch.setenv("PYSPARK_PYTHON", str(tmp_path / "nothing"))
    done = run_pipeline("state", "--log", tmp_path / "node", "--master", "local[1]")
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines()[-1].startswith("quorum-pipeline state: Spark at local[1]: ")
    assert "Traceback" not in done.stderr


def test_disappearing_directory_stops_the_archive_until_it_returns(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Under an archive that follows it: that ends with its name, and resumes when it is back."""
    node, aside = tmp_path / "node", tmp_path / "aside"
    writer = pairs(node, 10)
    archive = Archive(spark, str(tmp_path / "archive"))

    def vanish(end_offset: int) -> None:
        if end_offset == 20 and node.exists():
            node.rename(aside)

    following = ArchiveJob(archive, open_log(node), 1_000_000, 0.2)
    for _ in range(2):
        with pytest.raises(PipelineError, match=rf"^{writer.directory} does not exist$"):
            following.run(vanish, print)
        assert offsets(archive) == list(range(20))
    aside.rename(node)
    writer.append(md.NoOpRecord())
    archive_all(archive, node)
    assert offsets(archive) == list(range(21))
    assert archive.contents().quarantined == 0
    writer.close()


def test_full_destination_keeps_archived_records_and_resumes_when_space_is_freed(
    spark: SparkSession, tmp_path: Path
) -> None:
    """However little room there is: what was archived stays, and what comes is archived when there is room again."""
    require_loop_disks()
    disk = LoopDisk(tmp_path / "disk", 48, kind="ext4")
    writer = pairs(tmp_path / "node", 10)
    try:
        archive = Archive(spark, str(disk.mount_point / "archive"))
        disk.fill()
        with pytest.raises(PipelineError, match=f"{disk.mount_point}/archive.*No space left"):
            archive_all(archive, writer.directory)
        disk.free()
        archive_all(archive, writer.directory)
        held = list(range(20))
        for leave_kib in (0, 8, 16):
            writer.append(md.NoOpRecord())
            disk.fill(leave_kib << 10)
            with pytest.raises(PipelineError, match="No space left on device"):
                archive_all(archive, writer.directory)
            assert offsets(archive) == held
            disk.free()
            archive_all(archive, writer.directory)
            held = list(range(writer.end_offset))
            assert offsets(archive) == held
    finally:
        disk.close()
        writer.close()


def test_marker_is_complete_or_absent(spark: SparkSession, tmp_path: Path) -> None:
    """It is what makes a directory count: on a full disk there is room for its name, and not for its text."""
    require_loop_disks()
    disk = LoopDisk(tmp_path / "disk", 16, kind="ext4")
    try:
        files, marker = (
            HadoopFiles(spark.sparkContext),
            str(disk.mount_point / "directory" / "_COMPLETE"),
        )
        (disk.mount_point / "directory").mkdir()
        disk.fill()
        with pytest.raises(PipelineError, match=rf"{marker}: .*No space left on device"):
            files.write(marker, "text")
        assert files.read(marker) is None
        disk.free()
        files.write(marker, "text")
        assert files.read(marker) == "text"
    finally:
        disk.close()


def test_unavailable_quorum_is_reported(spark: SparkSession, tmp_path: Path) -> None:
    """Every node is killed under a following archive: it reports that and ends with 2, and resumes when they are back."""
    with LocalQuorum(tmp_path / "quorum") as quorum:
        quorum.form()
        quorum.put("before", "1")
        servers = ",".join(f"127.0.0.1:{node.port}" for node in quorum.nodes.values())
        options = ["archive", "--bootstrap", servers, "--to", tmp_path / "archive"]
        archive = Archive(spark, str(tmp_path / "archive"))
        with PipelineProcess(tmp_path / "first", *options, "--follow", "--every", "1") as process:
            wait_until(lambda: archive.contents().end > 0, "the first micro batch", 300)
            for node in quorum.nodes.values():
                node.kill()
            assert process.wait_exit() == 2, process.output
            assert "no leader answered within 30 s" in process.output.splitlines()[-1]
        before = archive.contents().end
        assert offsets(archive) == list(range(before))
        for node in quorum.nodes.values():
            node.start()
        quorum.put("after", "2")
        with PipelineProcess(tmp_path / "second", *options) as process:
            assert process.wait_exit() == 0, process.output
        end = archive.contents().end
        assert end > before
        assert offsets(archive) == list(range(end))
