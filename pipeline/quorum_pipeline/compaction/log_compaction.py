"""Log compaction of a run: removes superseded records without knowing the state before it, and combines changes of one partition.
PURE, compiled.

Owns what can be combined without the state: changes of a partition without another record about it in between
(including previously combined ones: `internal_records.py`), config values between two transaction boundaries, records without
effect. A change that depends on the state (only replicas, or only directories) is kept as a record. A change is moved
to the first one that it is combined with. It may pass a ClearElr record, of whichever topic; if it sets what that
clears, eligible leader replicas, the combination records where (`elr_updates.py`). So the name in a ClearElr needs no topic here,
where it may be unknown. Anything else raises Unsupported; then records are reduced one by one. Source: KIP-631,
"PartitionChangeRecord"; KIP-858 (directories); KIP-966 (eligible leader replicas).
"""

import numpy as np

from quorum_node.records import metadata as md
from quorum_pipeline.canonical_encoding import Unsupported, int32, int64
from quorum_pipeline.compaction import columns as c
from quorum_pipeline.compaction import tags
from quorum_pipeline.compaction.columns import (
    NONE,
    PARTITION_KEY_BYTES,
    UUID_BYTES,
    partition_row,
    row_of,
)
from quorum_pipeline.compaction.elr_updates import (
    MAX_ELR_UPDATES,
    add_elr_update,
    elr_flags,
    next_elr_update,
)
from quorum_pipeline.compaction.frames import HEAD_BYTES
from quorum_pipeline.compaction.internal_records import (
    COMBINED_ARRAYS,
    COMBINED_CHANGE,
    COMBINED_NUMBERS_BYTES,
    LEADER_AT,
    LEADERS_AT,
    RECOVERY_AT,
    array_element_bytes,
)
from quorum_pipeline.compaction.prefetching import PREFETCH_RECORDS, prefetch_rows
from quorum_pipeline.compaction.values import (
    ABSENT,
    INT8_BYTES,
    INT32_BYTES,
    MAX_BYTES,
    array_count,
    array_end,
    check_tags,
    int8,
    no_tags,
    tag,
    text_end,
    uvarint,
)
from quorum_pipeline.compiled import Bytes, Numbers, Table, compiled, inner

_TOPIC, _REMOVE_TOPIC = md.TopicRecord.RECORD_TYPE, md.RemoveTopicRecord.RECORD_TYPE
_PARTITION, _CHANGE = md.PartitionRecord.RECORD_TYPE, md.PartitionChangeRecord.RECORD_TYPE
_CONFIG, _CLEAR_ELR = md.ConfigRecord.RECORD_TYPE, md.ClearElrRecord.RECORD_TYPE
_NO_OP = md.NoOpRecord.RECORD_TYPE
_BEGIN, _END = md.BeginTransactionRecord.RECORD_TYPE, md.EndTransactionRecord.RECORD_TYPE
_ABORT = md.AbortTransactionRecord.RECORD_TYPE
_OPEN_CHANGE = c.EXISTS
"""Column of a partition here: the row of the combined change to which later changes can be added, or NONE."""
_LEADER_UNCHANGED, _RECOVERY_UNCHANGED = md.LEADER_UNCHANGED, md.RECOVERY_UNCHANGED

FIRST, KEY_AT, COUNT, LEADERS, LEADER, RECOVERY = range(6)
ISR, REPLICAS, REMOVING, ADDING, DIRECTORIES, ELR, LAST_KNOWN_ELR = range(6, 13)
BOUNDARIES, CLEARS, ELR_UPDATES, FIRST_ELR_UPDATE, LAST_ELR_UPDATE, COMBINED_CHANGE_COLUMNS = range(
    13, 19
)
"""Columns of combined changes: number of the first record, position of the key, number of changes, number of those with a
leader, the last leader and recovery state, positions of the last arrays or ABSENT, the number of earlier transaction boundaries
and 1, the number of earlier ClearElr records, the number of ELR updates, and the rows of the first and the last one. If combined
changes are read, FIRST_ELR_UPDATE is the position of their ELR updates.
"""
REMOVED, KEPT, COMBINED = 0, 1, 2
"""Result for a record: it has no lasting effect, it is kept, or it is a combination of changes."""


