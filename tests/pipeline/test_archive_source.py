"""The data source `metadata_archive` in a real Spark, batch and streaming, while the archive grows and is merged."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from quorum_node.records import metadata as md
from quorum_pipeline.files.log_directory import open_log
from quorum_pipeline.spark.archive import Archive
from quorum_pipeline.spark.archive_job import ArchiveJob
from support.local_quorum import wait_until
from support.written_log import LogWriter, write_history

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture
def writer(tmp_path: Path) -> LogWriter:
    made = LogWriter(tmp_path / "node", segment_bytes=2_000)
    write_history(made)
    return made


def archive_all(archive: Archive, writer: LogWriter, max_rows: int = 1_000_000) -> None:
    ArchiveJob(archive, open_log(writer.directory), max_rows, None).run(lambda end: None, print)


def follow(spark: SparkSession, archive: Path, root: Path) -> StreamingQuery:
    """A stream of the archive into Parquet files."""
    return (
        spark.readStream.format("metadata_archive")
        .schema("offset bigint, type string")
        .option("maxOffsetsPerTrigger", 15)
        .load(str(archive))
        .writeStream.format("parquet")
        .option("checkpointLocation", str(root / "checkpoint"))
        .trigger(processingTime="200 milliseconds")
        .start(str(root / "rows"))
    )


def streamed(spark: SparkSession, root: Path) -> list[int]:
    rows = spark.read.schema("offset bigint, type string").parquet(str(root / "rows"))
    return sorted(row.offset for row in rows.collect())


def test_stream_returns_each_offset_once_while_ranges_are_written_and_merged(
    spark: SparkSession, tmp_path: Path, writer: LogWriter
) -> None:
    path = tmp_path / "archive"
    archive = Archive(spark, str(path))
    archive_all(archive, writer, max_rows=10)
    query = follow(spark, path, tmp_path)

    def stop_behind(offset: int) -> None:
        wait_until(
            lambda: query.exception() is not None or streamed(spark, tmp_path)[-1:] == [offset - 1],
            f"offsets up to {offset} are read",
            240,
        )
        query.stop()
        assert query.exception() is None

    stop_behind(writer.end_offset)
    for rows in (20, 1_000):
        for _ in range(15):
            writer.append(md.NoOpRecord())
        query = follow(spark, path, tmp_path)
        archive_all(archive, writer, max_rows=10)
        archive.compact(rows, print)
        stop_behind(writer.end_offset)
    assert streamed(spark, tmp_path) == list(range(writer.end_offset))
    assert len(archive.contents().ranges) == 1


def test_merged_files_have_the_same_rows(
    spark: SparkSession, tmp_path: Path, writer: LogWriter
) -> None:
    """Spark writes them, with types of its own."""
    path = tmp_path / "archive"
    archive = Archive(spark, str(path))
    archive_all(archive, writer, max_rows=10)
    archived = spark.read.format("metadata_archive").load(str(path))
    before = sorted(archived.drop("source").collect(), key=lambda row: row.offset)
    archive.compact(1_000, print)
    assert len(archive.contents().ranges) == 1
    after = sorted(archived.drop("source").collect(), key=lambda row: row.offset)
    assert after == before
    log = spark.read.format("metadata_log").load(str(writer.directory)).drop("data", "source")
    assert after == sorted(log.collect(), key=lambda row: row.offset)
