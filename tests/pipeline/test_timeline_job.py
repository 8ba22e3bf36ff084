"""A timeline on Spark's executors: the same events, and the driver decodes no metadata record."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from quorum_pipeline.spark.stages import SparkStages
from support.driver_only import nothing_decoded_here
from support.timelines import read_timeline
from support.written_log import LogWriter, write_history


@pytest.mark.requirement("SP-05", "SP-08")
def test_timeline_on_executors(spark: SparkSession, tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, segment_bytes=2_000)
    write_history(writer)
    writer.close()
    expected = read_timeline(tmp_path)
    with nothing_decoded_here():
        found = read_timeline(tmp_path, 400, SparkStages(spark.sparkContext))
    assert found.events == expected.events
    assert sum(each.records for each in found.reads) == writer.end_offset
    assert len(found.reads) > 3
    assert " executors" in found.how("on Spark")
