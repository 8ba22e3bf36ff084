"""Merges buckets of a state, by compiled loops, into the records that recreate this part of the state. PURE.

Owns merging, and the names that buckets of topics report to buckets of names. Contradictory or unsupported records
raise Unsupported; then `deltas` is used.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from quorum_node.image.cluster_image import ClusterImage
from quorum_node.records import metadata as md
from quorum_node.schema.primitives import MalformedRecord
from quorum_pipeline.canonical_encoding import Unsupported
from quorum_pipeline.compaction.offset_runs import (
    NO_RECORDS,
    MergedTopics,
    OffsetRun,
    by_bucket,
    joined,
    merged_configs,
    merged_topics,
    names_contradict,
    unpacked,
)
from quorum_pipeline.compaction.record_run import decoded, run_of_values
from quorum_pipeline.compiled import Numbers
from quorum_pipeline.deltas.chain import Chain
from quorum_pipeline.deltas.rows import records_of
from quorum_pipeline.rows.column_arrays import field_array
from quorum_pipeline.rows.columnar import Places, fields_of
from quorum_pipeline.rows.loops import READ_AHEAD_BYTES

_PARTITION, _TOPIC = md.PartitionRecord.RECORD_TYPE, md.TopicRecord.RECORD_TYPE
_HEAD_BYTES = 3


@dataclass(frozen=True, slots=True)
class StateBucket:
    """A bucket of a state. `packed`: one record per object, topics before their partitions. `left_out`: names of record types
    that an image can't contain.
    """

    packed: bytes
    left_out: frozenset[str] = frozenset()

    def records(self) -> OffsetRun:
        """Return the records; only those of topics and configs have meaningful offsets."""
        return unpacked(self.packed)

    def image(self) -> ClusterImage:
        """Return an image of only this bucket."""
        return ClusterImage().replay_all(decoded(self.records().run))


@dataclass(frozen=True, slots=True)
class ReportedNames:
    """The names that a bucket of topics reports to a bucket of names. `removed`: packed records of removed names. `takers` and
    `removals`: a number for each name, and an offset, of existing and of removed topics.
    """

    removed: bytes
    takers: tuple[Numbers, Numbers]
    removals: tuple[Numbers, Numbers]


@dataclass(frozen=True, slots=True)
class TopicsBucket:
    """Topics and partitions. `counts`: numbers of both; `replicas`: number by broker; `reported`: the names for each bucket of names."""

    state: StateBucket
    counts: tuple[int, int]
    replicas: dict[int, int]
    reported: tuple[ReportedNames, ...]


def topics_bucket(parts: Sequence[bytes], buckets: int) -> TopicsBucket:
    """Merge a bucket of topics from all its parts, in order. Raises Unsupported."""
    found = merged_topics([unpacked(each) for each in parts])
    kinds = found.left.run.kinds
    counts = int((kinds == _TOPIC).sum()), int((kinds == _PARTITION).sum())
    state = StateBucket(found.left.packed())
    return TopicsBucket(state, counts, _replicas(found.left), tuple(_reported(found, buckets)))


def names_bucket(parts: Sequence[bytes], reported: Sequence[ReportedNames]) -> StateBucket:
    """Merge a bucket of configs and all other records without topics. Raises Unsupported."""
    if reported and names_contradict([t.takers for t in reported], [t.removals for t in reported]):
        raise Unsupported
    runs = [unpacked(each) for each in parts]
    configs = merged_configs(runs, [unpacked(each.removed) for each in reported])
    left_out = frozenset[str]().union(*(each.left_out() for each in runs))
    others = joined([each.others() for each in runs])
    if not len(others):
        return StateBucket(configs.packed(), left_out)
    chain = Chain()
    try:
        for offset, record in zip(others.offsets.tolist(), decoded(others.run), strict=True):
            chain.replay(offset, record)
    except MalformedRecord:
        raise Unsupported from None
    delta = chain.finish()
    if delta.wrong is not None:
        raise Unsupported
    values = [
        md.encode_metadata(each, md.record_version(type(each), md.LATEST_LEVEL))
        for each in records_of(delta)
    ]
    left = OffsetRun(run_of_values(values), np.zeros(len(values), np.int64))
    return StateBucket(joined([configs, left]).packed(), left_out | delta.left_out)


def _reported(found: MergedTopics, buckets: int) -> list[ReportedNames]:
    takers, removals = found.takers(), found.removals()
    removed = by_bucket(found.removed, buckets)[1] if len(found.removed) else [NO_RECORDS] * buckets
    return [
        ReportedNames(removed[n].packed(), _some(takers, n, buckets), _some(removals, n, buckets))
        for n in range(buckets)
    ]


def _some(named: tuple[Numbers, Numbers], number: int, buckets: int) -> tuple[Numbers, Numbers]:
    mine = named[0] % buckets == number
    return named[0][mine], named[1][mine]


def _replicas(records: OffsetRun) -> dict[int, int]:
    partitions = records.of_kind(_PARTITION)
    if not len(partitions):
        return {}
    run = partitions.run
    data = np.concatenate([run.data, np.zeros(READ_AHEAD_BYTES, np.uint8)])
    # read-only like data from a file: the loops are compiled for this type
    data.flags.writeable = False
    version = md.PartitionRecord.HIGHEST_VERSION  # the format that `compaction.writing` produces
    found = fields_of(md.PartitionRecord, version, data, run.begins + _HEAD_BYTES, run.ends)
    field = found["replicas"]
    if not isinstance(field, Places):
        return {}
    brokers = field_array(data, field, len(partitions)).flatten().to_numpy(zero_copy_only=False)
    numbers, counts = np.unique(brokers, return_counts=True)
    return dict(zip(numbers.tolist(), counts.tolist(), strict=True))
