"""Extracts one line with the cause from a Spark error: a Python stack inside nested Java stacks."""

import re

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

SparkError = (PySparkException, Py4JJavaError)
"""What a call of Spark raises: the second where PySpark has no class of its own for what Java threw."""

_OWN = re.compile(r"quorum_pipeline(?:\.\w+)+: (.+)")
"""As Python ends a stack: the class, of this package whatever its name is, and the message."""
_RAISED = re.compile(r"[\w.]*(Error|Exception)\b")


def reason_of(error: PySparkException | Py4JJavaError) -> str:
    """What this package raised, if it was that; else the cause at the bottom."""
    lines = [line.strip().removeprefix(": ") for line in str(error).splitlines()]
    own = [found[1] for found in map(_OWN.search, lines) if found is not None]
    raised = [line for line in lines if _RAISED.match(line.removeprefix("Caused by: "))]
    return (own or raised or lines)[-1 if own or raised else 0]
