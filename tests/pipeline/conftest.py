"""One Spark session for all tests of this folder that run on one worker: starting it costs more than a test."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from support.quick_spark import open_quick_session
from support.spark_hang_report import killed_after, reported_before

STOP_SECONDS = 60.0


@pytest.fixture(scope="package")
def spark() -> Iterator[SparkSession]:
    session = open_quick_session()
    yield session
    with killed_after(STOP_SECONDS, session.sparkContext._gateway.proc.pid):
        session.stop()


@pytest.fixture(autouse=True)
def report_what_a_test_waits_for(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that takes too long reports what it waits for."""
    if "spark" not in request.fixturenames:
        yield
        return
    session: SparkSession = request.getfixturevalue("spark")
    with reported_before(limit_seconds(request.node), session.sparkContext._gateway.proc.pid):
        yield


def limit_seconds(item: pytest.Item) -> float:
    """As pytest-timeout takes it: the marker, the command line, pyproject.toml."""
    marker = item.get_closest_marker("timeout")
    found = marker.args[0] if marker else item.config.getoption("timeout")
    return float(found or item.config.getini("timeout"))
