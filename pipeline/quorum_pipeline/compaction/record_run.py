"""Records as arrays, for the loops that remove superseded topic, partition and config records. PURE.

The idea is log compaction: of a million records about partitions almost all are superseded by later ones. A compiled
loop finds the remaining ones much faster than objects could be created (`offset_runs.py`). Records of other types are
few, and topics do not depend on them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from quorum_node.records import metadata as md
from quorum_pipeline.canonical_encoding import Unsupported
from quorum_pipeline.compaction import merging
from quorum_pipeline.compaction.columns import (
    CONFIG_COLUMNS,
    NAME_COLUMNS,
    PARTITION_COLUMNS,
    TOPIC_COLUMNS,
    table,
)
from quorum_pipeline.compaction.frames import find_kinds, find_values
from quorum_pipeline.compiled import Bytes, Numbers, Table

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
BOUNDARY_KINDS = np.array(
    (
        md.BeginTransactionRecord.RECORD_TYPE,
        md.EndTransactionRecord.RECORD_TYPE,
        md.AbortTransactionRecord.RECORD_TYPE,
    ),
    np.uint8,
)


@dataclass(frozen=True, slots=True)
class RecordRun:
    """Records in order. The value of record i is `data[begins[i]:ends[i]]`; `kinds`: their types."""

    data: Any
    begins: Any
    ends: Any
    kinds: Any

    def __len__(self) -> int:
        return len(self.begins)

    def value(self, index: int) -> bytes:
        """Return the value of a record."""
        found: bytes = self.data[self.begins[index] : self.ends[index]].tobytes()
        return found

    def some(self, indexes: Any) -> "RecordRun":
        """Return a subset of the records."""
        return RecordRun(self.data, self.begins[indexes], self.ends[indexes], self.kinds[indexes])


def run_of_values(values: Sequence[bytes]) -> RecordRun:
    """Create a run of values that are not contiguous."""
    borders = np.cumsum(np.array([0, *map(len, values)], np.int64))
    data = np.frombuffer(bytearray().join(values), np.uint8)
    return known_run(data, borders[:-1].copy(), borders[1:].copy())


def run_of_batches(data: bytearray, count: int) -> RecordRun:
    """Create a run of the records in `count` complete, contiguous batches. Raises Unsupported."""
    if count > len(data):
        raise Unsupported  # checked before memory is allocated for them
    found = np.frombuffer(data, np.uint8)
    begins, ends = np.empty(count, np.int64), np.empty(count, np.int64)
    find_values(found, begins, ends)
    return known_run(found, begins, ends)


def known_run(data: Bytes, begins: Numbers, ends: Numbers) -> RecordRun:
    """Create a run of values at known positions. Raises Unsupported."""
    kinds = np.empty(len(begins), np.uint8)
    find_kinds(data, begins, ends, kinds)
    return RecordRun(data, begins, ends, kinds)


def tables_for(run: RecordRun) -> tuple[Table, Table, Table, Table]:
    """Create tables for topics, names, partitions and configs, large enough for the run."""
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


def decoded(run: RecordRun) -> list[md.AnyMetadata]:
    """Decode the records. Raises MalformedRecord."""
    data = memoryview(run.data)
    borders = zip(run.begins.tolist(), run.ends.tolist(), strict=True)
    return [md.decode_metadata(bytes(data[begin:end])) for begin, end in borders]
