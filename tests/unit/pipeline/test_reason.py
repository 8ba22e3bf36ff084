"""The one line that a user reads, out of what Spark throws."""

import pytest
from pyspark.errors import PySparkException

from quorum_pipeline.errors import PipelineError
from quorum_pipeline.live.quorum import QuorumUnread
from quorum_pipeline.spark.reason import reason_of


def stack(error: Exception) -> PySparkException:
    """What a query ends with when a data source has raised."""
    name = f"{type(error).__module__}.{type(error).__qualname__}"
    return PySparkException(
        "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: latestOffset: Traceback (most recent call last):\n"
        '  File "log_source.py", line 7, in latestOffset\n'
        f"{name}: {error}\n\n"
        "\tat org.apache.spark.sql.execution.Streams.run(Streams.scala:1)\n"
    )


@pytest.mark.parametrize("kind", [PipelineError, QuorumUnread])
def test_what_this_package_raised_is_the_reason_whatever_its_class(kind: type[Exception]) -> None:
    assert (
        reason_of(stack(kind("no leader answered within 30 s"))) == "no leader answered within 30 s"
    )


def test_what_python_raised_comes_before_where_it_was() -> None:
    assert reason_of(stack(ValueError("two"))).endswith("ValueError: two")


def test_without_a_cause_it_is_the_first_line() -> None:
    assert (
        reason_of(PySparkException("the query was stopped\nby its owner"))
        == "the query was stopped"
    )
