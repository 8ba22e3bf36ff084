"""Runs the steps of a job on Spark's executors, or, for small jobs, in this process.

Owns the common interface: rows to which functions are applied, partition by partition. The functions are the same and must
not depend on where they run. In this process rows are computed immediately, by tasks on threads (compiled loops release
the GIL). On executors Spark schedules them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol

from quorum_pipeline.redaction import redacted
from quorum_pipeline.spark.fetched_rows import fetched_in, fetched_rows
from quorum_pipeline.spark.step import Step, load, load_of

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

Rows = Any
"""An RDD, or RowsHere."""


class Stages(Protocol):
    """Where tasks run. `slots`: number of tasks that run at a time; `place`: description of the place."""

    slots: int
    place: str

    def parallelize(self, items: list[Any]) -> Rows:
        """Return rows with one task for each item."""

    def persist(self, rows: Rows) -> Rows:
        """Store the results of rows that are used more than once."""

    def coalesce(self, rows: Rows) -> Rows:
        """Return stored rows for steps that are short: with as many tasks as run at a time, if there are more."""

    def describe(self, text: str) -> None:
        """Set the description of the next steps."""

    def progress(self) -> str | None:
        """Describe the current step: tasks, records and bytes that are done, rate and rest; None between two steps. For another thread."""


class SparkStages:
    """Stages on the executors of a context."""

    def __init__(self, context: SparkContext) -> None:
        self.context = context
        self.slots = max(context.defaultParallelism, 1)
        self.place = redacted(f"on Spark ({context.master})")
        self._step = Step()

    def parallelize(self, items: list[Any]) -> Rows:
        """See Stages. Files of an archive that is not mounted are copied to their tasks."""
        self._step.begin(len(items), load_of(items))
        return self._parallelize(items)

    def _parallelize(self, items: list[Any]) -> Rows:
        with_files = [item for item in items if fetched_in(item) is not None]
        if not with_files:
            return self.context.parallelize(items, max(len(items), 1))
        fetched = fetched_rows(self.context, with_files)
        others = [item for item in items if fetched_in(item) is None]
        return _Mixed(fetched, self._parallelize(others)) if others else fetched

    def persist(self, rows: Rows) -> Rows:
        """See Stages."""
        from pyspark import StorageLevel

        return rows.persist(StorageLevel.MEMORY_AND_DISK)

    def coalesce(self, rows: Rows) -> Rows:
        """See Stages. Rows stay where they are stored."""
        return rows.coalesce(self.slots)

    def session(self) -> SparkSession:
        """Return the session of the context."""
        from pyspark.sql import SparkSession

        return SparkSession.builder.getOrCreate()

    def describe(self, text: str) -> None:
        """See Stages. Spark's UI shows the text."""
        self._step.describe(text)
        self.context.setJobDescription(redacted(text))

    def progress(self) -> str | None:
        """See Stages. None if Java has ended: the job reports that."""
        return progress_of(self.context, self._step)


class _Mixed:
    """Items with fetched files, and items without. A union of both would be a separate step, after which the files are
    deleted; so each function is applied before the union.
    """

    def __init__(self, fetched: Rows, others: Rows) -> None:
        self._fetched, self._others = fetched, others

    def flatMap(self, function: Callable[[Any], Iterable[Any]]) -> Rows:  # noqa: N802
        """See RDD."""
        return self._fetched.flatMap(function).union(self._others.flatMap(function))


def progress_of(context: SparkContext, step: Step) -> str | None:
    """Describe a step whose tasks a context runs. None between two steps, or if Java has ended: the job reports that."""
    from quorum_pipeline.spark.reason import SparkError

    tracker = context.statusTracker()
    try:
        found = [tracker.getStageInfo(each) for each in tracker.getActiveStageIds()]
    except (*SparkError, OSError):
        return None
    stages = [each for each in found if each is not None]
    tasks = sum(each.numTasks for each in stages)
    return step.progress(tasks, sum(each.numCompletedTasks for each in stages))


class StagesHere:
    """Stages in this process, without Spark."""

    place = "in this process"

    def __init__(self, slots: int = 2) -> None:
        self.slots = slots
        self._step = Step()

    def parallelize(self, items: list[Any]) -> Rows:
        """See Stages."""
        return RowsHere(items, self.slots, self._step)

    def persist(self, rows: Rows) -> Rows:
        """See Stages. Rows are always stored."""
        return rows

    def coalesce(self, rows: Rows) -> Rows:
        """See Stages. These rows are not divided into tasks."""
        return rows

    def describe(self, text: str) -> None:
        """See Stages."""
        self._step.describe(text)

    def progress(self) -> str | None:
        """See Stages."""
        return self._step.progress()


class RowsHere:
    """The part of the interface of PySpark's RDD that jobs use, with the same names and meaning."""

    def __init__(self, items: Iterable[Any], slots: int, step: Step | None = None) -> None:
        self._items = list(items)
        self._slots = slots
        self._step = step or Step()

    def flatMap(self, function: Callable[[Any], Iterable[Any]]) -> RowsHere:  # noqa: N802
        """See RDD. Tasks run in parallel, on threads."""
        self._step.begin(len(self._items), load_of(self._items))

        def done(item: Any) -> list[Any]:
            found = list(function(item))
            self._step.end_task(load(item))
            return found

        if len(self._items) < 2:
            return self._with(each for item in self._items for each in done(item))
        with ThreadPoolExecutor(self._slots) as pool:
            parts = list(pool.map(done, self._items))
        return self._with(each for part in parts for each in part)

    def map(self, function: Callable[[Any], Any]) -> RowsHere:
        """See RDD."""
        return self._with(map(function, self._items))

    def filter(self, function: Callable[[Any], bool]) -> RowsHere:
        """See RDD."""
        return self._with(filter(function, self._items))

    def values(self) -> RowsHere:
        """See RDD."""
        return self._with(value for _, value in self._items)

    def mapValues(self, function: Callable[[Any], Any]) -> RowsHere:  # noqa: N802
        """See RDD."""
        return self.flatMap(lambda keyed: [(keyed[0], function(keyed[1]))])

    def groupByKey(self, parts: int = 0, of: object = None) -> RowsHere:  # noqa: N802
        """See RDD."""
        found = defaultdict(list)
        for key, value in self._items:
            found[key].append(value)
        return self._with(found.items())

    def union(self, other: RowsHere) -> RowsHere:
        """See RDD."""
        return self._with([*self._items, *other._items])

    def fullOuterJoin(self, other: RowsHere) -> RowsHere:  # noqa: N802
        """See RDD; the keys of each side are unique."""
        mine, others = dict(self._items), dict(other._items)
        keys = [*mine, *(key for key in others if key not in mine)]
        return self._with((key, (mine.get(key), others.get(key))) for key in keys)

    def sortByKey(self) -> RowsHere:  # noqa: N802
        """See RDD."""
        return self._with(sorted(self._items, key=lambda keyed: keyed[0]))

    def collect(self) -> list[Any]:
        """See RDD."""
        return self._items

    def toLocalIterator(self) -> Iterator[Any]:  # noqa: N802
        """See RDD."""
        return iter(self._items)

    def unpersist(self) -> None:
        """See RDD."""

    def _with(self, items: Iterable[Any]) -> RowsHere:
        return RowsHere(items, self._slots, self._step)
