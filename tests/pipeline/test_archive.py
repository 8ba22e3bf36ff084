"""A log, read and archived by a real Spark: every record once, after any failure."""

import os
import shutil
from pathlib import Path
from uuid import UUID

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_schema

from quorum_node.image.resource_types import TOPIC
from quorum_node.records import metadata as md
from quorum_node.records.identity import uuid_text
from quorum_pipeline.archive.layout import OffsetRange
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.archive_part import WORTH_FILES_ROWS
from quorum_pipeline.files.archive_reader import ArchiveReader
from quorum_pipeline.files.archive_tasks import ArchiveSource
from quorum_pipeline.files.local_files import LocalFiles, is_local
from quorum_pipeline.files.log_directory import open_log
from quorum_pipeline.rows.column_types import arrow_schema
from quorum_pipeline.rows.table import table_columns
from quorum_pipeline.spark.archive import Archive
from quorum_pipeline.spark.archive_job import ArchiveJob
from quorum_pipeline.spark.hadoop_files import HadoopFiles
from quorum_pipeline.spark.spark_history import JobHistory
from quorum_pipeline.spark.stages import SparkStages, StagesHere
from quorum_pipeline.state.moment import Moment
from support.metadata_records import config
from support.written_archive import archived_state
from support.written_log import LogWriter, write_history


def archive_all(archive: Archive, writer: LogWriter, max_rows: int = 1_000_000) -> None:
    ArchiveJob(archive, open_log(writer.directory), max_rows, None).run(lambda end: None, print)


def offsets(archive: Archive) -> list[int]:
    return sorted(row.offset for row in archive.read().select("offset").collect())


@pytest.mark.requirement("SP-01", "SP-02", "SP-03")
def test_log_is_read_archived_and_replayed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = LogWriter(tmp_path / "node", segment_bytes=2_000)
    images = write_history(writer)
    writer.snapshot()
    log = spark.read.format("metadata_log").option("spanBytes", "500").load(str(tmp_path / "node"))
    assert to_arrow_schema(log.schema, timezone="UTC") == arrow_schema(table_columns())
    changes = log.where("partition_change IS NOT NULL").select("offset", "partition_change.isr")
    assert [tuple(row) for row in changes.collect()] == [(51, [2, 3])]
    snapshots = spark.read.format("metadata_snapshot").load(str(tmp_path / "node"))
    found = snapshots.where("voters IS NOT NULL").select("snapshot", "voters.voters.id").collect()
    assert [tuple(row) for row in found] == [(f"{writer.end_offset}-3", [2, 3, 1])]

    path = tmp_path / "an archive" / "of 100%20 #1: all"
    archive = Archive(spark, str(path))
    archive_all(archive, writer)
    assert archive.contents().end == writer.end_offset
    writer.append(md.NoOpRecord())
    archive_all(archive, writer)
    assert [len(each) for each in archive.contents().ranges] == [writer.end_offset - 1, 1]
    writer.close()
    archived = spark.read.format("metadata_archive").load(str(path)).select("offset").collect()
    assert sorted(row.offset for row in archived) == list(range(writer.end_offset))
    behind = spark.read.format("metadata_log").option("startOffset", writer.end_offset)
    assert behind.load(str(tmp_path / "node")).collect() == [], "there are no records yet"
    offset = list(images)[-2]
    assert read_every_way(spark, path, offset, monkeypatch) == {images[offset]}


@pytest.mark.long
@pytest.mark.requirement("SP-02", "SP-03")
def test_state_snapshots_are_kept_during_archiving(spark: SparkSession, tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "node", segment_bytes=2_000)
    images = write_history(writer)
    path = tmp_path / "archive"
    archive = Archive(spark, str(path))
    archive.state_rows = 10
    archive_all(archive, writer)
    writer.close()
    source = ArchiveSource(ArchiveReader(LocalFiles(), str(path)), tmp_path)
    for stages in (StagesHere(), SparkStages(spark.sparkContext)):
        with JobHistory(stages, source) as history:
            state = history.at(Moment())
            assert b"".join(state.snapshot()) == images[writer.end_offset]
            assert sum(each.summary.records for each in history.done) == 0, (
                "records were read as well as the state"
            )


def read_every_way(
    spark: SparkSession, path: Path, offset: int, monkeypatch: pytest.MonkeyPatch
) -> set[bytes]:
    """The state: by Spark, by Spark as if the archive were elsewhere, and without it, under all the names that it has."""
    names = (str(path), f"file:{path}", f"file://{path}/", os.path.relpath(path))
    assert all(map(is_local, names))
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(HadoopFiles, "local_path", lambda self, directory: None)
        ways: list[ArchiveReader] = [Archive(spark, str(path))]
    ways += (Archive(spark, each) for each in names)
    ways += (ArchiveReader(LocalFiles(), each) for each in names)
    assert [each.contents() for each in ways] == [ways[0].contents()] * 9
    images = set()
    for each in ways[1:]:  # test_hadoop_archive.py reads states elsewhere
        with JobHistory(StagesHere(), ArchiveSource(each, path)) as history:
            images.add(b"".join(history.at(Moment(offset=offset)).snapshot()))
    return images


