"""Where the steps of a job run: on Spark's executors, or, for what is small, in this process.

Owns what both have in common: rows that functions are applied to, part by part. The functions are the same, and must not know where they run. Here rows are
made at once, tasks on threads (compiled loops let others run); there Spark says who does what.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol

from quorum_pipeline.spark.fetched_rows import fetched_in, fetched_rows

if TYPE_CHECKING:
    from pyspark import SparkContext

Rows = Any
"""An RDD, or RowsHere."""


class Stages(Protocol):
    """`slots`: tasks that run at a time; `place`: in words."""

    slots: int
    place: str

    def rows(self, items: list[Any]) -> Rows:
        """One task for each item."""

    def keep(self, rows: Rows) -> Rows:
        """Rows that are asked for more than once."""

    def describe(self, text: str) -> None:
        """What the next steps do."""


class SparkStages:
    """On the executors of a context."""

    def __init__(self, context: SparkContext) -> None:
        self.context = context
        self.slots = max(context.defaultParallelism, 1)
        self.place = f"on Spark ({context.master})"

    def rows(self, items: list[Any]) -> Rows:
        """See Stages. Files of an archive that is not mounted come with their tasks."""
        with_files = [item for item in items if fetched_in(item) is not None]
        if not with_files:
            return self.context.parallelize(items, max(len(items), 1))
        fetched = fetched_rows(self.context, with_files)
        others = [item for item in items if fetched_in(item) is None]
        return _Mixed(fetched, self.rows(others)) if others else fetched

    def keep(self, rows: Rows) -> Rows:
        """See Stages."""
        from pyspark import StorageLevel

        return rows.persist(StorageLevel.MEMORY_AND_DISK)

    def describe(self, text: str) -> None:
        """See Stages. It stands in Spark's UI."""
        self.context.setJobDescription(text)


class _Mixed:
    """Items with files that were fetched, and items without: a union of both would be a step of its own, behind which
    files are gone.
    """

    def __init__(self, fetched: Rows, others: Rows) -> None:
        self._fetched, self._others = fetched, others

    def flatMap(self, function: Callable[[Any], Iterable[Any]]) -> Rows:  # noqa: N802
        """See RDD."""
        return self._fetched.flatMap(function).union(self._others.flatMap(function))


class StagesHere:
    """In this process, without Spark."""

    place = "in this process"

    def __init__(self, slots: int = 2) -> None:
        self.slots = slots

    def rows(self, items: list[Any]) -> Rows:
        """See Stages."""
        return RowsHere(items, self.slots)

    def keep(self, rows: Rows) -> Rows:
        """See Stages. They are kept anyway."""
        return rows

    def describe(self, text: str) -> None:
        """See Stages. There is no UI."""


class RowsHere:
    """As PySpark's RDD, as far as jobs use it: names and meaning are from there."""

    def __init__(self, items: Iterable[Any], slots: int) -> None:
        self._items = list(items)
        self._slots = slots

    def flatMap(self, function: Callable[[Any], Iterable[Any]]) -> RowsHere:  # noqa: N802
        """Tasks side by side."""
        if len(self._items) < 2:
            return self._with(each for item in self._items for each in function(item))
        with ThreadPoolExecutor(self._slots) as pool:
            found = list(pool.map(lambda item: list(function(item)), self._items))
        return self._with(each for part in found for each in part)

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
        """See RDD; keys differ on each side."""
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
        return RowsHere(items, self._slots)
