"""The state of a log, or what changed between two of its offsets, made on executors.

Tasks reduce spans of the log to deltas, cut into buckets by key; buckets are merged, each by itself; rows are made where
the bucket is. The driver decodes no record: it says who does what, joins summaries up, and finds out what is wrong first.

Owns the three steps, record by record: of short logs, and where compiled loops do not know all that is there (`squeezed_job.py`). What they do is in
`deltas` and `files.reduced_span`.
"""

from __future__ import annotations

import os
import pickle
import socket
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from heapq import merge
from typing import TYPE_CHECKING, Any, Protocol

from quorum_node.image.cluster_image import ClusterImage
from quorum_node.image.features import FeaturesImage
from quorum_node.records.control import VotersRecord
from quorum_node.records.metadata import (
    FeatureLevelRecord,
    RegisterBrokerRecord,
    encode_metadata,
    record_version,
)
from quorum_node.records.snapshot_format import SnapshotBounds, encode_snapshot
from quorum_node.records.snapshot_id import SnapshotId
from quorum_pipeline.deltas.buckets import Names, by_name, by_topic, drop_configs, merged, names_of
from quorum_pipeline.deltas.contradiction import Contradiction, first_of
from quorum_pipeline.deltas.rows import image_of
from quorum_pipeline.deltas.snapshot_order import placed
from quorum_pipeline.deltas.span import Span
from quorum_pipeline.deltas.summary import Summary
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.reduced_span import Task
from quorum_pipeline.state.difference import Difference, differences_of
from quorum_pipeline.state.replayed import KRAFT_VERSION_WITH_VOTERS, placed_in
from quorum_pipeline.state.tables import STATE_TABLES, Row, StateTable

if TYPE_CHECKING:
    from quorum_pipeline.spark.stages import Rows, Stages

_SUMMARY, TOPICS, NAMES = 0, 1, 2
_OF_TOPICS = frozenset(("topics", "partitions"))
_BY_NAME = {table.name: table for table in STATE_TABLES}
_TABLE_PLACE = {table.name: place for place, table in enumerate(STATE_TABLES)}
_VOTERS = _BY_NAME["voters"]
_FEW = 200_000
"""Rows that one process sorts as fast as Spark looks at where to cut them."""
Numbered = tuple[int, Task]


class LogPlan(Protocol):
    """What is read: `tasks` in order; `cuts`: how many of them lead to each moment; `start_offset`: where an empty one begins."""

    @property
    def name(self) -> str:
        """Of what is read."""

    @property
    def tasks(self) -> tuple[Any, ...]:
        """See above."""

    @property
    def cuts(self) -> tuple[int, ...]:
        """See above."""

    @property
    def start_offset(self) -> int:
        """See above."""

    def error(self, wrong: Contradiction) -> PipelineError:
        """What is wrong, with its place."""


@dataclass(frozen=True, slots=True)
class TaskDone:
    """What one task has read, and on which executor."""

    number: int
    summary: Summary
    executor: str


@dataclass(frozen=True, slots=True)
class Part:
    """A bucket of a state: what `state.tables` takes its rows from."""

    image: ClusterImage
    voters: VotersRecord | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one bucket: counts of rows by table, replicas by broker, what can't be in an image, and what is wrong."""

    counts: dict[str, int]
    replicas: dict[int, int]
    left_out: frozenset[str]
    levels: dict[str, int]
    nameless: list[int]
    in_transaction: bool
    wrong: Contradiction | None


class ReducedLog:
    """The deltas of a log's spans, made once; `state` merges as many of them as lead to a moment. To be closed."""

    def __init__(self, stages: Stages, plan: LogPlan, buckets: int) -> None:
        self._stages, self._plan = stages, plan
        self._buckets = buckets
        self._kept: list[Rows] = []
        numbered: list[Numbered] = list(enumerate(plan.tasks))
        stages.describe(f"reduce {len(numbered)} spans of {plan.name} record by record")
        reduced = stages.rows(numbered)
        self._reduced = self._keep(reduced.flatMap(partial(_reduce, buckets)))
        found = self._reduced.filter(is_summary).values().collect()
        self.done: list[TaskDone] = sorted(found, key=lambda each: each.number)

    def __enter__(self) -> ReducedLog:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._kept:
            each.unpersist()

    def state(self, cut: int = -1) -> SparkState:
        """At one of the moments that the tasks were planned for; the last one if none is named. Raises PipelineError."""
        until, parts = self._plan.cuts[cut], self._buckets
        summaries = [each.summary for each in self.done[:until]]
        last = joined_up(summaries, self._plan)
        self._stages.describe(f"merge deltas up to offset {last.end_offset} of {self._plan.name}")
        mine = self._reduced.filter(partial(_counts, until))
        by_topic_id = mine.filter(partial(_is, TOPICS)).map(_without_kind)
        topics = self._keep(by_topic_id.groupByKey(parts, same).mapValues(_merge_topics))
        about_names = topics.flatMap(partial(_tell_names, parts))
        others = mine.filter(partial(_is, NAMES)).map(_without_kind).union(about_names)
        names = self._keep(others.groupByKey(parts, same).mapValues(_merge_names))
        figures: list[Figures] = names.map(_figures_of_names).collect()
        nameless = frozenset(number for each in figures for number in each.nameless)
        figures += topics.map(partial(_figures_of_topics, nameless)).collect()
        wrong = first_of(last.wrong, *(each.wrong for each in figures))
        if wrong is not None:
            raise self._plan.error(wrong)
        is_open = any(each.in_transaction for each in figures)
        return SparkState(topics, names, figures, nameless, last, is_open)

    def _keep(self, found: Rows) -> Rows:
        kept = self._stages.keep(found)
        self._kept.append(kept)
        return kept


