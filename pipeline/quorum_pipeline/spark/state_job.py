"""The state of a log, or the difference of two offsets, computed on executors.

Tasks reduce spans of the log to deltas, partitioned by key; buckets are merged independently, and rows are made on the
bucket's executor. The driver decodes no record: it schedules, joins summaries, and determines the first error. This
module does the three steps record by record, for short logs and for records that compiled loops don't support
(`compacted_job.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import merge
from typing import TYPE_CHECKING, Any, Protocol

from quorum_node.image.cluster_image import ClusterImage
from quorum_node.records.control import VotersRecord
from quorum_node.records.metadata import (
    RegisterBrokerRecord,
)
from quorum_node.records.snapshot_format import SnapshotBounds, encode_snapshot
from quorum_node.records.snapshot_id import SnapshotId
from quorum_pipeline.deltas.buckets import (
    Names,
    by_name,
    by_shard,
    by_topic,
    drop_configs,
    large_topics,
    merged,
    names_of,
)
from quorum_pipeline.deltas.contradiction import Contradiction, first_of
from quorum_pipeline.deltas.shards import homes_of_ids, is_shard, key_of, place_of
from quorum_pipeline.deltas.span import Span
from quorum_pipeline.deltas.summary import Summary
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.reduced_span import Task
from quorum_pipeline.spark.state_parts import (
    OF_TOPICS,
    TABLE_PLACE,
    Figures,
    Part,
    Whole,
    brokers_of,
    differences_in,
    digest_of,
    figures_of_names,
    figures_of_topics,
    of_values,
    packed,
    placed_of,
    rows_of,
    snapshot_values,
    unpacked,
    with_order,
)
from quorum_pipeline.spark.task_results import (
    TaskResult,
    parts_of,
    result_row,
    results_of,
    where,
)
from quorum_pipeline.state.difference import Difference, differences_of
from quorum_pipeline.state.tables import STATE_TABLES, Row, StateTable

if TYPE_CHECKING:
    from quorum_pipeline.spark.stages import Rows, Stages

KRAFT_VERSION_WITH_VOTERS = 1
"""Also of a log without a record of the version: this project's nodes have voters in the log from the beginning."""
TOPICS, NAMES = 1, 2
_BY_NAME = {table.name: table for table in STATE_TABLES}
_VOTERS = _BY_NAME["voters"]
_FEW = 200_000
"""Number of rows that one process sorts in the time that Spark needs to determine the partitions of a sort."""
Numbered = tuple[int, Task]


class LogPlan(Protocol):
    """What to read. `tasks`: in order of offsets; `cuts`: how many of them are before each moment; `start_offset`: offset of
    the state if there are no tasks.
    """

    @property
    def name(self) -> str:
        """Name of the log, archive or snapshot."""

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
        """Return the error for a contradiction, with its place."""


@dataclass(frozen=True, slots=True)
class TaskDone(TaskResult):
    """The result of one task. `large`: highest range of each large topic, by topic id (`deltas/shards.py`)."""

    summary: Summary
    large: Mapping[int, int] = field(default_factory=dict, kw_only=True)


class ReducedLog:
    """The deltas of a log's spans, computed once; `state` merges those before a moment. To be closed."""

    def __init__(self, stages: Stages, plan: LogPlan, buckets: int) -> None:
        self._stages, self._plan = stages, plan
        self._buckets = buckets
        self._persisted: list[Rows] = []
        numbered: list[Numbered] = list(enumerate(plan.tasks))
        stages.describe(f"reduce {len(numbered)} spans of {plan.name} record by record")
        reduced = stages.parallelize(numbered)
        self._reduced = self._persist(reduced.flatMap(partial(_reduce, buckets)))
        self.done: list[TaskDone] = results_of(self._reduced)
        # The same for all states, so that buckets of two states have the same keys.
        self._shards = homes_of_ids((each.large for each in self.done), buckets)

    def __enter__(self) -> ReducedLog:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._persisted:
            each.unpersist()

    def state(self, cut: int = -1) -> SparkState:
        """Return the state at one of the planned moments, by default the last. Raises PipelineError."""
        until, parts = self._plan.cuts[cut], self._buckets
        errors = [each.error for each in self.done[:until] if each.error is not None]
        if errors:
            raise PipelineError(errors[0])
        summaries = [each.summary for each in self.done[:until]]
        last = joined_up(summaries, self._plan)
        self._stages.describe(f"merge deltas up to offset {last.end_offset} of {self._plan.name}")
        mine = parts_of(self._stages.coalesce(self._reduced), range(until))
        mine = mine.filter(partial(_is_before, until))
        of_topics = mine.filter(partial(_is, TOPICS))
        if self._shards:
            of_topics = of_topics.flatMap(partial(_split, self._shards, parts))
        grouped = of_topics.map(_without_kind).groupByKey(parts, partial(place_of, parts))
        topics = self._persist(grouped.mapValues(_merge_topics))
        about_names = topics.flatMap(partial(_report_names, parts))
        others = mine.filter(partial(_is, NAMES)).map(_without_kind).union(about_names)
        names = self._persist(others.groupByKey(parts, same).mapValues(_merge_names))
        figures: list[Figures] = names.map(figures_of_names).collect()
        nameless = frozenset(number for each in figures for number in each.nameless)
        figures += topics.map(partial(figures_of_topics, nameless)).collect()
        wrong = first_of(last.wrong, *(each.wrong for each in figures))
        if wrong is not None:
            raise self._plan.error(wrong)
        is_open = any(each.in_transaction for each in figures)
        return SparkState(topics, names, figures, nameless, last, is_open)

    def _persist(self, found: Rows) -> Rows:
        persisted = self._stages.persist(found)
        self._persisted.append(persisted)
        return persisted


