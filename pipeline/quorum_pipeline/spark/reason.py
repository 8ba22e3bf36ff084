"""Extracts one line with the cause from a Spark error: a Python stack inside nested Java stacks."""

import re

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

SparkError = (PySparkException, Py4JJavaError)
"""Errors that calls of Spark raise: the second if PySpark has no class for the Java exception."""

_OWN = re.compile(r"quorum_pipeline(?:\.\w+)+: (.+)")
"""Last line of a Python stack trace whose exception class is in this package: class and message."""
_RAISED = re.compile(r"[\w.]*(Error|Exception)\b")


def reason_of(error: PySparkException | Py4JJavaError) -> str:
    """Return the message of this package's error if there is one, else the innermost cause."""
    lines = [line.strip().removeprefix(": ") for line in str(error).splitlines()]
    own = [found[1] for found in map(_OWN.search, lines) if found is not None]
    raised = [line for line in lines if _RAISED.match(line.removeprefix("Caused by: "))]
    return (own or raised or lines)[-1 if own or raised else 0]