@pytest.mark.long
@pytest.mark.requirement("SP-02")
def test_archiver_killed_anywhere_resumes_and_merges(spark: SparkSession, tmp_path: Path) -> None:
    """Small micro batches; the traces of a kill at every step of one; then merging, and more records."""
    writer = LogWriter(tmp_path / "node", segment_bytes=2_000)
    write_history(writer)
    uri = tmp_path / "archive"
    archive = Archive(spark, str(uri))
    archive_all(archive, writer, max_rows=10)
    ranges = archive.contents().ranges
    assert len(ranges) == -(-writer.end_offset // 10)
    last = uri / "records" / ranges[-1].directory
    # Within the write, by an older version: some files and no marker.
    (last / "_COMPLETE").unlink()
    next(last.glob("*.parquet")).unlink()
    assert archive.contents().end == ranges[-1].start
    archive_all(archive, writer, max_rows=10)
    assert offsets(archive) == list(range(writer.end_offset))
    # As many records as there are now: the range of the older version is another one.
    (last / "_COMPLETE").unlink()
    writer.append(md.NoOpRecord())
    archive_all(archive, writer, max_rows=10)
    assert offsets(archive) == list(range(writer.end_offset))
    assert not last.exists()
    damaged = min((uri / "deltas").glob("*/*.parquet"))
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
    with pytest.raises(PipelineError, match=rf"not merged .*{damaged.name}: the checksum of its f"):
        archive.compact(25, print)
    damaged.write_bytes(whole)
    assert archive.compact(25, print) == 3
    assert offsets(archive) == list(range(writer.end_offset))
    assert len(list((uri / "records").iterdir())) == 3
    # Within merging: the merged directory counts, its parts are still there.
    assert archive.compact(1_000, print) == 1
    for _ in range(3):
        writer.append(md.NoOpRecord())
        archive_all(archive, writer)
    assert offsets(archive) == list(range(writer.end_offset))
    writer.close()


@pytest.mark.long
@pytest.mark.requirement("SP-02")
@pytest.mark.parametrize("mounted", [True, False])
def test_undecodable_records_are_quarantined(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mounted: bool
) -> None:
    if not mounted:
        monkeypatch.setattr(HadoopFiles, "local_path", lambda self, directory: None)
    writer = LogWriter(tmp_path / "node")
    writer.append(md.NoOpRecord(), md.NoOpRecord())
    unknown = md.UnknownMetadata(99, 3, b"\1\2")
    writer.append(unknown, md.NoOpRecord())
    archive = Archive(spark, str(tmp_path / "archive"))
    archive_all(archive, writer)
    assert offsets(archive) == [0, 1, 3]
    apart = archive.quarantine()
    assert apart is not None
    (row,) = apart.collect()
    assert (row.offset, row.problem) == (2, "type 99 version 3 is not known")
    assert row.source.endswith("00000000000000000000.log")
    place = f"{row.source}, byte {row.position}, offset 2: type 99 version 3 is not known"
    assert list(archive.quarantined_places(5)) == [place]
    assert bytes(row.value) == md.encode_metadata(unknown)
    with pytest.raises(PipelineError, match=r"1 records .* in quarantine"):
        archived_state(tmp_path / "archive", Moment())
    assert archive.compact(1_000, print) == 1
    assert archive.contents().quarantined == 1
    writer.close()


@pytest.mark.long
@pytest.mark.requirement("SP-02")
def test_second_writer_is_noticed_where_there_is_no_lock(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stops, and what the first one wrote stays; the checkpoint of an older version does not matter."""
    monkeypatch.setattr(HadoopFiles, "local_path", lambda self, directory: None)
    writer = LogWriter(tmp_path / "node")
    write_history(writer)
    root = tmp_path / "archive"
    (root / "_checkpoint" / "offsets").mkdir(parents=True)
    (root / "_checkpoint" / "offsets" / "0").write_text("v1")
    first, second = (Archive(spark, str(root)) for _ in range(2))
    options = {"path": str(writer.directory)}
    begun = [each.begin(options)[1] for each in (first, second)]
    assert begun == [0, 0]
    first.write(OffsetRange(0, 30))
    with pytest.raises(PipelineError, match="another process wrote offsets 0 to 30: only one may"):
        second.write(OffsetRange(0, 20))
    archive_all(first, writer)
    assert offsets(first) == list(range(writer.end_offset))
    writer.close()


@pytest.mark.long
def test_log_that_starts_after_a_snapshot_is_archived(spark: SparkSession, tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "node", segment_bytes=300)
    write_history(writer)
    writer.snapshot(drop_log=True)
    writer.elect(3)
    archive = Archive(spark, str(tmp_path / "archive"))
    archive_all(archive, writer)
    assert archive.contents().start > 0
    state = archived_state(tmp_path / "archive", Moment())
    assert b"".join(state.snapshot()) == writer.image_bytes()
    writer.close()


@pytest.mark.long
@pytest.mark.requirement("SP-02")
def test_workers_and_spark_write_the_same_records(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a file system that only Hadoop supports, Spark has to write; quarantine included."""
    writer = LogWriter(tmp_path / "node", segment_bytes=2_000)
    write_history(writer)
    known = md.encode_metadata(md.NoOpRecord())
    writer.append_bytes([known, known[:2] + b"\x63" + known[3:]])
    writer.close()
    found = []
    for name in ("workers", "spark"):
        if name == "spark":
            monkeypatch.setattr(HadoopFiles, "local_path", lambda self, directory: None)
        archive = Archive(spark, str(tmp_path / name))
        archive_all(archive, writer, max_rows=20)
        apart = archive.quarantine()
        assert apart is not None
        tables = [frame.orderBy("offset") for frame in (archive.read(), apart)]
        found.append([(frame.schema, frame.collect()) for frame in tables])
        assert archive.contents().quarantined == 1
    assert found[0] == found[1]
    assert len(found[0][0][1]) == writer.end_offset - 1


@pytest.mark.long
@pytest.mark.requirement("SP-02")
def test_files_by_type_are_read_as_one_table(spark: SparkSession, tmp_path: Path) -> None:
    """Spark itself, without code of this project, reads all columns from the directory."""
    count = WORTH_FILES_ROWS
    writer = LogWriter(tmp_path / "node")
    known, setting = md.encode_metadata(md.NoOpRecord()), config(TOPIC, "orders", "a", "1")
    writer.append_bytes([known, md.encode_metadata(setting)] * count)
    writer.close()
    archive = Archive(spark, str(tmp_path / "archive"))
    archive_all(archive, writer)
    records = tmp_path / "archive" / "records"
    files = list(records.rglob("*.parquet"))
    assert len(files) == 2, files
    frame = spark.read.parquet(str(records))
    assert {*frame.columns} == {*table_columns()} - {"data"} | {"offsets"}
    assert frame.where("config.name = 'a'").count() == count
    assert frame.where("config IS NULL AND type = 'NoOpRecord'").count() == count
    assert offsets(archive) == list(range(2 * count))


@pytest.mark.long
@pytest.mark.requirement("SP-02", "SP-03")
def test_archive_with_added_and_removed_columns_is_read_and_continued(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Columns were added and removed: an older archive is read, continued and merged; a column of another type is reported."""
    writer = LogWriter(tmp_path / "node")
    write_history(writer)
    archive = Archive(spark, str(tmp_path / "archive"))
    archive_all(archive, writer)
    (first,) = (tmp_path / "archive" / "records").iterdir()
    written = spark.read.parquet(str(first))
    topic = sf.when(sf.col("topic").isNotNull(), sf.struct("topic.name"))
    older = written.withColumns({"data": sf.lit("{}"), "topic": topic}).drop("config")
    write_again(older, first)
    other = md.TopicRecord(name="other", topic_id=UUID(int=78))
    writer.append(other, config(TOPIC, "other", "retention.ms", "1"))
    archive_all(archive, writer)
    # With deltas no record would be read.
    shutil.rmtree(tmp_path / "archive" / "deltas")
    for _ in range(2):
        frame = archive.read()
        assert frame.columns == written.columns
        assert offsets(archive) == list(range(writer.end_offset))
        topics = frame.where("topic IS NOT NULL").orderBy("offset").select("topic.*").collect()
        assert topics == [("orders", None), ("other", uuid_text(UUID(int=78)))]
        values = frame.where("config IS NOT NULL").select("config.value").collect()
        assert values == [("1",)]
        state = archived_state(tmp_path / "archive", Moment())
        assert b"".join(state.snapshot()) == writer.image_bytes()
        archive.compact(1_000, print)
    (merged,) = (tmp_path / "archive" / "records").iterdir()
    write_again(archive.read().withColumn("epoch", sf.col("epoch").cast("string")), merged)
    with pytest.raises(PipelineError, match=rf"^{merged}/.*parquet: .*epoch"):
        archived_state(tmp_path / "archive", Moment())
    writer.close()


def write_again(frame: DataFrame, directory: Path) -> None:
    """Other Parquet files in the place of those that are there; the marker stays."""
    aside = directory.parent.parent / "aside"
    frame.write.parquet(str(aside))
    for path in (*directory.glob("*.parquet"), *directory.glob(".*.crc")):
        path.unlink()
    for path in aside.glob("*.parquet"):
        path.rename(directory / path.name)
    shutil.rmtree(aside)