class SparkState:
    """A state whose rows are on executors. As `Replayed`, without its image."""

    def __init__(
        self,
        topics: Rows,
        names: Rows,
        figures: Sequence[Figures],
        nameless: frozenset[int],
        last: Summary,
        in_transaction: bool,
        latest_ms: int = 0,
    ) -> None:
        self._topics, self._names = topics, names
        self._nameless = nameless
        self._last = last
        self.end_offset, self.epoch, self.timestamp_ms = (
            last.end_offset,
            last.epoch,
            last.timestamp_ms,
        )
        self.voters = last.voters
        self.in_transaction = in_transaction
        self.latest_ms = latest_ms
        """The greatest time before it, if compiled loops have made it."""
        self.left_out = frozenset().union(*(each.left_out for each in figures))
        self._counts = sum((Counter(each.counts) for each in figures), Counter[str]())
        self._replicas = sum((Counter(each.replicas) for each in figures), Counter[int]())
        self._levels = {name: level for each in figures for name, level in each.levels.items()}

    @property
    def id(self) -> SnapshotId:
        """The name of the snapshot of this state."""
        return SnapshotId(self.end_offset, self.epoch)

    def count(self, table: StateTable) -> int:
        """How many rows a table has."""
        if table.name == "voters":
            return table.count(self._driven())
        return self._counts[table.name]

    def rows(self, table: StateTable) -> Iterator[Row]:
        """Of one table, in order; as many at a time as are in one part."""
        if table.name == "voters":
            return table.rows(self._driven())
        if not self.count(table):
            return iter(())
        found = self.parts(table).flatMap(
            partial(_rows, table.name, self._nameless, self._replicas)
        )
        return _in_order(found.map(partial(_with_order, table.name)), self.count(table))

    def parts(self, table: StateTable) -> Rows:
        """The buckets that a table is in, by number."""
        return self._topics if table.name in _OF_TOPICS else self._names

    @property
    def summary(self) -> Summary:
        """What of it is not about keys."""
        return self._last

    def buckets(self) -> Rows:
        """All parts, packed, each with its number; those of topics and those of names have the same ones."""
        return self._topics.union(self._names)

    def digest(self, number_of: Callable[[bytes], int]) -> int:
        """The sum of a number for each record of its snapshot, modulo 2^64."""
        mine = partial(_digest, number_of, self._levels, self._nameless)
        return int(sum(self.buckets().flatMap(mine).collect())) % (1 << 64)

    def differences(self, before: SparkState) -> Iterator[Difference]:
        """What changed since another state of the same log, table by table, found where the rows are."""
        sides = ((before._nameless, before._replicas), (self._nameless, self._replicas))
        names = [table.name for table in STATE_TABLES if table.name != "voters"]
        about_topics = tuple(each for each in names if each in _OF_TOPICS)
        others = tuple(each for each in names if each not in _OF_TOPICS)
        topics = before._topics.fullOuterJoin(self._topics)
        rest = before._names.fullOuterJoin(self._names)
        found = topics.flatMap(partial(_differences, about_topics, sides)).union(
            rest.flatMap(partial(_differences, others, sides))
        )
        count = sum(before._counts.values()) + sum(self._counts.values())
        of_voters = list(differences_of(_VOTERS, before.rows(_VOTERS), self.rows(_VOTERS)))
        return merge(_in_order(found, count), of_voters, key=lambda each: _TABLE_PLACE[each.table])

    def brokers(self) -> list[RegisterBrokerRecord]:
        """Their registrations, by number."""
        found = self._names.flatMap(partial(_brokers, self._nameless)).collect()
        return sorted(found, key=lambda each: each.broker_id)

    def placed(self) -> Iterator[tuple[str, int, tuple[int, ...]]]:
        """Topic, number and replicas of each partition, without those that are leaving; in order."""
        found = self._topics.flatMap(partial(_placed, self._nameless))
        return _in_order(found, self._counts["partitions"])

    def begin_anew(self) -> None:
        """As `Replayed`."""
        self.epoch = min(self.epoch, 1)

    def snapshot(self, voters: VotersRecord | None = None) -> Iterator[bytes]:
        """The bytes of the snapshot of this state, with other `voters` if they are given. Raises PipelineError if there can be none."""
        if self.left_out:
            kinds = ", ".join(sorted(self.left_out))
            raise PipelineError(f"a snapshot would lose records that are not known: {kinds}")
        if self.in_transaction:
            raise PipelineError(f"a metadata transaction is open at offset {self.end_offset}")
        last = self._last
        level = KRAFT_VERSION_WITH_VOTERS if last.kraft_version is None else last.kraft_version
        bounds = SnapshotBounds(last.timestamp_ms, level, _told_voters(last))
        if voters is not None:
            bounds = SnapshotBounds(last.timestamp_ms, KRAFT_VERSION_WITH_VOTERS, voters)
        keyed: Rows = self.buckets().flatMap(
            partial(_snapshot_values, self._levels, self._nameless)
        )
        values = _in_order(keyed, sum(self._counts.values()))
        return encode_snapshot(self.id, bounds, values)

    def _driven(self) -> Part:
        return Part(ClusterImage(), self.voters)


