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
def test_exception_of_this_package_is_the_reason_for_any_class(kind: type[Exception]) -> None:
    assert (
        reason_of(stack(kind("no leader answered within 30 s"))) == "no leader answered within 30 s"
    )


def test_reason_of_a_python_exception_ends_with_its_class_and_message() -> None:
    assert reason_of(stack(ValueError("two"))).endswith("ValueError: two")


def test_first_line_is_the_reason_without_a_cause() -> None:
    assert (
        reason_of(PySparkException("the query was stopped\nby its owner"))
        == "the query was stopped"
    )
