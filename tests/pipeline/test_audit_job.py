"""An audit on Spark's executors: the same findings as in this process, and the driver decodes nothing."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from quorum_pipeline.files.archive_reader import ArchiveReader
from quorum_pipeline.files.log_directory import open_log
from quorum_pipeline.spark.hadoop_files import HadoopFiles
from quorum_pipeline.spark.stages import SparkStages
from support.audited import audit
from support.driver_only import nothing_decoded_here
from support.hadoop_archive import hadoop_uri
from support.written_archive import write_archive
from support.written_log import LogWriter, write_history


@pytest.mark.requirement("SP-04", "SP-08")
def test_audit_on_executors(spark: SparkSession, tmp_path: Path) -> None:
    """Of logs, an archive, and the same archive as one that executors do not mount."""
    writer = LogWriter(tmp_path / "a", segment_bytes=2_000)
    write_history(writer)
    paths = [tmp_path / name for name in "abc"]
    for each in paths[1:]:
        shutil.copytree(paths[0], each)
    writer.snapshot()
    writer.close()
    log = open_log(paths[0])
    archive = tmp_path / "archive"
    write_archive(archive, log.path, 0, 12, log.end_offset())
    segment = open_log(paths[1]).segments[0].path
    with segment.open("r+b") as file:
        file.seek(15)
        file.write(b"\x00")
    stages = SparkStages(spark.sparkContext)
    elsewhere = ArchiveReader(HadoopFiles(spark.sparkContext), hadoop_uri(spark, archive))
    with nothing_decoded_here():
        found = audit(paths, (archive, elsewhere), span_bytes=1_500, stages=stages)
    expected = audit(paths, (archive, archive))
    assert [
        replace(each, what=each.what.replace(elsewhere.uri, str(archive)))
        for each in found.findings
    ] == [*expected.findings]
    assert (found.batches, found.matching.compared) == (
        expected.batches,
        expected.matching.compared,
    )
    assert found.matching.committed_end == log.end_offset()
    assert {(each.replica, each.offset) for each in found.findings} == {(str(paths[1]), 0)}
    assert (found.snapshots, found.replayed, found.logs.drilled) == (1, 1, 1)
    assert len(found.logs.reads) > 4
    assert {each.executor for each in found.logs.reads}.isdisjoint({"", None})