@inner
def _directories_fit(data: Bytes, change: Numbers) -> bool:
    """Whether there is one directory for each replica, or none."""
    count = array_count(data, change[DIRECTORIES])
    if count == array_count(data, change[REPLICAS]):
        return True
    at = change[DIRECTORIES] + 1
    known = int64(0)
    for index in range(at, at + count * UUID_BYTES):
        known |= int64(data[index])
    return known == 0


@inner
def _read_change(data: Bytes, begin: int, end: int, change: Numbers) -> bool:
    """Read one record into `change`. False if its effect depends on the state."""
    at = begin + PARTITION_KEY_BYTES
    if at > end:
        raise Unsupported
    change[COUNT], change[LEADERS] = 1, 0
    change[LEADER], change[RECOVERY] = _LEADER_UNCHANGED, _RECOVERY_UNCHANGED
    change[ELR_UPDATES] = 0
    for column in range(ISR, BOUNDARIES):
        change[column] = ABSENT
    version = data[begin - 1]
    count, at = uvarint(data, at, end)
    last = -1
    for _ in range(count):
        last, at, stop = tag(data, at, end, last)
        if last == tags.CHANGE_LEADER or last == tags.CHANGE_RECOVERY:
            if stop != at + (INT32_BYTES if last == tags.CHANGE_LEADER else INT8_BYTES):
                raise Unsupported
            if last == tags.CHANGE_LEADER:
                change[LEADER] = int32(data, at)
            else:
                change[RECOVERY] = int8(data, at)
        elif last == tags.CHANGE_DIRECTORIES:
            is_known = version >= tags.CHANGE_DIRECTORIES_SINCE
            if not is_known or array_end(data, at, stop, UUID_BYTES) != stop:
                raise Unsupported
            if data[at]:
                change[DIRECTORIES] = at
        elif (
            last > tags.CHANGE_DIRECTORIES
            or array_end(data, at, stop, INT32_BYTES) != stop
            or (last >= tags.CHANGE_ELR and version < tags.CHANGE_ELR_SINCE)
        ):
            raise Unsupported
        elif data[at]:
            if last == tags.CHANGE_ISR:
                change[ISR] = at
            elif last <= tags.CHANGE_ADDING:
                change[REPLICAS + last - tags.CHANGE_REPLICAS] = at
            else:
                change[ELR + last - tags.CHANGE_ELR] = at
        at = stop
    if at != end:
        raise Unsupported
    if change[LEADER] != _LEADER_UNCHANGED:
        change[LEADERS] = 1
    if (change[REPLICAS] < 0) != (change[DIRECTORIES] < 0):
        return False
    return change[REPLICAS] < 0 or _directories_fit(data, change)


@inner
def _read_combined_change(data: Bytes, begin: int, end: int, change: Numbers) -> None:
    """Read earlier combined changes into `change`."""
    at = begin + PARTITION_KEY_BYTES
    change[COUNT], change[LEADERS] = int32(data, at), int32(data, at + LEADERS_AT)
    change[LEADER], change[RECOVERY] = int32(data, at + LEADER_AT), int8(data, at + RECOVERY_AT)
    at += COMBINED_NUMBERS_BYTES
    for index in range(COMBINED_ARRAYS):
        change[ISR + index] = at if data[at] else ABSENT
        at = array_end(data, at, end, array_element_bytes(index))
    change[ELR_UPDATES], change[FIRST_ELR_UPDATE] = data[begin - 1], at


