"""The remaining records of a run with their offsets: combined, partitioned by key, and merged to a state. PURE.

All operations work on bytes without an object per record. Each one succeeds or raises Unsupported; then the same is done
record by record, which identifies the problem.
"""

import pickle
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa

from quorum_node.records import metadata as md
from quorum_pipeline.canonical_encoding import Unsupported
from quorum_pipeline.compaction import columns as c
from quorum_pipeline.compaction import log_compaction as s
from quorum_pipeline.compaction.broker_compaction import compact_broker_records
from quorum_pipeline.compaction.bucketing import (
    ALL_BUCKETS,
    bucket_numbers,
    compacted_size,
    gather,
    write_compacted,
)
from quorum_pipeline.compaction.elr_updates import ELR_UPDATE_COLUMNS
from quorum_pipeline.compaction.frames import HEAD_BYTES
from quorum_pipeline.compaction.internal_records import COMBINED_CHANGE, LEFT_OUT_NAME, REMOVED_NAME
from quorum_pipeline.compaction.log_compaction import compact
from quorum_pipeline.compaction.merging import CLEAR_ELR, merge
from quorum_pipeline.compaction.normalization import left_out_name, left_out_value, normalized
from quorum_pipeline.compaction.record_run import MERGED_KINDS, RecordRun, tables_for
from quorum_pipeline.compaction.writing import size_of, write
from quorum_pipeline.compiled import Numbers, Table

_CHANGE, _CONFIG = md.PartitionChangeRecord.RECORD_TYPE, md.ConfigRecord.RECORD_TYPE
_TOPIC = md.TopicRecord.RECORD_TYPE
_KNOWN_KINDS = np.append(MERGED_KINDS, (COMBINED_CHANGE, REMOVED_NAME, LEFT_OUT_NAME)).astype(
    np.uint8
)
_CODEC = "zstd"


@dataclass(frozen=True, slots=True)
class OffsetRun:
    """Records in order. A record that replaces several has the offset of the first."""

    run: RecordRun
    offsets: Numbers

    def __len__(self) -> int:
        return len(self.offsets)

    def some(self, indexes: Any) -> "OffsetRun":
        """Return a subset of the records."""
        return OffsetRun(self.run.some(indexes), self.offsets[indexes])

    def copied(self) -> "OffsetRun":
        """Return a copy with only the bytes of these records."""
        run = self.run
        data = np.empty(int((run.ends - run.begins).sum()), np.uint8)
        begins, ends = np.empty(len(run), np.int64), np.empty(len(run), np.int64)
        gather(run.data, run.begins, run.ends, data, begins, ends)
        return OffsetRun(RecordRun(data, begins, ends, run.kinds), self.offsets)

    def others(self) -> "OffsetRun":
        """Return the records that are not about topics, partitions and configs."""
        return self.some(np.flatnonzero(~np.isin(self.run.kinds, _KNOWN_KINDS)))

    def of_kind(self, kind: int) -> "OffsetRun":
        """Return the records of one kind."""
        return self.some(np.flatnonzero(self.run.kinds == kind))

    def left_out(self) -> set[str]:
        """Return the names of what an image can't contain."""
        return {left_out_name(each) for each in self.of_kind(LEFT_OUT_NAME).values()}

    def values(self) -> list[bytes]:
        """Return the values of the records."""
        return [self.run.value(index) for index in range(len(self))]

    def packed(self) -> bytes:
        """Serialize the run for another process."""
        copy = self.copied()
        sizes = (copy.run.ends - copy.run.begins).astype(np.uint32)
        steps = np.diff(self.offsets, prepend=0)
        parts = (
            copy.run.data.tobytes(),
            sizes.tobytes(),
            copy.run.kinds.tobytes(),
            steps.tobytes(),
        )
        whole = pickle.dumps(parts, pickle.HIGHEST_PROTOCOL)
        shrunk: bytes = pa.compress(whole, codec=_CODEC, asbytes=True)
        return len(whole).to_bytes(8, "big") + shrunk


def unpacked(data: bytes) -> OffsetRun:
    """Deserialize a run."""
    size = int.from_bytes(data[:8], "big")
    whole = pa.decompress(memoryview(data)[8:], size, codec=_CODEC, asbytes=True)
    values, sizes, kinds, steps = pickle.loads(whole)
    return offset_run(
        np.frombuffer(bytearray(values), np.uint8),
        np.frombuffer(sizes, np.uint32),
        np.frombuffer(bytearray(kinds), np.uint8),
        np.cumsum(np.frombuffer(steps, np.int64)),
    )


def offset_run(data: Any, sizes: Any, kinds: Any, offsets: Numbers) -> OffsetRun:
    """Create a run of contiguous records."""
    ends = np.cumsum(np.asarray(sizes, np.int64))
    begins = np.concatenate([np.zeros(1, np.int64), ends[:-1]]) if len(ends) else ends.copy()
    return OffsetRun(RecordRun(data, begins, ends, kinds), offsets)


