"""Stages on a Spark Connect server: the same functions as on a context, on DataFrames instead of RDDs.

Owns the transport format of rows: a column of pickled rows, and a column with the bucket by which they are grouped.
Steps without a shuffle between them are one `mapInArrow`. Rows are sorted here, in the client: Spark can't compare
pickled rows.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from socket import create_connection
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from zlib import crc32

from quorum_pipeline.errors import PipelineError
from quorum_pipeline.redaction import redacted, remember_secrets

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_SCHEMA = "bucket bigint, item binary"
_PORT, _CONNECT_SECONDS = 15002, 10.0
"""Default port of Spark Connect, and the time limit of the first connection."""
_MAX_SLOTS = 1 << 12
_ROWS_AT_ONCE = 1_000
Step = Callable[[Iterator[Any]], Iterator[Any]]


class RemoteStages:
    """Stages on the executors of a server. Items are sent within the functions that read them: they are tasks, and small."""

    def __init__(self, session: SparkSession, url: str) -> None:
        from pyspark.sql import functions as sf

        self._session = session
        slots = session.range(0, _MAX_SLOTS).select(sf.spark_partition_id()).distinct().count()
        self.slots = max(slots, 1)
        self.place = f"on Spark ({shown_url(url)})"

    def parallelize(self, items: list[Any]) -> RemoteRows:
        """See Stages."""
        frame = self._session.range(0, len(items), 1, max(len(items), 1))
        packed = tuple(map(_packed, items))
        return RemoteRows(frame.mapInArrow(partial(_items, packed), _SCHEMA), [])

    def persist(self, rows: RemoteRows) -> RemoteRows:
        """See Stages."""
        return rows.persist()

    def coalesce(self, rows: RemoteRows) -> RemoteRows:
        """See Stages."""
        return rows.coalesce(self.slots)

    def describe(self, text: str) -> None:
        """See Stages. The text is a tag of the operations in the server's UI; a tag must not contain a comma."""
        self._session.clearTags()
        self._session.addTag(redacted(text).replace(",", ";"))

    def progress(self) -> str | None:
        """See Stages. A client does not learn how many tasks are done."""
        return None


class RemoteRows:
    """The part of the interface of PySpark's RDD that jobs use, with the same names and meaning."""

    def __init__(self, frame: DataFrame, steps: list[Step]) -> None:
        self._frame = frame
        self._steps = steps

    def flatMap(self, function: Callable[[Any], Iterable[Any]]) -> RemoteRows:  # noqa: N802
        """See RDD."""
        return self._then(partial(_flat, function))

    def map(self, function: Callable[[Any], Any]) -> RemoteRows:
        """See RDD."""
        return self._then(partial(_each, function))

    def filter(self, function: Callable[[Any], bool]) -> RemoteRows:
        """See RDD."""
        return self._then(partial(_some, function))

    def values(self) -> RemoteRows:
        """See RDD."""
        return self.map(_value)

    def mapValues(self, function: Callable[[Any], Any]) -> RemoteRows:  # noqa: N802
        """See RDD."""
        return self.map(partial(_with_value, function))

    def groupByKey(self, parts: int = 0, of: object = None) -> RemoteRows:  # noqa: N802
        """See RDD. All rows of one key are in one partition."""
        frame = self._done()
        shuffled = frame.repartition(parts, "bucket") if parts else frame.repartition("bucket")
        return RemoteRows(shuffled, [_grouped])

    def union(self, other: RemoteRows) -> RemoteRows:
        """See RDD."""
        return RemoteRows(self._done().unionAll(other._done()), [])

    def fullOuterJoin(self, other: RemoteRows) -> RemoteRows:  # noqa: N802
        """See RDD; the keys of each side are unique."""
        sides = (self.map(partial(_on_side, 0)), other.map(partial(_on_side, 1)))
        return sides[0].union(sides[1]).groupByKey().map(_both_sides)

    def sortByKey(self) -> SortedHere:  # noqa: N802
        """See RDD."""
        return SortedHere(sorted(self.collect(), key=lambda keyed: keyed[0]))

    def collect(self) -> list[Any]:
        """See RDD."""
        table = self._done().select("item").toArrow()
        return [pickle.loads(each) for each in table.column("item").to_pylist()]

    def persist(self) -> RemoteRows:
        """Return the rows, computed once and persisted on executors."""
        return RemoteRows(self._done().persist(), [])

    def coalesce(self, parts: int) -> RemoteRows:
        """Return the rows in at most this number of partitions, without a shuffle."""
        return RemoteRows(self._done().coalesce(parts), [])

    def unpersist(self) -> None:
        """See RDD."""
        self._frame.unpersist()

    def _then(self, step: Step) -> RemoteRows:
        return RemoteRows(self._frame, [*self._steps, step])

    def _done(self) -> DataFrame:
        if not self._steps:
            return self._frame
        return self._frame.mapInArrow(partial(_run, self._steps), _SCHEMA)