@inner
def _add(combined: Numbers, change: Numbers) -> None:
    combined[COUNT] += change[COUNT]
    if change[LEADERS]:
        combined[LEADERS] += change[LEADERS]
        combined[LEADER] = change[LEADER]
    if change[RECOVERY] != _RECOVERY_UNCHANGED:
        combined[RECOVERY] = change[RECOVERY]
    for column in range(ISR, BOUNDARIES):
        if change[column] >= 0:
            combined[column] = change[column]


@inner
def _begin_combined_change(
    combined: Numbers, index: int, key_at: int, boundaries: int, clears: int
) -> None:
    """Fill in the row of no changes."""
    combined[FIRST], combined[KEY_AT], combined[COUNT], combined[LEADERS] = index, key_at, 0, 0
    combined[LEADER], combined[RECOVERY] = _LEADER_UNCHANGED, _RECOVERY_UNCHANGED
    combined[ISR:BOUNDARIES] = ABSENT
    combined[BOUNDARIES], combined[CLEARS], combined[ELR_UPDATES] = boundaries, clears, 0
    combined[FIRST_ELR_UPDATE] = combined[LAST_ELR_UPDATE] = NONE


@inner
def _continues(
    combined: Numbers, change: Numbers, boundaries: int, clears: int, elr_updates: Table
) -> bool:
    """Whether a change has the same effect where `combined` began, with more ELR updates if there is room for any."""
    if combined[BOUNDARIES] != boundaries:
        return False
    sets_cleared = change[ELR] >= 0 or change[LAST_KNOWN_ELR] >= 0
    if not sets_cleared or (combined[CLEARS] == clears and not change[ELR_UPDATES]):
        return True
    return bool(
        len(elr_updates.rows) > 1
        and combined[ELR_UPDATES] + change[ELR_UPDATES] + 2 <= MAX_ELR_UPDATES
    )


@inner
def _add_elr_update(elr_updates: Table, combined: Numbers, interval: int, flags: int) -> None:
    row = add_elr_update(elr_updates, combined[LAST_ELR_UPDATE], interval, flags)
    if row != combined[LAST_ELR_UPDATE]:
        combined[ELR_UPDATES] += 1
        combined[LAST_ELR_UPDATE] = row
        if combined[FIRST_ELR_UPDATE] == NONE:
            combined[FIRST_ELR_UPDATE] = row


@inner
def _add_elr_updates(
    data: Bytes, change: Numbers, passed: int, elr_updates: Table, combined: Numbers
) -> None:
    """Add updates for what a change sets, before it is added itself. `passed`: number of ClearElr records since the first change.
    The first interval needs an update only if there are others.
    """
    flags = elr_flags(data, change[ELR], change[LAST_KNOWN_ELR])
    if not change[ELR_UPDATES] and (not flags or not passed):
        return
    if not combined[ELR_UPDATES]:
        before = elr_flags(data, combined[ELR], combined[LAST_KNOWN_ELR])
        if before:
            _add_elr_update(elr_updates, combined, 0, before)
    if not change[ELR_UPDATES]:
        _add_elr_update(elr_updates, combined, passed, flags)
    at = change[FIRST_ELR_UPDATE]
    for _ in range(change[ELR_UPDATES]):
        step, flags, at = next_elr_update(data, at)
        passed += step
        _add_elr_update(elr_updates, combined, passed, flags)


@inner
def _row_of_partition(data: Bytes, begin: int, topics: Table, partitions: Table) -> int:
    """Return the row of a partition; a new one is added to the list of its topic."""
    known = partitions.rows[0, 0]
    row = partition_row(partitions, data, begin, True)
    if row > known:
        topic = row_of(topics, data, begin + INT32_BYTES, UUID_BYTES, True)
        partitions.rows[row, c.NEXT_PARTITION] = topics.rows[topic, c.FIRST_PARTITION]
        topics.rows[topic, c.FIRST_PARTITION] = row
    return row


