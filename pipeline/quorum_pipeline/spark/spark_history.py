"""States of a log in a directory, made on the executors of Spark. Owns what is asked for, and what people are told of how it was done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from quorum_pipeline.files.replay import Moment
from quorum_pipeline.files.span_tasks import tasks_of
from quorum_pipeline.spark.state_job import ReducedLog, SparkState, TaskDone
from quorum_pipeline.state.difference import Difference

if TYPE_CHECKING:
    from pyspark import SparkContext


class SparkHistory:
    """To be closed; until then what was reduced and merged is kept on the executors, for whoever asks for rows.

    `span_bytes`: what a task reads, if it is not to be chosen.
    """

    def __init__(self, context: SparkContext, path: Path, span_bytes: int | None = None) -> None:
        self._context = context
        self._path = path
        self._span_bytes = span_bytes
        self._open = ExitStack()
        self.done: list[TaskDone] = []
        """What the tasks have read that reduced the log."""

    def __enter__(self) -> SparkHistory:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def at(self, moment: Moment) -> SparkState:
        """Raises PipelineError, and what Spark raises."""
        return self._reduced((moment,)).state()

    def differences(self, start: int, end: int) -> Iterator[Difference]:
        """Between two offsets. The log is reduced once. Raises PipelineError, and what Spark raises."""
        reduced = self._reduced((Moment(offset=start), Moment(offset=end)))
        return reduced.state(1).differences(reduced.state(0))

    def how(self) -> str:
        """In a few words."""
        records = [each.summary.records for each in self.done]
        executors = Counter[str]()
        for each in self.done:
            executors[each.executor] += each.summary.records
        return (
            f"on Spark ({self._context.master}): {sum(records):,} records reduced in {len(records):,} tasks, {max(records, default=0):,} at most in"
            f" one and {max(executors.values(), default=0):,} on one of {len(executors):,} executors"
        )

    def _reduced(self, moments: Sequence[Moment]) -> ReducedLog:
        slots = max(self._context.defaultParallelism, 1)
        plan = tasks_of(self._path, moments, slots, self._span_bytes)
        found = self._open.enter_context(ReducedLog(self._context, plan, max(slots, 2)))
        self.done = found.done
        return found