class SparkState:
    """A state whose rows are on executors. Its snapshot is byte for byte the one that a node would write (K595-30)."""

    def __init__(
        self,
        topics: Rows,
        names: Rows,
        figures: Sequence[Figures],
        nameless: frozenset[int],
        last: Summary,
        in_transaction: bool,
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
        self.left_out = frozenset().union(*(each.left_out for each in figures))
        self._counts = sum((Counter(each.counts) for each in figures), Counter[str]())
        replicas = sum((Counter(each.replicas) for each in figures), Counter[int]())
        in_shards = sum((Counter(each.in_shards) for each in figures), Counter[str]())
        self._whole = Whole(nameless, replicas, in_shards)
        self._levels = {name: level for each in figures for name, level in each.levels.items()}

    @property
    def id(self) -> SnapshotId:
        """The name of the snapshot of this state."""
        return SnapshotId(self.end_offset, self.epoch)

    def count(self, table: StateTable) -> int:
        """Return the number of rows of a table."""
        if table.name == "voters":
            return table.count(self._driven())
        return self._counts[table.name]

    def rows(self, table: StateTable) -> Iterator[Row]:
        """Yield the rows of a table in order, from one partition at a time."""
        if table.name == "voters":
            return table.rows(self._driven())
        if not self.count(table):
            return iter(())
        keyed = self.table_rows(table).map(partial(with_order, table.name))
        return _in_order(keyed, self.count(table))

    def table_rows(self, table: StateTable) -> Rows:
        """Return the rows of a table other than `voters`, on executors, unordered."""
        return self.parts(table).flatMap(partial(rows_of, table.name, self._whole))

    def parts(self, table: StateTable) -> Rows:
        """Return the buckets that contain a table, by number."""
        return self._topics if table.name in OF_TOPICS else self._names

    @property
    def summary(self) -> Summary:
        """The part of the state that has no keys: offsets, epoch, time and voters."""
        return self._last

    def buckets(self) -> Rows:
        """Return all buckets, packed, by key; buckets of topics and of names have the same keys, except shards."""
        return self._topics.union(self._names)

    @property
    def has_shards(self) -> bool:
        """Whether partitions of large topics are in shards."""
        return bool(self._whole.in_shards)

    def digest(self, number_of: Callable[[bytes], int]) -> int:
        """Return the sum of `number_of` over the records of its snapshot, modulo 2^64."""
        mine = partial(digest_of, number_of, self._levels, self._nameless)
        return int(sum(self.buckets().flatMap(mine).collect())) % (1 << 64)

    def of_values(self, function: Callable[[Iterator[bytes]], Iterable[Any]]) -> Rows:
        """Apply a function to the snapshot records of each bucket, which are in order; return its results."""
        return self.buckets().flatMap(partial(of_values, function, self._levels, self._nameless))

    def differences(
        self, before: SparkState, tables: Sequence[StateTable] = STATE_TABLES
    ) -> Iterator[Difference]:
        """Yield the differences from an earlier state of the same log, table by table, computed on executors."""
        found = self.difference_rows(before, tables)
        count = sum(before._counts.values()) + sum(self._counts.values())
        wanted = [_VOTERS] if _VOTERS in tables else []
        of_voters = [
            each for t in wanted for each in differences_of(t, before.rows(t), self.rows(t))
        ]
        return merge(_in_order(found, count), of_voters, key=lambda each: TABLE_PLACE[each.table])

    def difference_rows(self, before: SparkState, tables: Sequence[StateTable]) -> Rows:
        """Return the same differences without those of `voters`, on executors, keyed by their order."""
        sides = (before._whole, self._whole)
        names = [table.name for table in tables if table is not _VOTERS]
        about_topics = tuple(each for each in names if each in OF_TOPICS)
        others = tuple(each for each in names if each not in OF_TOPICS)
        topics = before._topics.fullOuterJoin(self._topics)
        rest = before._names.fullOuterJoin(self._names)
        return topics.flatMap(partial(differences_in, about_topics, sides)).union(
            rest.flatMap(partial(differences_in, others, sides))
        )

    def brokers(self) -> list[RegisterBrokerRecord]:
        """Return the registrations of brokers, sorted by id."""
        found = self._names.flatMap(partial(brokers_of, self._nameless)).collect()
        return sorted(found, key=lambda each: each.broker_id)

    def placed(self) -> Iterator[tuple[str, int, tuple[int, ...]]]:
        """Yield topic, number and replicas of each partition, in order, without replicas that are being removed."""
        found = self._topics.flatMap(partial(placed_of, self._nameless))
        return _in_order(found, self._counts["partitions"])

    def reset_epochs(self) -> None:
        """Reset the epoch for a new cluster, whose nodes have no old epochs."""
        self.epoch = min(self.epoch, 1)

    def snapshot(self, voters: VotersRecord | None = None) -> Iterator[bytes]:
        """Yield the bytes of the snapshot of this state, with other `voters` if they are given.

        Raises PipelineError if the state can't be a snapshot.
        """
        if self.left_out:
            kinds = ", ".join(sorted(self.left_out))
            raise PipelineError(
                f"a snapshot would lose unknown records: {kinds}. Use a version of this program that knows them"
            )
        if self.in_transaction:
            raise PipelineError(
                f"a metadata transaction is open at offset {self.end_offset}: choose an earlier offset (--at-offset)"
            )
        last = self._last
        level = KRAFT_VERSION_WITH_VOTERS if last.kraft_version is None else last.kraft_version
        bounds = SnapshotBounds(last.timestamp_ms, level, _snapshot_voters(last))
        if voters is not None:
            bounds = SnapshotBounds(last.timestamp_ms, KRAFT_VERSION_WITH_VOTERS, voters)
        keyed: Rows = self.buckets().flatMap(partial(snapshot_values, self._levels, self._nameless))
        values = _in_order(keyed, sum(self._counts.values()))
        return encode_snapshot(self.id, bounds, values)

    def _driven(self) -> Part:
        return Part(ClusterImage(), self.voters)


def _in_order(keyed: Rows, count: int) -> Iterator[Any]:
    """Sort rows by key. `count`: upper bound of their number. Few are sorted here; many are sorted on executors and read
    partition by partition.
    """
    if count <= _FEW:
        return (each for _, each in sorted(keyed.collect(), key=lambda pair: pair[0]))
    return (each for _, each in keyed.sortByKey().toLocalIterator())


def joined_up(summaries: Sequence[Summary], plan: LogPlan) -> Summary:
    """Join summaries into one; without any, return that of an empty log. A missing or repeated offset is a contradiction in it."""
    found = Summary(plan.start_offset, plan.start_offset)
    if summaries and summaries[0].start_offset == summaries[0].end_offset:
        found, *summaries = summaries  # a snapshot or a whole state, before which there is nothing
    for each in summaries:
        found = found.then(each)
    return found


def _snapshot_voters(last: Summary) -> VotersRecord | None:
    """Return the voters as in a node's snapshot: a new member must see that a quorum that has shrunk had formed before."""
    voters = last.voters
    if voters is None or voters.initial_voters is None or not last.has_formed:
        return voters
    return replace(voters, initial_voters=min(voters.initial_voters, len(voters.voters)))


# -- on executors


def _reduce(buckets: int, numbered: Numbered) -> Iterator[tuple[Any, Any]]:
    number, task = numbered
    try:
        span, summary = task.reduced()
    except PipelineError as error:
        yield result_row(TaskDone(number, where(), Summary(0, 0), error=str(error)))
        return
    yield result_row(TaskDone(number, where(), summary, large=large_topics(span)))
    for kind, cut in ((TOPICS, by_topic), (NAMES, by_name)):
        for bucket, part in enumerate(cut(span, buckets)):
            yield (kind, bucket, number), packed(part)


def _is_before(until: int, keyed: tuple[tuple[int, int, int], Any]) -> bool:
    """Return whether a part is of one of the first tasks."""
    return keyed[0][2] < until


def _is(kind: int, keyed: tuple[tuple[int, int, int], Any]) -> bool:
    return keyed[0][0] == kind


def _without_kind(keyed: tuple[tuple[int, int, int], Any]) -> tuple[int, tuple[int, Any]]:
    (_, bucket, number), value = keyed
    return bucket, (number, value)


def _split(
    shards: Mapping[int, Mapping[int, int]], buckets: int, keyed: tuple[tuple[int, int, int], bytes]
) -> Iterator[tuple[tuple[int, int, int], bytes]]:
    """Split a bucket of topics by shard. `shards`: numbers of shards of large topics, by bucket and topic id."""
    (kind, home, number), value = keyed
    if home not in shards:
        yield keyed
        return
    for shard, part in enumerate(by_shard(unpacked(value), shards[home])):
        yield (kind, key_of(home, shard, buckets), number), packed(part)


def same(bucket: int) -> int:
    """Return the partition in which a bucket is merged: that with its number."""
    return bucket


def _merged(parts: Iterable[tuple[int, bytes]]) -> Span:
    return merged(unpacked(data) for _, data in sorted(parts, key=lambda each: each[0]))


def _merge_topics(parts: Iterable[tuple[int, bytes]]) -> bytes:
    return packed((_merged(parts).finish(), []))


def _report_names(buckets: int, keyed: tuple[int, bytes]) -> Iterator[tuple[int, tuple[int, Any]]]:
    if is_shard(keyed[0]):
        return
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
