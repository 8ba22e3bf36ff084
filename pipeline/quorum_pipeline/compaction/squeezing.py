"""Removes superseded records of a run without knowing the state before it, and combines changes of one partition.
PURE, compiled.

Owns what can be combined without the state: changes of a partition without another record about it in between
(including previously combined ones: `sums.py`), config values between two transaction boundaries, records without
effect. A change that depends on the state (only replicas, or only directories) is kept as a record. A change is moved
to the first one that it is combined with. It may pass a ClearElr record, of whichever topic; if it sets what that
clears, eligible leader replicas, the combination says where (`marks.py`). So the name in a ClearElr needs no topic here,
where it may be unknown. Anything unusual raises Unusual; then records are reduced one by one. Source: KIP-631,
"PartitionChangeRecord"; KIP-858 (directories); KIP-966 (eligible leader replicas).
"""

import numpy as np

from quorum_node.records import metadata as md
from quorum_pipeline.compaction import columns as c
from quorum_pipeline.compaction.columns import (
    NONE,
    PARTITION_KEY_BYTES,
    UUID_BYTES,
    partition_row,
    row_of,
)
from quorum_pipeline.compaction.frames import HEAD_BYTES
from quorum_pipeline.compaction.looking_ahead import AHEAD, look_ahead
from quorum_pipeline.compaction.marks import MOST_MARKS, add_mark, mark_of, next_mark
from quorum_pipeline.compaction.sums import SUM, SUM_ARRAYS, SUM_NUMBERS_BYTES, sum_element_bytes
from quorum_pipeline.compaction.values import (
    ABSENT,
    MOST_BYTES,
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
from quorum_pipeline.plain_form import Unusual, int32, int64

_TOPIC, _REMOVE_TOPIC = md.TopicRecord.RECORD_TYPE, md.RemoveTopicRecord.RECORD_TYPE
_PARTITION, _CHANGE = md.PartitionRecord.RECORD_TYPE, md.PartitionChangeRecord.RECORD_TYPE
_CONFIG, _CLEAR_ELR = md.ConfigRecord.RECORD_TYPE, md.ClearElrRecord.RECORD_TYPE
_NO_OP = md.NoOpRecord.RECORD_TYPE
_BEGIN, _END = md.BeginTransactionRecord.RECORD_TYPE, md.EndTransactionRecord.RECORD_TYPE
_ABORT = md.AbortTransactionRecord.RECORD_TYPE
_LEADER_UNCHANGED, _RECOVERY_UNCHANGED = md.LEADER_UNCHANGED, md.RECOVERY_UNCHANGED

FIRST, KEY_AT, COUNT, LEADERS, LEADER, RECOVERY = range(6)
ISR, REPLICAS, REMOVING, ADDING, DIRECTORIES, ELR, LAST_KNOWN_ELR = range(6, 13)
PERIOD, CLEARS, MARKS, FIRST_MARK, LAST_MARK, SUM_COLUMNS = range(13, 19)
"""Columns of combined changes: number of the first record, position of the key, number of changes, number of those with a leader, the last
leader and recovery state, positions of the last arrays or ABSENT, the period between two transaction boundaries, the number of earlier
ClearElr records, the number of marks, and the rows of the first and the last one. If combined changes are read, FIRST_MARK is the position of
their marks."""
LEFT_OUT, KEPT, SUMMED = 0, 1, 2
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
        raise Unusual
    change[COUNT], change[LEADERS] = 1, 0
    change[LEADER], change[RECOVERY] = _LEADER_UNCHANGED, _RECOVERY_UNCHANGED
    change[MARKS] = 0
    for column in range(ISR, PERIOD):
        change[column] = ABSENT
    version = data[begin - 1]
    count, at = uvarint(data, at, end)
    last = -1
    for _ in range(count):
        last, at, stop = tag(data, at, end, last)
        if last == 1 or last == 5:
            if stop != at + (4 if last == 1 else 1):
                raise Unusual
            if last == 1:
                change[LEADER] = int32(data, at)
            else:
                change[RECOVERY] = int8(data, at)
        elif last == 8:
            if version < 1 or array_end(data, at, stop, UUID_BYTES) != stop:
                raise Unusual
            if data[at]:
                change[DIRECTORIES] = at
        elif last > 8 or (last > 5 and version < 2) or array_end(data, at, stop, 4) != stop:
            raise Unusual
        elif data[at]:
            if last == 0:
                change[ISR] = at
            elif last <= 4:
                change[REPLICAS + last - 2] = at
            else:
                change[ELR + last - 6] = at
        at = stop
    if at != end:
        raise Unusual
    if change[LEADER] != _LEADER_UNCHANGED:
        change[LEADERS] = 1
    if (change[REPLICAS] < 0) != (change[DIRECTORIES] < 0):
        return False
    return change[REPLICAS] < 0 or _directories_fit(data, change)


@inner
def _read_sum(data: Bytes, begin: int, end: int, change: Numbers) -> None:
    """Read earlier combined changes into `change`."""
    at = begin + PARTITION_KEY_BYTES
    change[COUNT], change[LEADERS] = int32(data, at), int32(data, at + 4)
    change[LEADER], change[RECOVERY] = int32(data, at + 8), int8(data, at + 12)
    at += SUM_NUMBERS_BYTES
    for index in range(SUM_ARRAYS):
        change[ISR + index] = at if data[at] else ABSENT
        at = array_end(data, at, end, sum_element_bytes(index))
    change[MARKS], change[FIRST_MARK] = data[begin - 1], at


@inner
def _add(sums: Numbers, change: Numbers) -> None:
    sums[COUNT] += change[COUNT]
    if change[LEADERS]:
        sums[LEADERS] += change[LEADERS]
        sums[LEADER] = change[LEADER]
    if change[RECOVERY] != _RECOVERY_UNCHANGED:
        sums[RECOVERY] = change[RECOVERY]
    for column in range(ISR, PERIOD):
        if change[column] >= 0:
            sums[column] = change[column]


@inner
def _begin_sum(sums: Numbers, index: int, key_at: int, period: int, clears: int) -> None:
    """Fill in the row of no changes."""
    sums[FIRST], sums[KEY_AT], sums[COUNT], sums[LEADERS] = index, key_at, 0, 0
    sums[LEADER], sums[RECOVERY] = _LEADER_UNCHANGED, _RECOVERY_UNCHANGED
    sums[ISR:PERIOD] = ABSENT
    sums[PERIOD], sums[CLEARS], sums[MARKS] = period, clears, 0
    sums[FIRST_MARK] = sums[LAST_MARK] = NONE


@inner
def _continues(sums: Numbers, change: Numbers, period: int, clears: int, marks: Table) -> bool:
    """Whether a change has the same effect where `sums` began, with more marks if there is room for any."""
    if sums[PERIOD] != period:
        return False
    sets_cleared = change[ELR] >= 0 or change[LAST_KNOWN_ELR] >= 0
    if not sets_cleared or (sums[CLEARS] == clears and not change[MARKS]):
        return True
    return bool(len(marks.rows) > 1 and sums[MARKS] + change[MARKS] + 2 <= MOST_MARKS)


@inner
def _mark(marks: Table, sums: Numbers, stretch: int, mark: int) -> None:
    row = add_mark(marks, sums[LAST_MARK], stretch, mark)
    if row != sums[LAST_MARK]:
        sums[MARKS] += 1
        sums[LAST_MARK] = row
        if sums[FIRST_MARK] == NONE:
            sums[FIRST_MARK] = row


@inner
def _add_marks(data: Bytes, change: Numbers, passed: int, marks: Table, sums: Numbers) -> None:
    """Mark what a change sets, before it is added. `passed`: number of ClearElr records since the first change. The first
    stretch needs a mark only if there are others.
    """
    mark = mark_of(data, change[ELR], change[LAST_KNOWN_ELR])
    if not change[MARKS] and (not mark or not passed):
        return
    if not sums[MARKS]:
        before = mark_of(data, sums[ELR], sums[LAST_KNOWN_ELR])
        if before:
            _mark(marks, sums, 0, before)
    if not change[MARKS]:
        _mark(marks, sums, passed, mark)
    at = change[FIRST_MARK]
    for _ in range(change[MARKS]):
        step, mark, at = next_mark(data, at)
        passed += step
        _mark(marks, sums, passed, mark)


@inner
def _row_of_partition(data: Bytes, begin: int, topics: Table, partitions: Table) -> int:
    """Return the row of a partition; a new one is added to the list of its topic."""
    known = partitions.rows[0, 0]
    row = partition_row(partitions, data, begin, True)
    if row > known:
        topic = row_of(topics, data, begin + 4, UUID_BYTES, True)
        partitions.rows[row, c.NEXT_PARTITION] = topics.rows[topic, c.FIRST_PARTITION]
        topics.rows[topic, c.FIRST_PARTITION] = row
    return row


@inner
def _close_topic(data: Bytes, id_at: int, end: int, topics: Table, partitions: Table) -> None:
    """End combining for a topic id: later records are about another topic."""
    if id_at + UUID_BYTES > end:
        raise Unusual
    topic = row_of(topics, data, id_at, UUID_BYTES, False)
    if topic:
        row = topics.rows[topic, c.FIRST_PARTITION]
        while row:
            partitions.rows[row, c.THERE] = NONE
            row = partitions.rows[row, c.NEXT_PARTITION]


@inner
def _squeeze_config(
    data: Bytes, begin: int, end: int, index: int, period: int, configs: Table, kept: Bytes
) -> None:
    if begin >= end:
        raise Unusual
    value_at = text_end(data, text_end(data, begin + 1, end, False), end, False)
    no_tags(data, text_end(data, value_at, end, True), end)
    row = row_of(configs, data, begin, value_at - begin, True)
    before = configs.rows[row, c.VALUE]
    if before and configs.rows[row, c.NEXT_CONFIG] == period:
        kept[before - 1] = LEFT_OUT
    configs.rows[row, c.VALUE], configs.rows[row, c.NEXT_CONFIG] = index + 1, period


@compiled
def squeeze(
    data: Bytes,
    begins: Numbers,
    ends: Numbers,
    kinds: Bytes,
    topics: Table,
    partitions: Table,
    configs: Table,
    sums: Table,
    marks: Table,
    kept: Bytes,
) -> int:
    """Fill in `kept` and the rows of `sums` and `marks`. A table of marks without room for any prevents them. Raises Unusual. The return value has no meaning (`looking_ahead.py`)."""
    change = np.zeros(SUM_COLUMNS, np.int64)
    period, clears, count, seen = int64(1), int64(0), int64(0), int64(0)
    for index in range(len(begins)):
        if index % AHEAD == 0:
            seen += look_ahead(data, begins, ends, kinds, index, partitions)
        kind, begin, end = kinds[index], begins[index] + HEAD_BYTES, ends[index]
        if end - begin > MOST_BYTES and kind != _CONFIG and kind != SUM:
            raise Unusual
        kept[index] = KEPT
        if kind in (_CHANGE, SUM):
            simple = True
            if kind == SUM:
                _read_sum(data, begin, end, change)
            else:
                simple = _read_change(data, begin, end, change)
            row = _row_of_partition(data, begin, topics, partitions)
            if not simple:
                partitions.rows[row, c.THERE] = NONE
                continue
            known = partitions.rows[row, c.THERE]
            if known and _continues(sums.rows[known], change, period, clears, marks):
                kept[index] = LEFT_OUT
            else:
                count += 1
                known = count
                partitions.rows[row, c.THERE] = count
                _begin_sum(sums.rows[known], index, begin, period, clears)
                kept[index] = SUMMED
            _add_marks(data, change, clears - sums.rows[known, CLEARS], marks, sums.rows[known])
            _add(sums.rows[known], change)
        elif kind == _PARTITION:
            if begin + PARTITION_KEY_BYTES > end:
                raise Unusual
            row = partition_row(partitions, data, begin, False)
            if row:
                partitions.rows[row, c.THERE] = NONE
        elif kind == _CONFIG:
            _squeeze_config(data, begin, end, index, period, configs, kept)
        elif kind == _NO_OP:
            check_tags(data, begin, end)
            kept[index] = LEFT_OUT
        elif kind == _TOPIC:
            _close_topic(data, text_end(data, begin, end, False), end, topics, partitions)
        elif kind == _REMOVE_TOPIC:
            _close_topic(data, begin, end, topics, partitions)
            no_tags(data, begin + UUID_BYTES, end)
        elif kind == _CLEAR_ELR:
            no_tags(data, text_end(data, begin, end, False), end)
            clears += 1
        elif kind in (_BEGIN, _END, _ABORT):
            period += 1
    return seen