def _in_order(keyed: Rows, count: int) -> Iterator[Any]:
    """What is sorted by its key; `count`: how many there are, or more. Few are sorted here, many on executors and read part by part."""
    if count <= _FEW:
        return (each for _, each in sorted(keyed.collect(), key=lambda pair: pair[0]))
    return (each for _, each in keyed.sortByKey().toLocalIterator())


def joined_up(summaries: Sequence[Summary], plan: LogPlan) -> Summary:
    """All of them as one."""
    if not summaries:
        return Summary(plan.start_offset, plan.start_offset)
    found = summaries[0]
    for each in summaries[1:]:
        found = found.then(each)
    return found


def _told_voters(last: Summary) -> VotersRecord | None:
    """As `Replayed` tells them."""
    voters = last.voters
    if voters is None or voters.initial_voters is None or not last.has_formed:
        return voters
    return replace(voters, initial_voters=min(voters.initial_voters, len(voters.voters)))


# -- on executors


def _reduce(buckets: int, numbered: Numbered) -> Iterator[tuple[Any, Any]]:
    number, task = numbered
    span, summary = task.reduced()
    yield summary_key(number), TaskDone(number, summary, where())
    for kind, cut in ((TOPICS, by_topic), (NAMES, by_name)):
        for bucket, part in enumerate(cut(span, buckets)):
            yield (kind, bucket, number), packed(part)


def summary_key(number: int) -> tuple[int, int, int]:
    """Of what a task says of itself."""
    return _SUMMARY, 0, number


def where() -> str:
    """Workers of one executor are forked from one process."""
    return f"{socket.gethostname()}/{os.getppid()}"


def is_summary(keyed: tuple[tuple[int, ...], Any]) -> bool:
    """Beside the parts of buckets."""
    return keyed[0][0] == _SUMMARY


def _counts(until: int, keyed: tuple[tuple[int, int, int], Any]) -> bool:
    return keyed[0][2] < until


def _is(kind: int, keyed: tuple[tuple[int, int, int], Any]) -> bool:
    return keyed[0][0] == kind


def _without_kind(keyed: tuple[tuple[int, int, int], Any]) -> tuple[int, tuple[int, Any]]:
    (_, bucket, number), value = keyed
    return bucket, (number, value)


def same(bucket: int) -> int:
    """Where a bucket is merged."""
    return bucket


def _merged(parts: Iterable[tuple[int, bytes]]) -> Span:
    return merged(unpacked(data) for _, data in sorted(parts, key=lambda each: each[0]))


def _merge_topics(parts: Iterable[tuple[int, bytes]]) -> bytes:
    return packed((_merged(parts).finish(), []))


def _tell_names(buckets: int, keyed: tuple[int, bytes]) -> Iterator[tuple[int, tuple[int, Any]]]:
    outcome, _ = unpacked(keyed[1])
    for bucket, names in enumerate(names_of(outcome.delta, buckets)):
        yield bucket, (-1, names)


def _merge_names(parts: Iterable[tuple[int, Any]]) -> bytes:
    spans, names, nameless = [], Names(), list[int]()
    for number, part in parts:
        if isinstance(part, Names):
            nameless += names.add(part)
        else:
            spans.append((number, part))
    outcome = _merged(spans).finish()
    drop_configs(outcome.delta, names)
    return packed((outcome, nameless))