@inner
def _close_topic(data: Bytes, id_at: int, end: int, topics: Table, partitions: Table) -> None:
    """End combining for a topic id: later records are about another topic."""
    if id_at + UUID_BYTES > end:
        raise Unsupported
    topic = row_of(topics, data, id_at, UUID_BYTES, False)
    if topic:
        row = topics.rows[topic, c.FIRST_PARTITION]
        while row:
            partitions.rows[row, _OPEN_CHANGE] = NONE
            row = partitions.rows[row, c.NEXT_PARTITION]


@inner
def _compact_config(
    data: Bytes, begin: int, end: int, index: int, boundaries: int, configs: Table, kept: Bytes
) -> None:
    if begin >= end:
        raise Unsupported
    value_at = text_end(data, text_end(data, begin + 1, end, False), end, False)
    no_tags(data, text_end(data, value_at, end, True), end)
    row = row_of(configs, data, begin, value_at - begin, True)
    before = configs.rows[row, c.VALUE]
    if before and configs.rows[row, c.NEXT_CONFIG] == boundaries:
        kept[before - 1] = REMOVED
    configs.rows[row, c.VALUE], configs.rows[row, c.NEXT_CONFIG] = index + 1, boundaries


@compiled
def compact(
    data: Bytes,
    begins: Numbers,
    ends: Numbers,
    kinds: Bytes,
    topics: Table,
    partitions: Table,
    configs: Table,
    combined: Table,
    updates: Table,
    kept: Bytes,
) -> int:
    """Fill in `kept` and the rows of `combined` and `updates`. Without room in `updates` there are none. The return value
    has no meaning (`prefetching.py`). Raises Unsupported.
    """
    change = np.zeros(COMBINED_CHANGE_COLUMNS, np.int64)
    boundaries, clears, count, seen = int64(1), int64(0), int64(0), int64(0)
    for index in range(len(begins)):
        if index % PREFETCH_RECORDS == 0:
            seen += prefetch_rows(data, begins, ends, kinds, index, partitions)
        kind, begin, end = kinds[index], begins[index] + HEAD_BYTES, ends[index]
        if end - begin > MAX_BYTES and kind != _CONFIG and kind != COMBINED_CHANGE:
            raise Unsupported
        kept[index] = KEPT
        if kind in (_CHANGE, COMBINED_CHANGE):
            simple = True
            if kind == COMBINED_CHANGE:
                _read_combined_change(data, begin, end, change)
            else:
                simple = _read_change(data, begin, end, change)
            row = _row_of_partition(data, begin, topics, partitions)
            if not simple:
                partitions.rows[row, _OPEN_CHANGE] = NONE
                continue
            known = partitions.rows[row, _OPEN_CHANGE]
            if known and _continues(combined.rows[known], change, boundaries, clears, updates):
                kept[index] = REMOVED
            else:
                count += 1
                known = count
                partitions.rows[row, _OPEN_CHANGE] = count
                _begin_combined_change(combined.rows[known], index, begin, boundaries, clears)
                kept[index] = COMBINED
            passed = clears - combined.rows[known, CLEARS]
            _add_elr_updates(data, change, passed, updates, combined.rows[known])
            _add(combined.rows[known], change)
        elif kind == _PARTITION:
            if begin + PARTITION_KEY_BYTES > end:
                raise Unsupported
            row = partition_row(partitions, data, begin, False)
            if row:
                partitions.rows[row, _OPEN_CHANGE] = NONE
        elif kind == _CONFIG:
            _compact_config(data, begin, end, index, boundaries, configs, kept)
        elif kind == _NO_OP:
            check_tags(data, begin, end)
            kept[index] = REMOVED
        elif kind == _TOPIC:
            _close_topic(data, text_end(data, begin, end, False), end, topics, partitions)
        elif kind == _REMOVE_TOPIC:
            _close_topic(data, begin, end, topics, partitions)
            no_tags(data, begin + UUID_BYTES, end)
        elif kind == _CLEAR_ELR:
            no_tags(data, text_end(data, begin, end, False), end)
            clears += 1
        elif kind in (_BEGIN, _END, _ABORT):
            boundaries += 1
    return seen