class SortedHere:
    """Sorted rows, in this process."""

    def __init__(self, items: list[Any]) -> None:
        self._items = items

    def toLocalIterator(self) -> Iterator[Any]:  # noqa: N802
        """See RDD."""
        return iter(self._items)


def open_remote(url: str) -> SparkSession:
    """Connect to a Spark Connect server. Raises PipelineError if that is not possible."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    remember_secrets([url])
    try:
        _check_reachable(url)
        session = SparkSession.builder.remote(url).getOrCreate()
        _ = session.version  # the first call opens the connection
    except (PySparkException, ValueError, OSError) as error:
        why = " ".join(str(error).split())
        raise PipelineError(f"Spark Connect at {shown_url(url)} can't be used: {why}") from None
    return session


def shown_url(url: str) -> str:
    """Return the URL without its parameters and credentials."""
    return redacted(url.partition(";")[0].rstrip("/"))


def _check_reachable(url: str) -> None:
    """Check that the server accepts connections: Spark's client would retry for ten minutes. Raises OSError, ValueError."""
    found = urlsplit(url)
    if found.scheme != "sc" or not found.hostname:
        raise ValueError("write it as sc://HOST:PORT")
    create_connection((found.hostname, found.port or _PORT), _CONNECT_SECONDS).close()


# -- on executors


def _packed(item: Any) -> bytes:
    return pickle.dumps(item, pickle.HIGHEST_PROTOCOL)


def _items(packed: tuple[bytes, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[Any]:
    for batch in batches:
        yield from _batches(pickle.loads(packed[n]) for n in batch.column(0).to_pylist())


def _run(steps: list[Step], batches: Iterator[pa.RecordBatch]) -> Iterator[Any]:
    items: Iterator[Any] = (
        pickle.loads(data) for batch in batches for data in batch.column("item").to_pylist()
    )
    for step in steps:
        items = step(items)
    yield from _batches(items)


def _batches(items: Iterator[Any]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    buckets: list[int] = []
    data: list[bytes] = []

    def batch() -> pa.RecordBatch:
        arrays = [pa.array(buckets, pa.int64()), pa.array(data, pa.binary())]
        return pa.RecordBatch.from_arrays(arrays, names=["bucket", "item"])

    for item in items:
        buckets.append(_bucket(item))
        data.append(_packed(item))
        if len(data) >= _ROWS_AT_ONCE or len(data[-1]) > 1 << 20:
            yield batch()
            buckets, data = [], []
    yield batch()


def _bucket(item: Any) -> int:
    """Return the bucket of an item's key: the key if it is a number, else the CRC-32 of its `repr`."""
    if not isinstance(item, tuple) or not item:
        return 0
    key = item[0]
    return key if isinstance(key, int) else crc32(repr(key).encode())


def _flat(function: Callable[[Any], Iterable[Any]], items: Iterator[Any]) -> Iterator[Any]:
    for item in items:
        yield from function(item)


def _each(function: Callable[[Any], Any], items: Iterator[Any]) -> Iterator[Any]:
    return map(function, items)


def _some(function: Callable[[Any], bool], items: Iterator[Any]) -> Iterator[Any]:
    return filter(function, items)


def _grouped(items: Iterator[Any]) -> Iterator[Any]:
    found = defaultdict(list)
    for key, value in items:
        found[key].append(value)
    yield from found.items()


def _value(keyed: tuple[Any, Any]) -> Any:
    return keyed[1]


def _with_value(function: Callable[[Any], Any], keyed: tuple[Any, Any]) -> Any:
    return keyed[0], function(keyed[1])


def _on_side(side: int, keyed: tuple[Any, Any]) -> Any:
    return keyed[0], (side, keyed[1])


def _both_sides(keyed: tuple[Any, list[tuple[int, Any]]]) -> Any:
    sides = dict(keyed[1])
    return keyed[0], (sides.get(0), sides.get(1))
