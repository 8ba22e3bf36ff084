"""What a plain reader of Parquet sees of an archive, and a log whose records are replaced while it is followed."""

import itertools
import shutil
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from quorum_node.records import metadata as md
from quorum_pipeline.archive.layout import Marker, OffsetRange
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.log_directory import open_log
from quorum_pipeline.spark.archive import Archive
from quorum_pipeline.spark.archive_job import ArchiveJob
from quorum_pipeline.spark.hadoop_files import HadoopFiles
from support.written_log import LogWriter, write_history


def archive_all(archive: Archive, log: Path, max_rows: int) -> None:
    ArchiveJob(archive, open_log(log), max_rows, None).run(lambda end: None, print)


@pytest.mark.long
@pytest.mark.parametrize("by", ["workers", "spark"])
@pytest.mark.requirement("SP-02")
def test_plain_parquet_has_no_incomplete_range(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """The writer is killed when all files of a range are there but the marker, and when two ranges are being merged."""
    writer = LogWriter(tmp_path / "node", segment_bytes=2_000)
    write_history(writer)
    writer.close()
    if by == "spark":
        monkeypatch.setattr(HadoopFiles, "local_path", lambda self, directory: None)
    root = tmp_path / "archive"
    archive = Archive(spark, str(root))
    complete, written = Archive._complete, itertools.count()

    def killed_at_the_third(self: Archive, range: OffsetRange, marker: Marker) -> None:
        if next(written) == 2:
            raise PipelineError("killed")
        complete(self, range, marker)

    def plain() -> list[list[int]]:
        frame = spark.read.parquet(str(root / "records"))
        files = ds.dataset(root / "records", format="parquet", partitioning="hive")
        found = [row.offset for row in frame.select("offset").collect()]
        return [sorted(found), sorted(files.to_table(columns=["offset"])["offset"].to_pylist())]

    with monkeypatch.context() as patch:
        patch.setattr(Archive, "_complete", killed_at_the_third)
        with pytest.raises(PipelineError, match="killed"):
            archive_all(archive, writer.directory, 20)
    assert [each.end for each in archive.contents().ranges] == [20, 40]
    assert plain() == [list(range(40))] * 2
    archive_all(archive, writer.directory, 20)
    assert plain() == [list(range(writer.end_offset))] * 2

    def killed(self: Archive, range: OffsetRange, marker: Marker) -> None:
        raise PipelineError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(Archive, "_complete", killed)
        with pytest.raises(PipelineError, match="killed"):
            archive.compact(1_000, print)
    assert plain() == [list(range(writer.end_offset))] * 2
    assert archive.compact(1_000, print) == 1
    assert plain() == [list(range(writer.end_offset))] * 2
    assert [path.name for path in (root / "records").iterdir()] == [
        archive.contents().ranges[0].directory
    ]


@pytest.mark.long
@pytest.mark.requirement("SP-02")
def test_records_replaced_while_a_log_is_followed_are_noticed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory whose end was not committed: between two micro batches a new leader replaces it."""
    first, second = LogWriter(tmp_path / "node"), LogWriter(tmp_path / "other")
    for writer in (first, second):
        writer.append(*[md.NoOpRecord()] * 10)
        writer.append(*[md.NoOpRecord()] * 10)
        writer.epoch += writer is second
        for _ in range(2):
            writer.append(*[md.NoOpRecord()] * 10)
        writer.close()
    archive = Archive(spark, str(tmp_path / "archive"))
    complete = Archive._complete

    def replaced_behind_thirty(self: Archive, range: OffsetRange, marker: Marker) -> None:
        complete(self, range, marker)
        if range.end == 30:
            shutil.copytree(second.directory, first.directory, dirs_exist_ok=True)

    monkeypatch.setattr(Archive, "_complete", replaced_behind_thirty)
    with pytest.raises(
        PipelineError, match=r"at offset 29 it has a batch of epoch 1.* the log one of epoch 2"
    ):
        archive_all(archive, first.directory, 10)
    assert archive.contents().end == 30


@pytest.mark.long
@pytest.mark.requirement("SP-02")
def test_records_deleted_before_they_were_archived_are_not_left_out(
    spark: SparkSession, tmp_path: Path
) -> None:
    writer = LogWriter(tmp_path / "node", segment_bytes=300)
    write_history(writer)
    root = tmp_path / "archive"
    archive_all(Archive(spark, str(root)), writer.directory, 1_000)
    end = writer.end_offset
    for number in range(9):
        writer.elect(number)
    writer.snapshot(drop_log=True)
    writer.elect(1)
    writer.close()
    assert open_log(writer.directory).start_offset > end
    with pytest.raises(PipelineError, match=f"has no offset {end}: it begins at"):
        archive_all(Archive(spark, str(root)), writer.directory, 1_000)
    assert Archive(spark, str(root)).contents().end == end


@pytest.mark.long
@pytest.mark.requirement("SP-02")
def test_replica_that_is_behind_the_archive_is_waited_for(
    spark: SparkSession, tmp_path: Path
) -> None:
    ahead, behind = LogWriter(tmp_path / "ahead"), LogWriter(tmp_path / "behind")
    for _ in range(3):
        ahead.append(*[md.NoOpRecord()] * 10)
    behind.append(*[md.NoOpRecord()] * 10)
    archive = Archive(spark, str(tmp_path / "archive"))
    archive_all(archive, ahead.directory, 100)
    archive_all(archive, behind.directory, 100)
    assert archive.contents().end == 30
    behind.append(*[md.NoOpRecord()] * 10)
    for _ in range(2):
        behind.append(*[md.NoOpRecord()] * 10)
    archive_all(archive, behind.directory, 100)
    assert archive.contents().end == 40
    ahead.close()
    behind.close()


@pytest.mark.long
@pytest.mark.requirement("SP-02")
def test_rename_that_is_interrupted_in_a_store_leaves_no_range(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An object store renames a directory by copying its files, the first ones by name first."""
    writer = LogWriter(tmp_path / "node", segment_bytes=2_000)
    write_history(writer)
    writer.close()
    monkeypatch.setattr(HadoopFiles, "local_path", lambda self, directory: None)
    root = tmp_path / "archive"
    archive = Archive(spark, str(root))

    def killed(self: HadoopFiles, directory: str, name: str) -> None:
        Path(name).mkdir(parents=True)
        first, *others = sorted(Path(directory).glob("[!.]*"))
        shutil.copy(first, name)
        assert others, "a part of the files is missing"
        raise PipelineError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(HadoopFiles, "rename", killed)
        with pytest.raises(PipelineError, match="killed"):
            archive_all(archive, writer.directory, 100)
    assert archive.contents().ranges == ()
    archive_all(archive, writer.directory, 100)
    rows = archive.read().select("offset").collect()
    assert sorted(row.offset for row in rows) == list(range(writer.end_offset))


@pytest.mark.long
def test_files_of_an_interrupted_write_do_not_count_whatever_a_session_overwrites(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a setting that is common for tables of a Hive, only partitions that are written again; these have new names."""
    monkeypatch.setattr(HadoopFiles, "local_path", lambda self, directory: None)
    writer = LogWriter(tmp_path / "node", segment_bytes=2_000)
    write_history(writer)
    writer.close()
    root = tmp_path / "archive"
    left = root / "records" / "_writing" / "files" / "place=records" / "name=part-0"
    left.mkdir(parents=True)
    (left / "part-00000.txt").write_bytes(b"PAR1")
    archive = Archive(spark, str(root))
    mode = "spark.sql.sources.partitionOverwriteMode"
    spark.conf.set(mode, "dynamic")
    try:
        archive_all(archive, writer.directory, 100)
    finally:
        spark.conf.unset(mode)
    assert archive.contents().end == writer.end_offset
