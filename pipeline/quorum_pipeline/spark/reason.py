"""Extracts one line with the cause from a Spark error: a Python stack inside nested Java stacks."""

import re
from subprocess import Popen, TimeoutExpired
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException

SparkError = (PySparkException, Py4JError)
"""Errors that calls of Spark raise: the second if PySpark has no class for the Java exception, or lost the connection to Java."""
_ENDED = (
    "Spark's Java process has ended: it was killed, or had no memory. Run the command again; a larger spark.driver.memory helps"
    " if memory was short"
)
_END_SECONDS = 1.0
"""A process closes its connections shortly before it counts as ended."""

_OWN = re.compile(r"quorum_pipeline(?:\.\w+)+: (.+)")
"""Last line of a Python stack trace whose exception class is in this package: class and message."""
_RAISED = re.compile(r"[\w.]*(Error|Exception)\b")


def failure_of(error: BaseException) -> str | None:
    """Return one line with the cause if Spark has failed; None for other errors."""
    if isinstance(error, SparkError):
        return reason_of(error)
    return _ENDED if _is_lost(error) and java_has_ended() else None


def _is_lost(error: BaseException) -> bool:
    """Return whether an error is one of those that calls raise when Java is not there; others may look the same."""
    if isinstance(error, Py4JError):
        return not isinstance(error, Py4JJavaError)
    return isinstance(error, ConnectionError | EOFError)


def java_has_ended() -> bool:
    """Return whether this process's Spark has lost its Java process."""
    gateway: Any = SparkContext._gateway  # noqa: SLF001 - there is no public way
    java: Popen[bytes] | None = getattr(gateway, "proc", None)
    if java is None:
        return False
    try:
        java.wait(_END_SECONDS)
    except TimeoutExpired:
        return False
    return True


def reason_of(error: PySparkException | Py4JError) -> str:
    """Return the message of this package's error if there is one, else the innermost cause."""
    if _is_lost(error) and java_has_ended():
        return _ENDED
    lines = [line.strip().removeprefix(": ") for line in str(error).splitlines()]
    own = [found[1] for found in map(_OWN.search, lines) if found is not None]
    raised = [line for line in lines if _RAISED.match(line.removeprefix("Caused by: "))]
    return (own or raised or lines)[-1 if own or raised else 0]
