"""Removes superseded topic, partition and config records: a minimal set of records with the same image. PURE.

The idea is log compaction: of a million records about partitions almost all are superseded by later ones. A compiled
loop finds the remaining ones much faster than objects could be created; the image is then built from these. Records
of other types are separated and replayed into the image: they are few, and topics do not depend on them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from quorum_node.records import metadata as md
from quorum_pipeline.compaction import merging
from quorum_pipeline.compaction.columns import (
    CONFIG_COLUMNS,
    NAME_COLUMNS,
    PARTITION_COLUMNS,
    TOPIC_COLUMNS,
    table,
)
from quorum_pipeline.compaction.frames import find_kinds, find_values
from quorum_pipeline.compaction.merging import merge
from quorum_pipeline.compaction.thinning import thin_out
from quorum_pipeline.compaction.writing import size_of, write
from quorum_pipeline.compiled import Bytes, Numbers, Table
from quorum_pipeline.plain_form import Unusual

MERGED_KINDS = np.array(
    (
        merging.TOPIC,
        merging.REMOVE_TOPIC,
        merging.PARTITION,
        merging.PARTITION_CHANGE,
        merging.CONFIG,
        merging.CLEAR_ELR,
    ),
    np.uint8,
)
_BEGIN, _END = md.BeginTransactionRecord.RECORD_TYPE, md.EndTransactionRecord.RECORD_TYPE
BOUNDARY_KINDS = np.array((_BEGIN, _END, md.AbortTransactionRecord.RECORD_TYPE), np.uint8)


@dataclass(frozen=True, slots=True)
class RecordRun:
    """Records in order: the value of one is `data[begins[i]:ends[i]]`; `kinds`: their types."""

    data: Any
    begins: Any
    ends: Any
    kinds: Any

    def __len__(self) -> int:
        return len(self.begins)

    def value(self, index: int) -> bytes:
        """The bytes of a record."""
        found: bytes = self.data[self.begins[index] : self.ends[index]].tobytes()
        return found

    def from_on(self, index: int) -> "RecordRun":
        """A copy of the rest. In `data` they may lie in any order."""
        if index == len(self):
            return EMPTY
        begins, ends = self.begins[index:], self.ends[index:]
        first, last = int(begins.min()), int(ends.max())
        return RecordRun(
            self.data[first:last].copy(), begins - first, ends - first, self.kinds[index:]
        )

    def some(self, indexes: Any) -> "RecordRun":
        """These of them."""
        return RecordRun(self.data, self.begins[indexes], self.ends[indexes], self.kinds[indexes])


def run_of_array(data: Bytes, begins: Numbers, ends: Numbers) -> RecordRun:
    """Records whose values lie there."""
    return known_run(data.copy(), begins, ends)


def run_of_values(values: Sequence[bytes]) -> RecordRun:
    """Records that are not contiguous."""
    borders = np.cumsum(np.array([0, *map(len, values)], np.int64))
    data = np.frombuffer(bytearray().join(values), np.uint8)
    return known_run(data, borders[:-1].copy(), borders[1:].copy())


def run_of_batches(data: bytearray, count: int) -> RecordRun:
    """The records of whole batches, one behind the other. Raises Unusual."""
    if count > len(data):
        raise Unusual  # checked before memory is allocated for them
    found = np.frombuffer(data, np.uint8)
    begins, ends = np.empty(count, np.int64), np.empty(count, np.int64)
    find_values(found, begins, ends)
    return known_run(found, begins, ends)


def known_run(data: Bytes, begins: Numbers, ends: Numbers) -> RecordRun:
    """Records whose values lie there, in these bytes. Raises Unusual."""
    kinds = np.empty(len(begins), np.uint8)
    find_kinds(data, begins, ends, kinds)
    return RecordRun(data, begins, ends, kinds)


EMPTY = run_of_values(())


def compacted(before: RecordRun, run: RecordRun) -> RecordRun:
    """The remaining records of the merged types in both runs. `before` starts at the beginning of the history, or is
    an earlier result. Raises Unusual.
    """
    both = joined(before, run)
    topics, names, partitions, configs = tables_for(both)
    merge(both.data, both.begins, both.ends, both.kinds, topics, names, partitions, configs)
    count, size_bytes = size_of(both.data, both.begins, both.ends, topics, partitions, configs)
    data = np.empty(size_bytes, np.uint8)
    begins, ends = np.empty(count, np.int64), np.empty(count, np.int64)
    used = write(both.data, both.begins, both.ends, topics, partitions, configs, data, begins, ends)
    return known_run(data[:used].copy(), begins, ends)


def tables_for(run: RecordRun) -> tuple[Table, Table, Table, Table]:
    """Tables for topics, names, partitions and configs, large enough for the run."""
    counts = np.bincount(run.kinds, minlength=0x100).tolist()
    topics, partitions, configs = (
        counts[kind] for kind in (merging.TOPIC, merging.PARTITION, merging.CONFIG)
    )
    return (
        table(topics, TOPIC_COLUMNS),
        table(topics + configs, NAME_COLUMNS),
        table(partitions, PARTITION_COLUMNS),
        table(configs, CONFIG_COLUMNS),
    )


def joined(first: RecordRun, second: RecordRun) -> RecordRun:
    """One after the other."""
    if not len(first) or not len(second):
        return first if len(first) else second
    shift = len(first.data)
    return RecordRun(
        np.concatenate([first.data, second.data]),
        np.concatenate([first.begins, second.begins + shift]),
        np.concatenate([first.ends, second.ends + shift]),
        np.concatenate([first.kinds, second.kinds]),
    )


def others(run: RecordRun) -> RecordRun:
    """Records of the other types that no later one of this run supersedes. Raises Unusual."""
    some = run.some(np.flatnonzero(~np.isin(run.kinds, MERGED_KINDS)))
    kept = np.ones(len(some), np.uint8)
    thin_out(some.data, some.begins, some.ends, some.kinds, kept)
    return some.some(np.flatnonzero(kept))


def settled(run: RecordRun) -> tuple[RecordRun, RecordRun]:
    """The effective records without transaction boundaries, and the records of a transaction still open. Raises
    MalformedRecord like replay, because aborted records have to be valid too.
    """
    counts, begin = np.ones(len(run), np.bool_), None
    for index in np.flatnonzero(np.isin(run.kinds, BOUNDARY_KINDS)).tolist():
        md.decode_metadata(run.value(index))
        counts[index] = False
        if begin is not None and run.kinds[index] != _END:
            decoded(run.some(slice(begin, index)))
            counts[begin:index] = False
        begin = index if run.kinds[index] == _BEGIN else None
    if counts.all():
        return run, EMPTY
    end = len(run) if begin is None else begin
    return run.some(np.flatnonzero(counts[:end])), run.from_on(end)


def decoded(run: RecordRun) -> list[md.AnyMetadata]:
    """The records. Raises MalformedRecord."""
    data = memoryview(run.data)
    borders = zip(run.begins.tolist(), run.ends.tolist(), strict=True)
    return [md.decode_metadata(bytes(data[begin:end])) for begin, end in borders]
