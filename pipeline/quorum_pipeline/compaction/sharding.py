"""Records of large topics, partitioned by shard. PURE.

Owns the assignment of encoded records to shards (`deltas/shards.py`), like `deltas.buckets.by_shard` for deltas.
"""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import numpy as np

from quorum_node.records import metadata as md
from quorum_node.records.identity import uuid_text
from quorum_pipeline.compaction.bucketing import NO_TOPIC_ID, topic_id_positions
from quorum_pipeline.compaction.columns import PARTITION_KEY_BYTES, UUID_BYTES
from quorum_pipeline.compaction.frames import HEAD_BYTES
from quorum_pipeline.compaction.internal_records import COMBINED_CHANGE
from quorum_pipeline.compaction.offset_runs import OffsetRun
from quorum_pipeline.deltas import shards as s

_PARTITION, _CHANGE = md.PartitionRecord.RECORD_TYPE, md.PartitionChangeRecord.RECORD_TYPE
_OF_PARTITIONS = np.array((_PARTITION, _CHANGE, COMBINED_CHANGE), np.uint8)
_ID_AT = HEAD_BYTES + PARTITION_KEY_BYTES - UUID_BYTES


def large_topics(whole: OffsetRun, known: Mapping[int, int]) -> dict[int, int]:
    """Return the highest range of partitions of each large topic, by topic id; `known`: of earlier records.

    The records passed `offset_runs.by_bucket`.
    """
    found = dict(known)
    begins = whole.run.begins[np.isin(whole.run.kinds, _OF_PARTITIONS)]
    ranges = _ranges(whole.run.data, begins)
    large = np.flatnonzero(ranges)
    ids = _ids(whole.run.data, begins[large] + _ID_AT)
    for each in np.unique(ids).tolist():
        number = _number(each)
        highest = int(ranges[large][ids == each].max())
        found[number] = max(highest, found.get(number, 0))
    return found


def by_shard(whole: OffsetRun, shards: Mapping[int, int]) -> list[OffsetRun]:
    """Split a bucket of topics by shard, the home first. `shards`: number of shards of its large topics, by topic id."""
    run = whole.run
    places = np.empty(len(run), np.int64)
    topic_id_positions(run.data, run.begins, run.ends, run.kinds, places)
    of_partition = np.isin(run.kinds, _OF_PARTITIONS)
    # The number of shards that need the record, or the one shard of a partition.
    counts = np.where(places == NO_TOPIC_ID, max(shards.values()), 1)
    ids = _ids(run.data, places[places != NO_TOPIC_ID])
    counts[places != NO_TOPIC_ID] = _counts(ids, shards)
    shard = _ranges(run.data, run.begins[of_partition]) % counts[of_partition]
    parts = []
    for number in range(max(shards.values())):
        mine = counts > number
        mine[of_partition] = shard == number
        parts.append(whole.some(np.flatnonzero(mine)))
    return parts


def partitions_of(whole: OffsetRun) -> OffsetRun:
    """Return the partition records."""
    return whole.of_kind(_PARTITION)


def partition_counts(whole: OffsetRun) -> dict[str, int]:
    """Return the number of partition records of each topic, by the text of its id."""
    begins = whole.run.begins[whole.run.kinds == _PARTITION]
    ids, counts = np.unique(_ids(whole.run.data, begins + _ID_AT), return_counts=True)
    return {
        uuid_text(UUID(int=_number(each))): count
        for each, count in zip(ids.tolist(), counts.tolist(), strict=True)
    }


def _counts(ids: Any, shards: Mapping[int, int]) -> Any:
    """Return the number of shards of each topic."""
    known = sorted((number.to_bytes(UUID_BYTES, "big"), count) for number, count in shards.items())
    names = np.array([each for each, _ in known], ids.dtype)
    counts = np.array([count for _, count in known], np.int64)
    places = np.minimum(np.searchsorted(names, ids), len(names) - 1)
    return np.where(names[places] == ids, counts[places], 1)


def _ranges(data: Any, begins: Any) -> Any:
    """Return the range of each partition."""
    numbers = _gathered(data, begins + HEAD_BYTES, 4).view(">i4").ravel().astype(np.int64)
    return np.maximum(numbers, 0) // s.SHARD_PARTITIONS


def _ids(data: Any, places: Any) -> Any:
    return _gathered(data, places, UUID_BYTES).view(f"S{UUID_BYTES}").ravel()


def _gathered(data: Any, places: Any, size: int) -> Any:
    """Return the bytes at each position."""
    return data[places[:, np.newaxis] + np.arange(size)]


def _number(id: bytes) -> int:
    """Return the number of an id, of which numpy drops zeros at the end."""
    return int.from_bytes(id.ljust(UUID_BYTES, b"\0"), "big")