NO_RECORDS = offset_run(
    np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0, np.uint8), np.empty(0, np.int64)
)


def left_out_run(names: Iterable[str]) -> OffsetRun:
    """Create a run of the names of what an image can't contain."""
    values = [left_out_value(each) for each in sorted(names)]
    return offset_run(
        np.frombuffer(bytearray().join(values), np.uint8),
        np.array([len(each) for each in values], np.int64),
        np.full(len(values), LEFT_OUT_NAME, np.uint8),
        np.zeros(len(values), np.int64),
    )


def joined(parts: Sequence[OffsetRun]) -> OffsetRun:
    """Concatenate runs."""
    parts = [each for each in parts if len(each)]
    if len(parts) < 2:
        return parts[0] if parts else NO_RECORDS
    shifts = np.cumsum([0, *(len(each.run.data) for each in parts[:-1])])
    shifted = list(zip(parts, shifts.tolist(), strict=True))
    run = RecordRun(
        np.concatenate([each.run.data for each in parts]),
        np.concatenate([each.run.begins + shift for each, shift in shifted]),
        np.concatenate([each.run.ends + shift for each, shift in shifted]),
        np.concatenate([each.run.kinds for each in parts]),
    )
    return OffsetRun(run, np.concatenate([each.offsets for each in parts]))


def compacted(parts: Sequence[OffsetRun]) -> OffsetRun:
    """Remove superseded records without the earlier state. The records contain no transaction boundaries. Records in
    another encoding are normalized first, which takes as long as reading them one by one. Raises Unsupported.
    """
    whole = joined(parts)
    try:
        return _compacted(whole)
    except Unsupported:
        run, origins = normalized(whole.run)
        return _compacted(OffsetRun(run, whole.offsets[np.array(origins, np.int64)]))


def _compacted(whole: OffsetRun) -> OffsetRun:
    run = whole.run
    counts = np.bincount(run.kinds, minlength=0x100)
    changes = int(counts[_CHANGE] + counts[COMBINED_CHANGE])
    combined_changes = c.table(changes, s.COMBINED_CHANGE_COLUMNS)
    kept = np.empty(len(run), np.uint8)
    topics, partitions = c.table(changes, c.TOPIC_COLUMNS), c.table(changes, c.PARTITION_COLUMNS)
    configs = c.table(int(counts[_CONFIG]), c.CONFIG_COLUMNS)
    elr_updates = c.table(_max_elr_updates(run, counts, changes), ELR_UPDATE_COLUMNS)
    compact(
        run.data,
        run.begins,
        run.ends,
        run.kinds,
        topics,
        partitions,
        configs,
        combined_changes,
        elr_updates,
        kept,
    )
    _compact_broker_records(run, kept)
    count = int(np.count_nonzero(kept != s.REMOVED))
    data = np.empty(
        compacted_size(run.data, run.begins, run.ends, kept, combined_changes, elr_updates),
        np.uint8,
    )
    begins, ends, indexes = (np.empty(count, np.int64) for _ in range(3))
    kinds = np.empty(count, np.uint8)
    write_compacted(
        run.data, run.begins, run.ends, run.kinds, kept, combined_changes, elr_updates, data, begins, ends, kinds, indexes,
    )  # fmt: skip
    return OffsetRun(RecordRun(data, begins, ends, kinds), whole.offsets[indexes])


def elr_update_counts(run: RecordRun) -> Numbers:
    """Return the number of ELR updates of each record with combined changes."""
    combined_changes = run.begins[run.kinds == COMBINED_CHANGE]
    counts: Numbers = run.data[combined_changes + HEAD_BYTES - 1].astype(np.int64)
    return counts


def _max_elr_updates(run: RecordRun, counts: Any, changes: int) -> int:
    """Return the maximum number of ELR updates: two more for each record than there are. None can be needed without ClearElr."""
    return 2 * changes + int(elr_update_counts(run).sum()) if counts[CLEAR_ELR] else 0


def _compact_broker_records(run: RecordRun, kept: Any) -> None:
    left = kept != s.REMOVED
    indexes = np.flatnonzero(left & ~np.isin(run.kinds, _KNOWN_KINDS))
    if len(indexes):
        some = run.some(indexes)
        stays = np.ones(len(some), np.uint8)
        compact_broker_records(some.data, some.begins, some.ends, some.kinds, stays)
        kept[indexes[stays == 0]] = s.REMOVED


def by_bucket(whole: OffsetRun, count: int) -> tuple[list[OffsetRun], list[OffsetRun]]:
    """Split a run into `count` runs about topics and `count` runs of all other records. Raises Unsupported."""
    run = whole.run
    numbers = np.empty(len(run), np.int64)
    bucket_numbers(run.data, run.begins, run.ends, run.kinds, count, numbers)
    order = np.argsort(numbers, kind="stable")
    borders = np.searchsorted(numbers[order], np.arange(ALL_BUCKETS + 1, 2 * count))
    everywhere, *found = np.split(order, borders)
    if len(everywhere):
        found[:count] = [np.sort(np.concatenate([everywhere, each])) for each in found[:count]]
    parts = [whole.some(each) for each in found]
    return parts[:count], parts[count:]


