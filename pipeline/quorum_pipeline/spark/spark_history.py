"""States of a history, computed by stages. Owns the choice between compiled loops and single records, and the summary of the work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from quorum_pipeline.canonical_encoding import Unsupported
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.log_directory import open_log
from quorum_pipeline.files.span_tasks import LogTasks, tasks_of
from quorum_pipeline.spark.compacted_job import CompactedDone, CompactedLog
from quorum_pipeline.spark.stages import Stages
from quorum_pipeline.spark.state_job import LogPlan, ReducedLog, SparkState, TaskDone
from quorum_pipeline.state.difference import Difference
from quorum_pipeline.state.moment import Moment

_TRIES = 5
"""Each further try means that files were merged since the last one."""
WORTH_BYTES = 4 << 20
"""Shorter logs are reduced record by record, as loading the compiled loops would take longer."""


class Source(Protocol):
    """A log, archive or snapshot with a history."""

    def plan(self, moments: Sequence[Moment], slots: int, *, compiled: bool) -> LogPlan | None:
        """Return how to read the records up to these moments, which are in order; None: too short for compiled loops.

        Raises PipelineError.
        """

    def buckets(self, slots: int) -> int:
        """Return the number of buckets in which a state is merged."""


class MergedSource(Source, Protocol):
    """A source whose files may be replaced by others with the same records, while they are read."""

    def version(self) -> object:
        """Return a value that changes when files are replaced. Raises PipelineError, OSError."""


class DerivedFilesSource(Source, Protocol):
    """A source with files that only save work: their content is in others as well."""

    def without(self, damaged: Set[str]) -> Source:
        """Return the same source without these files."""

    def is_replaced(self, file: str) -> bool:
        """Return whether a file that could not be read is no longer needed: it is not damaged. Raises PipelineError, OSError."""


def _version(source: Source) -> object:
    return source.version() if hasattr(source, "version") else None


@dataclass(frozen=True, slots=True)
class DirectorySource:
    """The directory of one replica. `span_bytes`: how much one task reads; None: chosen automatically. `from_first`: read
    the log from its first record.
    """

    path: Path
    span_bytes: int | None = None
    worth_bytes: int = WORTH_BYTES
    from_first: bool = False

    def plan(self, moments: Sequence[Moment], slots: int, *, compiled: bool) -> LogTasks | None:
        """See Source."""
        path, size = self.path, self.span_bytes
        found = tasks_of(path, moments, slots, size, from_first=self.from_first)
        return None if compiled and found.size_bytes < self.worth_bytes else found

    def buckets(self, slots: int) -> int:
        """See Source."""
        return max(slots, 2)

    def version(self) -> object:
        """See MergedSource: a running node deletes its first segments and snapshots behind a newer snapshot."""
        log = open_log(self.path)
        return [each.base_offset for each in log.segments[:1]], log.snapshots[:1]


def _may_be_of_files(error: Exception) -> bool:
    """Whether an error may mean that files are missing: Spark looks for those of a store before it begins tasks. Its classes are not
    loaded in a process without it.
    """
    return isinstance(error, PipelineError | FileNotFoundError) or type(
        error
    ).__module__.startswith(("py4j.", "pyspark."))


class JobHistory:
    """The history of a source. Reduced and merged data stays available for reading rows until it is closed."""

    def __init__(self, stages: Stages, source: Source) -> None:
        self._stages = stages
        self._source = source
        self._open = ExitStack()
        self.one_by_one = False
        """Whether records had to be applied individually, as a node does."""
        self.done: Sequence[TaskDone] = ()
        """Results of the tasks that reduced the log."""
        self.damaged: frozenset[str] = frozenset()
        """Files of deltas and states that are damaged, so that others were read instead."""

    def __enter__(self) -> JobHistory:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def at(self, moment: Moment) -> SparkState:
        """Return the state at a moment. Raises PipelineError, and Spark's errors."""
        return self.states((moment,))[0]

    def differences(self, start: int, end: int) -> Iterator[Difference]:
        """Return the differences between the states at two offsets. Records before the first one are read once.

        Raises PipelineError, and Spark's errors.
        """
        before, after = self.states((Moment(offset=start), Moment(offset=end)))
        return after.differences(before)

    def states(self, moments: Sequence[Moment]) -> list[SparkState]:
        """Return the states at the moments, which are in order. Each record is read once.

        Raises PipelineError, and Spark's errors.
        """
        for left in reversed(range(_TRIES)):
            version = _version(self._source)
            try:
                return self._states(moments, version)
            except Exception as error:
                # Files that were merged, or states and segments that were deleted meanwhile are missing.
                if not (_may_be_of_files(error) and left) or _version(self._source) == version:
                    raise
                self._open.close()
        raise AssertionError("the last try returns or raises")

    def _states(self, moments: Sequence[Moment], version: object) -> list[SparkState]:
        slots = self._stages.slots
        buckets = self._source.buckets(slots)
        found = self._compacted(moments, slots, buckets, version)
        if found is not None:
            return found
        plan = self._source.plan(moments, slots, compiled=False)
        assert plan is not None, "every record can be reduced individually"
        reduced = self._open.enter_context(ReducedLog(self._stages, plan, buckets))
        self.done, self.one_by_one = reduced.done, True
        return [reduced.state(number) for number in range(len(moments))]

    def _compacted(
        self, moments: Sequence[Moment], slots: int, buckets: int, version: object
    ) -> list[SparkState] | None:
        """Return the states by compiled loops; None if they can't be computed so: an error, or an unsupported encoding. `version`:
        that of the source before.
        """
        source, self.damaged = self._source, frozenset()
        for _ in range(_TRIES):
            plan = source.plan(moments, slots, compiled=True)
            if plan is None:
                return None
            log = self._open.enter_context(CompactedLog(self._stages, plan, buckets))
            self.done, self.one_by_one = log.done, False
            try:
                return [log.state(number) for number in range(len(moments))]
            except Unsupported:
                self._open.close()
            damaged = frozenset(each.damaged for each in log.done if each.damaged)
            if not damaged:
                before, version = version, _version(self._source)
                if before == version:
                    return None
                continue  # files that were planned to be read may be missing
            derived: Any = source  # only such sources have these files
            self.damaged |= {each for each in damaged if not derived.is_replaced(each)}
            source = derived.without(damaged)
        return None

    @property
    def rows_read(self) -> int:
        """Number of records, and rows of deltas and states, that were read."""
        return sum(map(_rows_read, self.done))

    def how(self) -> str:
        """Describe where and how the records were reduced, in one line."""
        records = [_rows_read(each) for each in self.done]
        size_bytes = sum(each.summary.size_bytes for each in self.done)
        executors = Counter[str]()
        for each in self.done:
            executors[each.executor] += _rows_read(each)
        one_by_one = ", one by one," if self.one_by_one else ""
        damaged = "".join(f"; {each} is damaged, others were read" for each in sorted(self.damaged))
        stood_for = sum(each.summary.records for each in self.done)
        what = "records" if stood_for == sum(records) else f"rows for {stood_for:,} records"
        return (
            f"{self._stages.place}: {sum(records):,} {what} ({size_bytes / (1 << 20):,.1f} MiB){one_by_one} reduced in"
            f" {len(records):,} tasks, {max(records, default=0):,} at most in one and"
            f" {max(executors.values(), default=0):,} on one of {len(executors):,} executors{damaged}"
        )


def _rows_read(done: TaskDone) -> int:
    return done.rows_read if isinstance(done, CompactedDone) else done.summary.records
