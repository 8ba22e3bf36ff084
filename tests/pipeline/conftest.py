"""One Spark session for all tests of this folder that run on one worker: starting it costs more than a test."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from quorum_pipeline.spark.session import open_session
from quorum_pipeline.state import replaying

# A few small queries: what a compiler would make of them costs more than to run them as they are.
QUICK = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "2",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = open_session("tests", "local[2]", QUICK)
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def as_a_long_history(monkeypatch: pytest.MonkeyPatch) -> None:
    """What nodes wrote is the oracle here: for the replay of long histories, which these are not."""
    monkeypatch.setattr(replaying, "WORTH_RECORDS", 1)
