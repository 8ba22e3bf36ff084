"""The line that says what went wrong, out of what Spark throws: a Python stack within a Java stack within another."""

import re

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

SparkError = (PySparkException, Py4JJavaError)
"""What a call of Spark raises: the second where PySpark has no class of its own for what Java threw."""

_RAISED = re.compile(r"[\w.]*(Error|Exception)\b")


def reason_of(error: PySparkException | Py4JJavaError) -> str:
    """What this package raised, if it was that; else the cause at the bottom."""
    lines = [line.strip().removeprefix(": ") for line in str(error).splitlines()]
    own = [line.partition("PipelineError: ")[2] for line in lines if "PipelineError: " in line]
    raised = [line for line in lines if _RAISED.match(line.removeprefix("Caused by: "))]
    return (own or raised or lines)[-1 if own or raised else 0]
