"""Rows of tasks that read spans: one result for each task, and the parts that it has read.

Owns that no part is missing: Spark repeats tasks whose rows it has lost with an executor, and a task that could read its span may fail
then. Its result reports this, among the parts that a later step gets.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Container
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from quorum_pipeline.errors import PipelineError

if TYPE_CHECKING:
    from quorum_pipeline.spark.stages import Rows

_KEY = -1


@dataclass(frozen=True, slots=True)
class TaskResult:
    """`number`: place of the task; `executor`: where it ran; `error`: why it could not read its span, or None."""

    number: int
    executor: str
    error: str | None = field(default=None, kw_only=True)


def result_row(result: TaskResult) -> tuple[Any, Any]:
    """Return the row of a result; those of parts have other values, and any keys."""
    return _KEY, result


def results_of(rows: Rows) -> list[Any]:
    """Return the results of all tasks, in order."""
    return sorted(rows.filter(_is_result).values().collect(), key=lambda each: each.number)


def parts_of(rows: Rows, read: Container[int]) -> Rows:
    """Return the parts. `read`: numbers of the tasks that could read their span, and whose parts are used.

    Executors raise PipelineError if one of these could not read it again.
    """
    return rows.filter(partial(_is_part, read))


# -- on executors


def where() -> str:
    """Return a name for the current executor: its workers are forked from one process."""
    return f"{socket.gethostname()}/{os.getppid()}"


def _is_result(keyed: tuple[Any, Any]) -> bool:
    return isinstance(keyed[1], TaskResult)


def _is_part(read: Container[int], keyed: tuple[Any, Any]) -> bool:
    found = keyed[1]
    if not isinstance(found, TaskResult):
        return True
    if found.error is not None and found.number in read:
        raise PipelineError(found.error)
    return False
