"""The operations of an archive that Spark wrote and merged, listed with Spark's file system and without it."""

import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from quorum_node.records import metadata as md
from quorum_pipeline.files.archive_operations import APPEND, MERGE, STATE, operations
from quorum_pipeline.files.archive_reader import ArchiveReader
from quorum_pipeline.files.local_files import LocalFiles
from quorum_pipeline.files.log_directory import open_log
from quorum_pipeline.spark.archive import Archive
from quorum_pipeline.spark.archive_job import ArchiveJob
from support.written_log import LogWriter, write_history


@pytest.mark.long
def test_appends_states_and_merges_are_listed(spark: SparkSession, tmp_path: Path) -> None:
    began_ms = time.time_ns() // 1_000_000
    writer = LogWriter(tmp_path / "node", segment_bytes=2_000)
    write_history(writer)
    uri = str(tmp_path / "archive")
    archive = Archive(spark, uri)
    archive.state_rows = 10
    ends = []
    for _ in range(3):
        job = ArchiveJob(archive, open_log(writer.directory), 1_000, None)
        job.run(lambda end: None, print)
        ends.append(writer.end_offset)
        writer.append(md.NoOpRecord())
    files = LocalFiles()
    found = operations(ArchiveReader(files, uri))
    assert [each.kind for each in found] == [APPEND, APPEND, STATE, APPEND]
    assert [each.end_offset for each in found] == [ends[2], ends[1], ends[0], ends[0]]
    assert archive.compact(1_000, print) == 1
    merged, state = operations(ArchiveReader(files, uri))[::-1]
    if merged.kind == STATE:
        merged, state = state, merged
    assert (merged.kind, merged.merged, merged.end_offset) == (MERGE, 3, ends[2])
    assert merged.records == ends[2]
    assert began_ms <= found[-1].written_ms <= merged.written_ms <= time.time_ns() // 1_000_000
    assert operations(Archive(spark, uri)) == operations(ArchiveReader(files, uri))
    writer.close()
