"""Writes the tables as records: one for each existing topic, partition and config. PURE, compiled.

Topics and configs are copied; a partition is written in the newest version of its record with all changes. Source:
KIP-631, "PartitionRecord".
"""

from quorum_node.records import metadata as md
from quorum_node.records.metadata import FRAME_VERSION
from quorum_pipeline.compaction import columns as c
from quorum_pipeline.compaction import tags
from quorum_pipeline.compaction.columns import PARTITION_KEY_BYTES, UUID_BYTES
from quorum_pipeline.compaction.frames import HEAD_BYTES
from quorum_pipeline.compaction.internal_records import copied
from quorum_pipeline.compaction.values import (
    INT8_BYTES,
    INT32_BYTES,
    array_end,
    put_int32,
    put_uvarint,
)
from quorum_pipeline.compiled import Bytes, Numbers, Table, compiled, inner

_PARTITION = md.PartitionRecord.RECORD_TYPE
_NEWEST = md.PartitionRecord.HIGHEST_VERSION
_OTHER_BYTES = 48
"""Upper limit of the bytes of three numbers, the recovery state, and the heads of tagged fields."""
assert _NEWEST == 2, "the form that is written here"


@inner
def _array_bytes(data: Bytes, at: int, element_bytes: int) -> int:
    return 1 if at < 0 else array_end(data, at, len(data), element_bytes) - at


@inner
def _max_bytes(data: Bytes, fields: Numbers) -> int:
    size = HEAD_BYTES + PARTITION_KEY_BYTES + _OTHER_BYTES
    for column in (c.REPLICAS, c.ISR, c.REMOVING, c.ADDING, c.ELR, c.LAST_KNOWN_ELR):
        size += _array_bytes(data, fields[column], INT32_BYTES)
    size += _array_bytes(data, fields[c.DIRECTORIES], UUID_BYTES)
    return size + (fields[c.TAGS_END] - fields[c.TAGS] if fields[c.TAG_COUNT] else 0)


@inner
def _write_tags(data: Bytes, fields: Numbers, to: Bytes, at: int) -> int:
    recovery, electable = fields[c.RECOVERY], 0
    for column in (c.ELR, c.LAST_KNOWN_ELR):
        electable += fields[column] >= 0
    at = put_uvarint(to, at, (recovery != 0) + electable + fields[c.TAG_COUNT])
    if recovery != 0:
        at = put_uvarint(to, at, tags.PARTITION_RECOVERY)
        at = put_uvarint(to, at, INT8_BYTES)
        to[at] = recovery & 0xFF
        at += 1
    for column in (c.ELR, c.LAST_KNOWN_ELR):
        array = fields[column]
        if array >= 0:
            size = _array_bytes(data, array, INT32_BYTES)
            at = put_uvarint(to, at, tags.PARTITION_ELR + column - c.ELR)
            at = put_uvarint(to, at, size)
            at = copied(data, array, array + size, to, at)
    if fields[c.TAG_COUNT]:
        at = copied(data, fields[c.TAGS], fields[c.TAGS_END], to, at)
    return at


@inner
def _write_partition(data: Bytes, fields: Numbers, to: Bytes, at: int) -> int:
    to[at], to[at + 1], to[at + 2] = FRAME_VERSION, _PARTITION, _NEWEST
    at = copied(data, fields[c.KEY_AT], fields[c.KEY_AT] + PARTITION_KEY_BYTES, to, at + HEAD_BYTES)
    for column in (c.REPLICAS, c.ISR, c.REMOVING, c.ADDING):
        array = fields[column]
        at = copied(data, array, array + _array_bytes(data, array, INT32_BYTES), to, at)
    for column in (c.LEADER, c.LEADER_EPOCH, c.PARTITION_EPOCH):
        at = put_int32(to, at, fields[column])
    directories = fields[c.DIRECTORIES]
    if directories < 0:
        at = put_uvarint(to, at, 1)
    else:
        size = _array_bytes(data, directories, UUID_BYTES)
        at = copied(data, directories, directories + size, to, at)
    return _write_tags(data, fields, to, at)


@compiled
def size_of(
    data: Bytes, begins: Numbers, ends: Numbers, topics: Table, partitions: Table, configs: Table
) -> tuple[int, int]:
    """Return the number of records, and the maximum number of their bytes."""
    count, size = 0, 0
    for rows, column in ((topics.rows, c.RECORD), (configs.rows, c.VALUE)):
        for row in range(1, rows[0, 0] + 1):
            record = rows[row, column]
            if record:
                count += 1
                size += ends[record - 1] - begins[record - 1]
    for row in range(1, partitions.rows[0, 0] + 1):
        if partitions.rows[row, c.EXISTS]:
            count += 1
            size += _max_bytes(data, partitions.rows[row])
    return count, size


@compiled
def write(
    data: Bytes,
    begins: Numbers,
    ends: Numbers,
    topics: Table,
    partitions: Table,
    configs: Table,
    to: Bytes,
    to_begins: Numbers,
    to_ends: Numbers,
) -> int:
    """Write all records, topics before partitions, with the start and end of each; return their number of bytes."""
    count, at = 0, 0
    for rows, column in ((topics.rows, c.RECORD), (configs.rows, c.VALUE)):
        for row in range(1, rows[0, 0] + 1):
            record = rows[row, column]
            if record:
                to_begins[count] = at
                at = copied(data, begins[record - 1], ends[record - 1], to, at)
                to_ends[count] = at
                count += 1
    for row in range(1, partitions.rows[0, 0] + 1):
        if partitions.rows[row, c.EXISTS]:
            to_begins[count] = at
            at = _write_partition(data, partitions.rows[row], to, at)
            to_ends[count] = at
            count += 1
    return at
