"""Names of archives elsewhere that can't be read, reported with what helps."""

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.archive_tasks import DeltaTask
from quorum_pipeline.files.fetched import Fetched
from quorum_pipeline.spark.hadoop_files import HadoopFiles
from quorum_pipeline.spark.stages import SparkStages


def test_path_with_special_characters_of_hadoop_is_rejected(spark: SparkSession) -> None:
    for root in ("viewfs://t/place/a,b", "viewfs://t/a:b", "s3a://b/{a}"):
        task = Fetched(DeltaTask(Path("deltas/part")), root, ("deltas/part",))
        with pytest.raises(PipelineError, match=rf"^{re.escape(root)} can't be read by executors"):
            SparkStages(spark.sparkContext).parallelize([(0, task)])


@pytest.mark.parametrize("uri", ["s3a://bucket/a", "nosuch://bucket/a"])
def test_store_without_a_connector_is_an_error_that_tells_what_to_add(
    uri: str, spark: SparkSession
) -> None:
    scheme = uri.partition(":")[0]
    with pytest.raises(
        PipelineError, match=rf"^{uri}: Spark has no connector for {scheme}, .*docs"
    ):
        HadoopFiles(spark.sparkContext).list(uri)
