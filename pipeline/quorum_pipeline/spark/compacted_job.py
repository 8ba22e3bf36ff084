"""The state of a log by compiled loops: tasks reduce spans, buckets are merged, without an object per record.

Anything unsupported or wrong raises Unsupported; then the same is done record by record (`state_job.py`). The driver holds a
summary per task and decides which pieces of a transaction count.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from quorum_pipeline.canonical_encoding import Unsupported
from quorum_pipeline.deltas.shards import homes_of_ids, is_shard, key_of, place_of
from quorum_pipeline.deltas.span import Boundary
from quorum_pipeline.deltas.summary import Summary
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.spark.state_job import (
    NAMES,
    TOPICS,
    LogPlan,
    Numbered,
    SparkState,
    TaskDone,
    joined_up,
    same,
)
from quorum_pipeline.spark.state_parts import Figures, packed, unpacked
from quorum_pipeline.spark.task_results import parts_of, result_row, results_of, where

if TYPE_CHECKING:
    from quorum_pipeline.spark.stages import Rows, Stages

Piece = tuple[int, int]
"""Number of a task, and HEAD, BODY or TAIL."""
_REPORTED = -1


@dataclass(frozen=True, slots=True)
class CompactedDone(TaskDone):
    """The result of a task of compiled loops.

    `error`: why it could not be read, or that it contains data that compiled loops don't support. `pieces`: those that have records.
    `rows_read`: records, or rows of deltas and states. `damaged`: a file that can't be read, but that others can replace.
    """

    boundary: Boundary | None = None
    is_open: bool = False
    pieces: frozenset[int] = frozenset()
    rows_read: int = 0
    damaged: str = ""


class CompactedLog:
    """Like `ReducedLog`. Any method may raise Unsupported."""

    def __init__(self, stages: Stages, plan: LogPlan, buckets: int) -> None:
        self._stages, self._plan, self._buckets = stages, plan, buckets
        self._persisted: list[Rows] = []
        numbered: list[Numbered] = list(enumerate(plan.tasks))
        stages.describe(f"reduce {len(numbered)} spans of {plan.name}")
        found = stages.parallelize(numbered).flatMap(partial(_compact, buckets))
        self._reduced = self._persist(found)
        self.done: list[CompactedDone] = results_of(self._reduced)
        self._shards = homes_of_ids((each.large for each in self.done), buckets)

    def __enter__(self) -> CompactedLog:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._persisted:
            each.unpersist()

    def state(self, cut: int = -1) -> SparkState:
        """Return the state at one of the planned moments. Raises PipelineError, Unsupported."""
        done = self._until(self._plan.cuts[cut])
        last = joined_up([each.summary for each in done], self._plan)
        order, dropped, is_open = _order(done)
        read = frozenset(each.number for each in done)
        if dropped:
            # The records of an aborted transaction over several spans have no effect, but a node decodes them.
            aborted = parts_of(self._reduced, read).filter(partial(_counts, dropped))
            if any(aborted.map(_undecodable).collect()):
                raise Unsupported
        self._stages.describe(f"merge deltas up to offset {last.end_offset} of {self._plan.name}")
        mine = parts_of(self._stages.coalesce(self._reduced), read).filter(partial(_counts, order))
        of_topics = mine.filter(partial(_is, TOPICS))
        if self._shards:
            of_topics = of_topics.flatMap(partial(_split, self._shards, self._buckets))
        placed = of_topics.map(partial(_placed, order))
        grouped = placed.groupByKey(self._buckets, partial(place_of, self._buckets))
        topics = self._persist(grouped.mapValues(partial(_merge_topics, self._buckets)))
        of_names = mine.filter(partial(_is, NAMES)).map(partial(_placed, order))
        reported = topics.flatMap(_report_names)
        both = of_names.union(reported).groupByKey(self._buckets, same)
        names = self._persist(both.mapValues(_merge_names))
        # In one job, as the start of another one would take longer than its tasks.
        both_figures = names.map(_figures_of_names).union(topics.map(_figures_of_topics))
        figures: list[Figures | None] = both_figures.collect()
        whole = [each for each in figures if each is not None]
        if len(whole) < len(figures) or last.wrong is not None:
            raise Unsupported
        return SparkState(topics, names, whole, frozenset(), last, is_open)

    def _until(self, end: int) -> list[CompactedDone]:
        found = self.done[:end]
        if any(each.error is not None for each in found):
            raise Unsupported
        stops = [each.number for each in found if each.summary.stop]
        return found[: stops[0] + 1] if stops else found

    def _persist(self, found: Rows) -> Rows:
        persisted = self._stages.persist(found)
        self._persisted.append(persisted)
        return persisted


def _order(done: list[CompactedDone]) -> tuple[dict[Piece, int], frozenset[Piece], bool]:
    """Return the position of each piece that takes effect, the aborted ones with records, and whether a transaction is open
    at the end.
    """
    from quorum_pipeline.deltas.pieces import counted

    found, dropped, is_open = counted([(each.boundary, each.is_open) for each in done])
    aborted = frozenset(each for each in dropped if each[1] in done[each[0]].pieces)
    return {each: place for place, each in enumerate(found)}, aborted, is_open


# -- on executors


def _compact(buckets: int, numbered: Numbered) -> Iterator[tuple[Any, Any]]:
    from quorum_pipeline.compaction.offset_runs import by_bucket
    from quorum_pipeline.compaction.sharding import large_topics

    number, task = numbered
    rows: list[tuple[Any, Any]] = []
    large: dict[int, int] = {}
    try:
        span, summary = task.compacted()
        pieces = []
        for piece, left in span.pieces():
            pieces.append(piece)
            topics, names = by_bucket(left, buckets)
            large = large_topics(left, large)
            for kind, parts in ((TOPICS, topics), (NAMES, names)):
                rows += [
                    ((kind, bucket, number, piece), part.packed())
                    for bucket, part in enumerate(parts)
                    if len(part)
                ]
    # the job that reads record by record reports the error
    except (Unsupported, PipelineError, OSError) as error:
        damaged: str = getattr(task, "file", "")
        why = str(error) or "a span that was supported is not any more"
        yield result_row(CompactedDone(number, where(), Summary(0, 0), damaged=damaged, error=why))
        return
    yield result_row(
        CompactedDone(
            number,
            where(),
            summary,
            span.boundary,
            span.is_open,
            pieces=frozenset(pieces),
            rows_read=getattr(span, "rows_read", summary.records),
            large=large,
        )
    )
    yield from rows


def _counts(pieces: Container[Piece], keyed: tuple[Any, Any]) -> bool:
    """Return whether a part of a bucket is of one of these pieces."""
    return keyed[0][2:] in pieces


def _undecodable(keyed: tuple[Any, bytes]) -> bool:
    from quorum_pipeline.compaction.offset_runs import unpacked as unpacked_run
    from quorum_pipeline.state.compiled_span import check_aborted

    try:
        check_aborted(unpacked_run(keyed[1]))
    except Unsupported:
        return True
    return False


def _is(kind: int, keyed: tuple[Any, Any]) -> bool:
    return bool(keyed[0][0] == kind)


def _split(
    shards: Mapping[int, Mapping[int, int]], buckets: int, keyed: tuple[Any, bytes]
) -> Iterator[tuple[Any, bytes]]:
    """Like `state_job`."""
    from quorum_pipeline.compaction.offset_runs import unpacked as unpacked_run
    from quorum_pipeline.compaction.sharding import by_shard

    (kind, home, *piece), value = keyed
    if home not in shards:
        yield keyed
        return
    for shard, part in enumerate(by_shard(unpacked_run(value), shards[home])):
        if len(part):
            yield (kind, key_of(home, shard, buckets), *piece), part.packed()


def _placed(order: Mapping[Piece, int], keyed: tuple[Any, bytes]) -> tuple[int, tuple[int, bytes]]:
    key, value = keyed
    return key[1], (order[key[2:]], value)


def _in_order(parts: Iterable[tuple[int, bytes]]) -> list[bytes]:
    return [data for _, data in sorted(parts, key=lambda each: each[0])]


def _merge_topics(buckets: int, parts: Iterable[tuple[int, bytes]]) -> bytes:
    from quorum_pipeline.state.merged_buckets import topics_bucket

    try:
        return packed(topics_bucket(_in_order(parts), buckets), 0)
    except Unsupported:
        return packed(None)


def _report_names(keyed: tuple[int, bytes]) -> Iterator[tuple[int, tuple[int, Any]]]:
    found = None if is_shard(keyed[0]) else unpacked(keyed[1])
    for bucket, reported in enumerate(found.reported if found is not None else ()):
        yield bucket, (_REPORTED, reported)


def _merge_names(parts: Iterable[tuple[int, Any]]) -> bytes:
    from quorum_pipeline.state.merged_buckets import names_bucket

    every = list(parts)
    reported = [each for place, each in every if place == _REPORTED]
    runs = _in_order(each for each in every if each[0] != _REPORTED)
    try:
        return packed(names_bucket(runs, reported), 0)
    except Unsupported:
        return packed(None)


def _figures_of_topics(keyed: tuple[int, bytes]) -> Figures | None:
    found = unpacked(keyed[1])
    if found is None:
        return None
    topics, partitions = found.counts
    counts, in_shards = {"topics": topics, "partitions": partitions}, dict[str, int]()
    if is_shard(keyed[0]):
        from quorum_pipeline.compaction.sharding import partition_counts

        counts["topics"], in_shards = 0, partition_counts(found.state.records())
    return Figures(counts, found.replicas, frozenset(), {}, [], False, None, in_shards)


def _figures_of_names(keyed: tuple[int, bytes]) -> Figures | None:
    from quorum_pipeline.spark.state_parts import counts_of_names

    found = unpacked(keyed[1])
    if found is None:
        return None
    image = found.image()
    levels = dict(image.features.levels)
    return Figures(counts_of_names(image), {}, found.left_out, levels, [], False, None)
