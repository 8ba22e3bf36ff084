"""One Spark session for all tests of this folder that run on one worker: starting it costs more than a test."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from quorum_pipeline.spark.session import open_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = open_session("tests", "local[2]")
    yield session
    session.stop()
