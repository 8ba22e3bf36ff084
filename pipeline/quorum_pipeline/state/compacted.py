"""The remaining records of complete batches, combined by compiled loops. PURE.

Converts byte positions back to records and changes. The node's codec decodes what the loops do not support.
"""

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np

from quorum_node.records import metadata as md
from quorum_pipeline.compaction import log_compaction as s
from quorum_pipeline.compaction.columns import (
    CONFIG_COLUMNS,
    PARTITION_COLUMNS,
    PARTITION_KEY_BYTES,
    TOPIC_COLUMNS,
    UUID_BYTES,
    table,
)
from quorum_pipeline.compaction.elr_updates import ELR_UPDATE_COLUMNS
from quorum_pipeline.compaction.record_run import RecordRun
from quorum_pipeline.compiled import Bytes
from quorum_pipeline.deltas.partition_change import ELR, LAST_KNOWN_ELR, Change

_CHANGE, _CONFIG = md.PartitionChangeRecord.RECORD_TYPE, md.ConfigRecord.RECORD_TYPE


class Changed(NamedTuple):
    """The combined changes of one partition, none of which requires a certain number of earlier replicas or directories."""

    topic: int
    partition_id: int
    change: Change


Left = tuple[int, bytes | Changed]
"""Index of a record in the run, and its value; or the index of the first of several changes, and their combination."""


def compacted(run: RecordRun) -> Iterator[Left]:
    """Yield the remaining records in order. Raises Unsupported before the first one is yielded."""
    counts = np.bincount(run.kinds, minlength=0x100)
    changes = int(counts[_CHANGE])
    combined_changes = table(changes, s.COMBINED_CHANGE_COLUMNS)
    kept = np.empty(len(run), np.uint8)
    no_elr_updates = table(0, ELR_UPDATE_COLUMNS)  # a Change has none
    s.compact(
        run.data,
        run.begins,
        run.ends,
        run.kinds,
        table(changes, TOPIC_COLUMNS),
        table(changes, PARTITION_COLUMNS),
        table(int(counts[_CONFIG]), CONFIG_COLUMNS),
        combined_changes,
        no_elr_updates,
        kept,
    )
    return _left(run, kept, combined_changes.rows)


def _left(run: RecordRun, kept: Bytes, combined_changes: Any) -> Iterator[Left]:
    raw = run.data.tobytes()
    indexes = np.flatnonzero(kept)
    rows = zip(
        indexes.tolist(),
        kept[indexes].tolist(),
        run.begins[indexes].tolist(),
        run.ends[indexes].tolist(),
        strict=True,
    )
    number = 0
    for index, how, begin, end in rows:
        if how == s.KEPT:
            yield index, raw[begin:end]
        else:
            number += 1
            yield index, _changed(raw, combined_changes[number].tolist())


def _changed(raw: bytes, row: list[int]) -> Changed:
    key_at, elr, last_known = row[s.KEY_AT], row[s.ELR], row[s.LAST_KNOWN_ELR]
    (partition_id,) = struct.unpack_from(">i", raw, key_at)
    topic = int.from_bytes(raw[key_at + 4 : key_at + PARTITION_KEY_BYTES], "big")
    change = Change(
        changes=row[s.COUNT],
        leaders=row[s.LEADERS],
        leader=row[s.LEADER],
        recovery=row[s.RECOVERY],
        replicas=_numbers(raw, row[s.REPLICAS]),
        isr=_numbers(raw, row[s.ISR]),
        removing=_numbers(raw, row[s.REMOVING]),
        adding=_numbers(raw, row[s.ADDING]),
        directories=_known_directories(raw, row[s.DIRECTORIES]),
        sets=(ELR if elr >= 0 else 0) | (LAST_KNOWN_ELR if last_known >= 0 else 0),
        elr=_numbers(raw, elr) or None,
        last_known=_numbers(raw, last_known) or None,
    )
    return Changed(topic, partition_id, change)


def _numbers(raw: bytes, at: int) -> tuple[int, ...] | None:
    if at < 0:
        return None
    count, at = _count(raw, at)
    return struct.unpack_from(f">{count}i", raw, at)


def _known_directories(raw: bytes, at: int) -> tuple[UUID, ...] | None:
    """Decode the directories at a position: None if it is negative, () if none is known yet."""
    if at < 0:
        return None
    count, at = _count(raw, at)
    data = raw[at : at + count * UUID_BYTES]
    if not any(data):
        return ()
    return tuple(
        UUID(bytes=data[begin : begin + UUID_BYTES]) for begin in range(0, len(data), UUID_BYTES)
    )


def _count(raw: bytes, at: int) -> tuple[int, int]:
    """Return the count of a checked array and the position of its elements. It is not null, and its record has at most MAX_BYTES."""
    low = raw[at]
    if low < 0x80:
        return low - 1, at + 1
    middle = raw[at + 1]
    if middle < 0x80:
        return (low & 0x7F | middle << 7) - 1, at + 2
    return (low & 0x7F | (middle & 0x7F) << 7 | raw[at + 2] << 14) - 1, at + 3