@dataclass(frozen=True, slots=True)
class MergedTopics:
    """Existing topics and partitions, and removed names."""

    left: OffsetRun
    removed: OffsetRun

    def takers(self) -> tuple[Numbers, Numbers]:
        """Return a number for the name of each existing topic, and the offset of its record."""
        return _named(self.left.of_kind(_TOPIC))

    def removals(self) -> tuple[Numbers, Numbers]:
        """Return the same for removed names."""
        return _named(self.removed)


def merged_topics(parts: Sequence[OffsetRun]) -> MergedTopics:
    """Merge the state of one bucket, starting from an empty state. Raises Unsupported."""
    whole = joined(parts)
    run = whole.run
    topics, names, partitions, configs = tables_for(run)
    merge(run.data, run.begins, run.ends, run.kinds, topics, names, partitions, configs)
    left = _left(whole, topics, partitions, configs)
    rows = names.rows[1 : int(names.rows[0, 0]) + 1]
    rows = rows[rows[:, c.REMOVED_BY] != c.NONE]
    begins, ends = rows[:, c.KEY] - HEAD_BYTES, rows[:, c.KEY] + rows[:, c.KEY_BYTES]
    kinds = np.full(len(rows), REMOVED_NAME, np.uint8)
    removed = OffsetRun(
        RecordRun(run.data, begins, ends, kinds), whole.offsets[rows[:, c.REMOVED_BY] - 1]
    )
    return MergedTopics(left, removed.copied())


def merged_configs(parts: Sequence[OffsetRun], removed: Sequence[OffsetRun]) -> OffsetRun:
    """Merge configs, without those of removed topic names. Raises Unsupported."""
    configs = joined([each.of_kind(_CONFIG) for each in parts])
    whole = joined([configs, *removed])
    if len(whole) > len(configs):
        whole = whole.some(np.argsort(whole.offsets, kind="stable"))
    run = whole.run
    found = tables_for(run)
    merge(run.data, run.begins, run.ends, run.kinds, *found)
    topics, _, partitions, table = found
    return _left(whole, topics, partitions, table)


def names_contradict(
    takers: Sequence[tuple[Numbers, Numbers]], removals: Sequence[tuple[Numbers, Numbers]]
) -> bool:
    """Whether two topics have the same name, or the name of one was taken by another that was removed later."""
    names, offsets = (np.concatenate([each[n] for each in takers]) for n in (0, 1))
    if len(np.unique(names)) < len(names):
        return True
    order = np.argsort(names)
    names, offsets = names[order], offsets[order]
    for gone, at in removals:
        places = np.searchsorted(names, gone)
        inside = places < len(names)
        places, gone, at = places[inside], gone[inside], at[inside]
        if ((names[places] == gone) & (at > offsets[places])).any():
            return True
    return False


def _left(whole: OffsetRun, topics: Table, partitions: Table, configs: Table) -> OffsetRun:
    run = whole.run
    count, size_bytes = size_of(run.data, run.begins, run.ends, topics, partitions, configs)
    data = np.empty(size_bytes, np.uint8)
    begins, ends = np.empty(count, np.int64), np.empty(count, np.int64)
    used = write(run.data, run.begins, run.ends, topics, partitions, configs, data, begins, ends)
    records = np.concatenate([_records(topics, c.RECORD), _records(configs, c.VALUE)])
    offsets = np.zeros(count, np.int64)
    offsets[: len(records)] = whole.offsets[records - 1]
    kinds = np.empty(count, np.uint8)
    kinds[: len(records)] = run.kinds[records - 1]
    kinds[len(records) :] = md.PartitionRecord.RECORD_TYPE
    return OffsetRun(RecordRun(data[:used].copy(), begins, ends, kinds), offsets)


def _records(table: Table, column: int) -> Numbers:
    found: Numbers = table.rows[1 : int(table.rows[0, 0]) + 1, column]
    there: Numbers = found[found != c.NONE]
    return there


def _named(records: OffsetRun) -> tuple[Numbers, Numbers]:
    """Return a number for the name of each record, which follows the head in both kinds. Equal names have equal numbers. Different
    names rarely do; then the slow path decides."""
    data = records.run.data
    names = np.empty(len(records), np.int64)
    for index, begin in enumerate((records.run.begins + HEAD_BYTES).tolist()):
        size, at, shift = 0, begin, 0
        while True:
            byte = int(data[at])
            size |= (byte & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if byte < 0x80:
                break
        name = data[at : at + size - 1].tobytes()
        digest = blake2b(name, digest_size=8).digest()
        names[index] = int.from_bytes(digest, "big", signed=True)
    return names, records.offsets
