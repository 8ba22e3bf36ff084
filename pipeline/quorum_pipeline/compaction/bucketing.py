"""The remaining records of a run as encoded records, partitioned by key. PURE, compiled.

Owns the assignment of records to buckets, from their bytes: records about a topic id by the id, configs by the name
of the resource, all other types to the first bucket of names.
"""

import zlib

import numpy as np

from quorum_node.records import metadata as md
from quorum_pipeline.canonical_encoding import Unsupported, int64
from quorum_pipeline.compaction.columns import PARTITION_KEY_BYTES, UUID_BYTES
from quorum_pipeline.compaction.elr_updates import elr_updates_bytes, write_elr_updates
from quorum_pipeline.compaction.frames import HEAD_BYTES
from quorum_pipeline.compaction.internal_records import (
    COMBINED_ARRAYS,
    COMBINED_CHANGE,
    REMOVED_NAME,
    combined_change_bytes,
    copied,
    write_combined_change,
)
from quorum_pipeline.compaction.log_compaction import (
    COUNT,
    ELR_UPDATES,
    FIRST_ELR_UPDATE,
    ISR,
    KEPT,
    KEY_AT,
    LEADER,
    LEADERS,
    RECOVERY,
    REMOVED,
)
from quorum_pipeline.compaction.values import text_end, uvarint
from quorum_pipeline.compiled import Bytes, Numbers, Table, compiled, inner

_TOPIC, _REMOVE_TOPIC = md.TopicRecord.RECORD_TYPE, md.RemoveTopicRecord.RECORD_TYPE
_PARTITION, _CHANGE = md.PartitionRecord.RECORD_TYPE, md.PartitionChangeRecord.RECORD_TYPE
_CONFIG, _CLEAR_ELR = md.ConfigRecord.RECORD_TYPE, md.ClearElrRecord.RECORD_TYPE
ALL_BUCKETS = -1
"""Marks a record that all topic buckets need."""
NO_TOPIC_ID = -1
"""Marks a record that contains no topic id."""
_CRC_TABLE = np.array([zlib.crc32(bytes([n ^ 0xFF])) ^ 0xFF000000 for n in range(0x100)], np.int64)
"""CRC-32 table entry of one byte."""
_ALL_BITS = 0xFFFFFFFF


@compiled
def compacted_size(
    data: Bytes,
    begins: Numbers,
    ends: Numbers,
    kept: Bytes,
    combined_changes: Table,
    elr_updates: Table,
) -> int:
    """Number of bytes of the records that remain after `compact`."""
    size, row = int64(0), 0
    for index in range(len(begins)):
        if kept[index] == KEPT:
            size += ends[index] - begins[index]
        elif kept[index] != REMOVED:
            row += 1
            size += combined_change_bytes(
                data, combined_changes.rows[row, ISR : ISR + COMBINED_ARRAYS]
            )
            size += elr_updates_bytes(elr_updates, combined_changes.rows[row, FIRST_ELR_UPDATE])
    return size


@compiled
def write_compacted(
    data: Bytes,
    begins: Numbers,
    ends: Numbers,
    kinds: Bytes,
    kept: Bytes,
    combined_changes: Table,
    elr_updates: Table,
    to: Bytes,
    to_begins: Numbers,
    to_ends: Numbers,
    to_kinds: Bytes,
    indexes: Numbers,
) -> int:
    """Write the remaining records and the numbers of records that they replace; returns their number. Raises Unsupported."""
    at, row, count = 0, 0, 0
    numbers = np.empty(4, np.int64)
    for index in range(len(begins)):
        if kept[index] == REMOVED:
            continue
        to_begins[count], indexes[count] = at, index
        if kept[index] == KEPT:
            at = copied(data, begins[index], ends[index], to, at)
            to_kinds[count] = kinds[index]
        else:
            row += 1
            combined = combined_changes.rows[row]
            numbers[0], numbers[1] = combined[COUNT], combined[LEADERS]
            numbers[2], numbers[3] = combined[LEADER], combined[RECOVERY]
            arrays = combined[ISR : ISR + COMBINED_ARRAYS]
            at = write_combined_change(
                data, combined[KEY_AT], numbers, arrays, combined[ELR_UPDATES], to, at
            )
            at = write_elr_updates(elr_updates, combined[FIRST_ELR_UPDATE], to, at)
            to_kinds[count] = COMBINED_CHANGE
        to_ends[count] = at
        count += 1
    return count


@inner
def _id_bucket(data: Bytes, at: int, end: int, count: int) -> int:
    """Bucket of an id of 16 bytes."""
    if at + UUID_BYTES > end:
        raise Unsupported
    rest = int64(0)
    for index in range(at, at + UUID_BYTES):
        rest = (rest << 8 | int64(data[index])) % count
    return rest


@inner
def _name_bucket(data: Bytes, at: int, end: int, count: int) -> int:
    """Bucket of a string, by its CRC-32."""
    size, at = uvarint(data, at, end)
    crc = int64(_ALL_BITS)
    for index in range(at, at + size - 1):
        crc = _CRC_TABLE[(crc ^ int64(data[index])) & 0xFF] ^ crc >> 8
    return (crc ^ _ALL_BITS) % count


@compiled
def bucket_numbers(
    data: Bytes, begins: Numbers, ends: Numbers, kinds: Bytes, count: int, numbers: Numbers
) -> None:
    """Fill in the bucket of each record: below `count` for topics, above for names, or ALL_BUCKETS. Raises Unsupported."""
    for index in range(len(begins)):
        kind, begin, end = kinds[index], begins[index] + HEAD_BYTES, ends[index]
        if kind in (_CHANGE, COMBINED_CHANGE, _PARTITION):
            id_at = begin + PARTITION_KEY_BYTES - UUID_BYTES
            numbers[index] = _id_bucket(data, id_at, end, count)
        elif kind == _TOPIC:
            numbers[index] = _id_bucket(data, text_end(data, begin, end, False), end, count)
        elif kind == _REMOVE_TOPIC:
            numbers[index] = _id_bucket(data, begin, end, count)
        elif kind == _CONFIG:
            text_end(data, begin + 1, end, False)
            numbers[index] = count + _name_bucket(data, begin + 1, end, count)
        elif kind == REMOVED_NAME:
            numbers[index] = count + _name_bucket(data, begin, end, count)
        elif kind == _CLEAR_ELR:
            numbers[index] = ALL_BUCKETS
        else:
            numbers[index] = count


@compiled
def topic_id_positions(
    data: Bytes, begins: Numbers, ends: Numbers, kinds: Bytes, places: Numbers
) -> None:
    """Fill in the position of the topic id in each record about topics, or NO_TOPIC_ID. The records passed `bucket_numbers`."""
    for index in range(len(begins)):
        kind, begin, end = kinds[index], begins[index] + HEAD_BYTES, ends[index]
        if kind in (_CHANGE, COMBINED_CHANGE, _PARTITION):
            places[index] = begin + PARTITION_KEY_BYTES - UUID_BYTES
        elif kind == _TOPIC:
            places[index] = text_end(data, begin, end, False)
        elif kind == _REMOVE_TOPIC:
            places[index] = begin
        else:
            places[index] = NO_TOPIC_ID


@compiled
def gather(
    data: Bytes, begins: Numbers, ends: Numbers, to: Bytes, to_begins: Numbers, to_ends: Numbers
) -> int:
    """Copy records one after the other; return their number of bytes."""
    at = 0
    for index in range(len(begins)):
        to_begins[index] = at
        at = copied(data, begins[index], ends[index], to, at)
        to_ends[index] = at
    return at
