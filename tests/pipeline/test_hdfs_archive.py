"""An archive on a real HDFS: written, continued, and read by executors, which mount nothing of it."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from quorum_pipeline.files.archive_reader import ArchiveReader
from quorum_pipeline.files.archive_tasks import ArchiveSource
from quorum_pipeline.files.log_directory import open_log
from quorum_pipeline.spark.archive import Archive
from quorum_pipeline.spark.archive_job import ArchiveJob
from quorum_pipeline.spark.hadoop_files import HadoopFiles
from quorum_pipeline.spark.spark_history import JobHistory
from quorum_pipeline.spark.stages import SparkStages
from quorum_pipeline.spark.timeline_job import archive_source, read_timeline
from quorum_pipeline.state.moment import Moment
from support.audited import audit
from support.driver_only import nothing_decoded_here
from support.hdfs import Hdfs
from support.timelines import read_timeline as timeline_of_log
from support.written_log import LogWriter, write_history


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.requirement("SP-03")
def test_archive_on_hdfs_gives_the_results_of_the_log(spark: SparkSession, tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "node", segment_bytes=2_000)
    images = write_history(writer)
    writer.close()
    with Hdfs(tmp_path / "hdfs") as hdfs:
        uri = f"{hdfs.uri}/an archive"
        job = ArchiveJob(Archive(spark, uri), open_log(writer.directory), 20, None, span_bytes=500)
        job.run(lambda end: None, print)
        stages = SparkStages(spark.sparkContext)
        reader = ArchiveReader(HadoopFiles(spark.sparkContext), uri)
        with JobHistory(stages, ArchiveSource(reader, tmp_path)) as found:
            for offset in (20, writer.end_offset):
                with nothing_decoded_here():
                    state = found.at(Moment(offset=min(e for e in images if e >= offset)))
                    assert b"".join(state.snapshot()) == images[state.end_offset]
        with nothing_decoded_here():
            timeline = read_timeline(stages, archive_source(reader, tmp_path))
            audited = audit([writer.directory], (reader,), stages=stages)
        assert timeline.events == timeline_of_log(writer.directory).events
        assert audited.findings == ()
        assert audited.matching.committed_end == writer.end_offset