def _image(nameless: frozenset[int], data: bytes) -> ClusterImage:
    found = unpacked(data)
    if not isinstance(found, tuple):
        # Of compiled loops, whose modules are not needed for what objects do.
        image: ClusterImage = getattr(found, "state", found).image()
        return image
    outcome, _ = found
    for number in nameless:
        outcome.delta.topics.pop(number, None)
    named = outcome.delta.named
    outcome.delta.named = {n: taker for n, taker in named.items() if taker[1] not in nameless}
    return image_of(outcome.delta)


def _figures_of_topics(nameless: frozenset[int], keyed: tuple[int, bytes]) -> Figures:
    outcome, _ = unpacked(keyed[1])
    if outcome.wrong is not None:
        return Figures({}, {}, frozenset(), {}, [], False, outcome.wrong)
    image = _image(nameless, keyed[1])
    counts = {name: _BY_NAME[name].count(Part(image)) for name in _OF_TOPICS}
    replicas = {
        each: image.topics.replica_count(each) for each in image.topics.of_brokers.brokers()
    }
    return Figures(counts, replicas, frozenset(), {}, [], outcome.in_transaction, None)


def _figures_of_names(keyed: tuple[int, bytes]) -> Figures:
    outcome, nameless = unpacked(keyed[1])
    image = image_of(outcome.delta)
    return Figures(
        counts_of_names(image),
        {},
        image.left_out,
        dict(image.features.levels),
        nameless,
        outcome.in_transaction,
        outcome.wrong,
    )


def counts_of_names(image: ClusterImage) -> dict[str, int]:
    """Rows of the tables that are not about topics."""
    return {
        table.name: table.count(Part(image))
        for table in STATE_TABLES
        if table.name not in _OF_TOPICS and table.name != "voters"
    }


def _rows(
    name: str, nameless: frozenset[int], replicas: Counter[int], keyed: tuple[int, bytes]
) -> Iterator[Row]:
    for row in _BY_NAME[name].rows(Part(_image(nameless, keyed[1]))):
        if name == "brokers":
            row["replicas"] = replicas[row["broker_id"]]
        yield row


def _brokers(nameless: frozenset[int], keyed: tuple[int, bytes]) -> Iterator[RegisterBrokerRecord]:
    yield from _image(nameless, keyed[1]).brokers.by_id.values()


def _placed(
    nameless: frozenset[int], keyed: tuple[int, bytes]
) -> Iterator[tuple[tuple[str, int], tuple[str, int, tuple[int, ...]]]]:
    for name, number, replicas in placed_in(_image(nameless, keyed[1])):
        yield (name, number), (name, number, replicas)


def _with_order(name: str, row: Row) -> tuple[tuple[Any, ...], Row]:
    return _BY_NAME[name].order(row), row


def _differences(
    names: tuple[str, ...],
    sides: tuple[tuple[frozenset[int], Counter[int]], tuple[frozenset[int], Counter[int]]],
    pair: tuple[int, tuple[bytes | None, bytes | None]],
) -> Iterator[tuple[tuple[Any, ...], Difference]]:
    """Of these tables in one bucket: what is gone comes last in each."""
    bucket, both = pair
    for name in names:
        table = _BY_NAME[name]
        rows = [
            iter(()) if each is None else _rows(name, *side, (bucket, each))
            for side, each in zip(sides, both, strict=True)
        ]
        for each in differences_of(table, *rows):
            row = each.before if each.after is None else each.after
            assert row is not None, "one of the two is there"
            yield (_TABLE_PLACE[name], each.after is None, *table.order(row)), each


def _snapshot_values(
    levels: dict[str, int], nameless: frozenset[int], keyed: tuple[int, bytes]
) -> Iterator[tuple[tuple[Any, ...], bytes]]:
    """Of one bucket; the finalized level says at which versions."""
    features = FeaturesImage().levels.update(levels)
    image = _image(nameless, keyed[1])
    mine = dict(image.features.levels)
    image = replace(image, features=FeaturesImage(features))
    level = image.features.metadata_version
    for place, record in placed(image.snapshot_messages()):
        if isinstance(record, FeatureLevelRecord) and record.name not in mine:
            continue  # another bucket's
        yield place, encode_metadata(record, record_version(type(record), level))


def _digest(
    number_of: Callable[[bytes], int],
    levels: dict[str, int],
    nameless: frozenset[int],
    keyed: tuple[int, bytes],
) -> Iterator[int]:
    yield sum(number_of(value) for _, value in _snapshot_values(levels, nameless, keyed))


def packed(found: Any, level: int = 1) -> bytes:
    """For another process; `level`: of compression, 0 where that was done already."""
    return zlib.compress(pickle.dumps(found, pickle.HIGHEST_PROTOCOL), level)


def unpacked(data: bytes) -> Any:
    """What was packed."""
    return pickle.loads(zlib.decompress(data))
