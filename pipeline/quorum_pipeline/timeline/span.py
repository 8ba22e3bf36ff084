"""The input of a timeline from a span of the log: edges of partitions, topics, brokers, control records. PURE.

Records of a metadata transaction take effect when it ends, each at its own offset, and never if it is aborted; control
records take effect immediately. It is unknown whether a transaction is open where the span begins, so records before
the first boundary are kept separately, as in `state/compiled_span.py`. The input is rows as columns, from a log or an
archive.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from quorum_node.records import metadata as md
from quorum_node.records.metadata import record_type_name
from quorum_pipeline.deltas import shards
from quorum_pipeline.deltas.pieces import BODY, HEAD, PIECES, TAIL
from quorum_pipeline.deltas.span import Boundary
from quorum_pipeline.timeline.cluster import BROKER_RECORDS
from quorum_pipeline.timeline.edges import (
    PARTITION_COLUMNS,
    SCHEMA,
    change_edges,
    partition_edges,
    without_repetitions,
)
from quorum_pipeline.timeline.partitions import CREATED_TOPICS, REMOVED_TOPICS

_NAMES = {
    cls: record_type_name(cls.RECORD_TYPE)
    for cls in (
        *BROKER_RECORDS,
        md.BeginTransactionRecord,
        md.EndTransactionRecord,
        md.AbortTransactionRecord,
    )
}
_BROKER_NAMES = pa.array([_NAMES[each] for each in BROKER_RECORDS])
_BOUNDARY_NAMES = pa.array(
    [
        _NAMES[each]
        for each in (md.BeginTransactionRecord, md.EndTransactionRecord, md.AbortTransactionRecord)
    ]
)
_Numbers = npt.NDArray[np.int64]
_WORTH_ROWS, _TIMES_LEFT = 250_000, 2


def _struct(columns: Mapping[str, str]) -> str:
    return "struct<" + ",".join(f"`{name}`:{kind}" for name, kind in columns.items()) + ">"


COLUMNS = {
    "offset": "bigint", "epoch": "int", "timestamp": "timestamp", "control": "boolean", "type": "string",
    "record_key": "binary", "value": "binary",
    "partition": _struct(PARTITION_COLUMNS), "partition_change": _struct(PARTITION_COLUMNS),
    "topic": _struct({"topic_id": "string", "name": "string"}),
    "remove_topic": _struct({"topic_id": "string"}),
}  # fmt: skip
"""Columns that are read of a record."""


@dataclass(frozen=True, slots=True)
class EncodedRecord:
    """An encoded control record or broker record. `before_ms`: time of the previous record in the span; None: it is the first."""

    offset: int
    epoch: int
    time_ms: int
    key: bytes | None
    value: bytes | None
    before_ms: int | None = None
    known: bool = False
    """Whether it comes from a snapshot."""


@dataclass(slots=True)
class Part:
    """The content of a piece of a span: tables by topic, and records of brokers."""

    edges: pa.Table = field(default_factory=SCHEMA.empty_table)
    created: list[pa.Table] = field(default_factory=list)
    removed: list[pa.Table] = field(default_factory=list)
    brokers: list[EncodedRecord] = field(default_factory=list)
    waiting: list[pa.Table] = field(default_factory=list)

    def add(self, other: "Part") -> None:
        """Append the part that follows."""
        self.waiting += [other.edges, *other.waiting]
        self.created += other.created
        self.removed += other.removed
        self.brokers += other.brokers
        if sum(map(len, self.waiting)) >= max(_WORTH_ROWS, _TIMES_LEFT * len(self.edges)):
            self.drop_repetitions()

    def drop_repetitions(self) -> None:
        """Drop repeated edges."""
        created, removed = (
            pa.concat_tables([schema.empty_table(), *tables])
            for schema, tables in ((CREATED_TOPICS, self.created), (REMOVED_TOPICS, self.removed))
        )
        self.edges = without_repetitions(
            pa.concat_tables([self.edges, *self.waiting]), created, removed
        )
        self.waiting = []

    def __len__(self) -> int:
        return (
            len(self.edges)
            + sum(map(len, (*self.created, *self.removed, *self.waiting)))
            + len(self.brokers)
        )

    def cut(self, buckets: int) -> Iterator["Part"]:
        """Yield one part per bucket; tables are partitioned by topic, and all brokers are in bucket 0."""
        self.drop_repetitions()
        cuts = [
            list(_cut(table, buckets))
            for table in (
                self.edges,
                pa.concat_tables([CREATED_TOPICS.empty_table(), *self.created]),
                pa.concat_tables([REMOVED_TOPICS.empty_table(), *self.removed]),
            )
        ]
        for bucket, (edges, created, removed) in enumerate(zip(*cuts, strict=True)):
            # All records of one broker must be in one part; they are few.
            brokers = self.brokers if bucket == 0 else []
            yield Part(edges, [created], [removed], brokers)

    def large_topics(self, known: Mapping[str, int]) -> dict[str, int]:
        """Return the highest range of partitions of each large topic, by the text of its id (`deltas/shards.py`); `known`: of
        other parts.
        """
        found = dict(known)
        numbers, topics = self.edges.column("partition").to_numpy(), self.edges.column("topic")
        large = np.flatnonzero(numbers >= shards.SHARD_PARTITIONS)
        for topic, number in zip(
            topics.take(large).to_pylist(), numbers[large].tolist(), strict=True
        ):
            found[topic] = max(shards.range_of(number), found.get(topic, 0))
        return found

    def by_shard(self, counts: Mapping[str, int]) -> Iterator["Part"]:
        """Yield one part per shard, the home first. `counts`: number of shards of its large topics."""
        ranges = np.maximum(self.edges.column("partition").to_numpy(), 0) // shards.SHARD_PARTITIONS
        mine = ranges % _counts(self.edges, counts)
        for shard in range(max(counts.values())):
            created, removed = (
                [each.filter(pa.array(_counts(each, counts) > shard)) for each in tables]
                for tables in (self.created, self.removed)
            )
            edges = self.edges.filter(pa.array(mine == shard)).combine_chunks()
            yield Part(edges, created, removed, [] if shard else self.brokers)


def home_of(buckets: int, topic: str) -> int:
    """Return the bucket of a topic, equal in every process."""
    return crc32(topic.encode()) % buckets


def _counts(table: pa.Table, counts: Mapping[str, int]) -> _Numbers:
    """Return the number of shards of the topic of each row."""
    topics = _topics(table)
    of_topic = np.array([counts.get(each, 1) for each in topics.dictionary.to_pylist()], np.int64)
    found: _Numbers = of_topic[topics.indices.to_numpy()]
    return found


def _topics(table: pa.Table) -> pa.DictionaryArray:
    return pa.concat_arrays(
        [pa.array([], pa.string()), *table.column("topic").chunks]
    ).dictionary_encode()


def _cut(table: pa.Table, buckets: int) -> Iterator[pa.Table]:
    topics = _topics(table)
    of_topic = np.array(
        [home_of(buckets, each) for each in topics.dictionary.to_pylist()], np.int64
    )
    mine = of_topic[topics.indices.to_numpy()]
    for bucket in range(buckets):
        yield table.filter(pa.array(mine == bucket)).combine_chunks()


@dataclass(slots=True)
class TimelineSpan:
    """Reads rows with COLUMNS, in order. `controls` take effect immediately, even within a transaction."""

    boundary: Boundary | None = None
    is_open: bool = False
    controls: list[EncodedRecord] = field(default_factory=list)
    pieces: list[Part] = field(default_factory=lambda: [Part() for _ in PIECES])
    records: int = 0
    first: tuple[int, int] | None = None
    """Offset and time of the first record."""
    last: tuple[int, int] | None = None

    def add(self, rows: pa.RecordBatch) -> None:
        """Read the next rows; offsets are ascending."""
        if not len(rows):
            return
        offsets = rows.column("offset")
        times = pc.fill_null(rows.column("timestamp").cast(pa.int64()), 0).to_numpy() // 1000
        self._control(rows, times)
        begin = 0
        boundaries = np.flatnonzero(
            np.asarray(pc.fill_null(pc.is_in(rows.column("type"), _BOUNDARY_NAMES), False))
        )
        for index in boundaries.tolist():
            self._metadata(rows.slice(begin, index - begin), times[begin:index])
            self._pass(rows.column("type")[index].as_py(), offsets[index].as_py())
            begin = index + 1
        self._metadata(rows.slice(begin), times[begin:])
        ends = (0, len(rows) - 1)
        first, self.last = ((offsets[row].as_py(), int(times[row])) for row in ends)
        self.first = self.first or first
        self.records += len(rows)

    def _control(self, rows: pa.RecordBatch, times: _Numbers) -> None:
        which = np.flatnonzero(np.asarray(pc.fill_null(rows.column("control"), False)))
        for index, encoded in zip(which.tolist(), _encoded(rows, which, times), strict=True):
            before = int(times[index - 1]) if index else self.last and self.last[1]
            self.controls.append(EncodedRecord(*encoded, before))

    def _metadata(self, rows: pa.RecordBatch, times: _Numbers) -> None:
        if not len(rows):
            return
        place = HEAD if self.boundary is None else TAIL if self.is_open else BODY
        found = Part(waiting=list(_edges(rows, times)))
        for name, schema, tables in (
            ("topic", CREATED_TOPICS, found.created),
            ("remove_topic", REMOVED_TOPICS, found.removed),
        ):
            some = _typed(rows, name, times)
            if some is not None:
                records, offsets, times_ms = some
                named = [records.field("name")] if "name" in schema.names else []
                tables.append(
                    pa.table([records.field("topic_id"), offsets, times_ms, *named], schema=schema)
                )
        brokers = np.flatnonzero(
            np.asarray(pc.fill_null(pc.is_in(rows.column("type"), _BROKER_NAMES), False))
        )
        found.brokers = [EncodedRecord(*each) for each in _encoded(rows, brokers, times)]
        self.pieces[place].add(found)

    def _pass(self, name: str, offset: int) -> None:
        ends = name == _NAMES[md.EndTransactionRecord]
        if self.boundary is None:
            self.boundary = Boundary(offset, ends)
        elif self.is_open and ends:
            self.pieces[BODY].add(self.pieces[TAIL])
        self.pieces[TAIL] = Part()
        self.is_open = name == _NAMES[md.BeginTransactionRecord]


def _encoded(
    rows: pa.RecordBatch,
    which: _Numbers,
    times: _Numbers,
) -> Iterable[tuple[int, int, int, bytes | None, bytes | None]]:
    if not len(which):
        return ()
    chosen = pa.array(which)
    offsets, epochs, keys, values = (
        rows.column(name).take(chosen).to_pylist()
        for name in ("offset", "epoch", "record_key", "value")
    )
    return zip(offsets, epochs, times[which].tolist(), keys, values, strict=True)


def _edges(rows: pa.RecordBatch, times: _Numbers) -> Iterator[pa.Table]:
    for name, edges_of in (("partition", partition_edges), ("partition_change", change_edges)):
        found = _typed(rows, name, times)
        if found is not None:
            yield edges_of(*found)


def _typed(
    rows: pa.RecordBatch, name: str, times: _Numbers
) -> tuple[pa.StructArray, pa.Array, pa.Array] | None:
    """Return the records of one type, their offsets and times (ms), or None if there are none."""
    column = rows.column(name)
    if column.null_count == len(column):
        return None
    which = pa.array(np.flatnonzero(np.asarray(column.is_valid())))
    return column.take(which), rows.column("offset").take(which), pa.array(times).take(which)
