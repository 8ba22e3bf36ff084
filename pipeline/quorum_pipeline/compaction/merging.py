"""Applies records to the tables: replay by the rules of the image (`quorum_node.image`), on positions instead of
objects. PURE, compiled.

Owns which field of which record supersedes what. The state before the first record is known, so a partition of an
unknown topic, a change of an unknown partition, and every contradictory or unusual record raises Unusual. Source:
KIP-631, "Topic records"; KIP-858 (directories); KIP-966 (eligible leader replicas), as a stock 4.x controller replays
them.
"""

from quorum_node.image.resource_types import TOPIC as TOPIC_RESOURCE
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
from quorum_pipeline.compaction.marks import clear_marked, take_marks
from quorum_pipeline.compaction.sums import (
    REMOVED_NAME,
    SUM,
    SUM_ARRAYS,
    SUM_DIRECTORIES,
    SUM_ELR,
    SUM_NUMBERS_BYTES,
    sum_arrays_end,
    sum_element_bytes,
)
from quorum_pipeline.compaction.values import (
    ABSENT,
    MOST_BYTES,
    array_count,
    array_end,
    check_tags,
    int8,
    no_tags,
    required_array_end,
    tag,
    text_end,
    uvarint,
)
from quorum_pipeline.compiled import Bytes, Numbers, Table, compiled, inner
from quorum_pipeline.plain_form import Unusual, int32, int64

TOPIC = md.TopicRecord.RECORD_TYPE
REMOVE_TOPIC = md.RemoveTopicRecord.RECORD_TYPE
PARTITION = md.PartitionRecord.RECORD_TYPE
PARTITION_CHANGE = md.PartitionChangeRecord.RECORD_TYPE
CONFIG = md.ConfigRecord.RECORD_TYPE
CLEAR_ELR = md.ClearElrRecord.RECORD_TYPE
_RECOVERED = md.RECOVERED
_LEADER_UNCHANGED, _RECOVERY_UNCHANGED = md.LEADER_UNCHANGED, md.RECOVERY_UNCHANGED
_MOST_INT32 = (1 << 31) - 1


@inner
def _elements(data: Bytes, at: int, stop: int) -> int:
    """Position of an array; ABSENT if it is empty."""
    if array_end(data, at, stop, 4) != stop:
        raise Unusual
    return at if array_count(data, at) > 0 else ABSENT


@inner
def _place(data: Bytes, fields: Numbers) -> None:
    """Check that there is a directory for every replica, or none yet."""
    at = fields[c.DIRECTORIES]
    if at < 0:
        return
    count = array_count(data, at)
    if count == array_count(data, fields[c.REPLICAS]):
        return
    for index in range(at + 1, at + 1 + count * UUID_BYTES):
        if data[index]:
            raise Unusual  # too few or too many elements
    fields[c.DIRECTORIES] = ABSENT


@inner
def _plain_fields(data: Bytes, at: int, end: int, version: int, fields: Numbers) -> int:
    for column in (c.REPLICAS, c.ISR, c.REMOVING, c.ADDING):
        fields[column] = at
        at = required_array_end(data, at, end, 4)
    if at + 12 > end:
        raise Unusual
    fields[c.LEADER] = int32(data, at)
    fields[c.LEADER_EPOCH] = int32(data, at + 4)
    fields[c.PARTITION_EPOCH] = int32(data, at + 8)
    at += 12
    fields[c.DIRECTORIES] = ABSENT
    if version >= 1:
        fields[c.DIRECTORIES] = at
        at = required_array_end(data, at, end, UUID_BYTES)
    return at


@inner
def _tagged_fields(data: Bytes, at: int, end: int, version: int, fields: Numbers) -> None:
    fields[c.RECOVERY] = _RECOVERED
    fields[c.ELR] = fields[c.LAST_KNOWN_ELR] = ABSENT
    fields[c.TAG_COUNT] = 0
    count, at = uvarint(data, at, end)
    last = -1
    for done in range(count):
        tag_at = at
        last, at, stop = tag(data, at, end, last)
        if last == 0:
            if stop != at + 1:
                raise Unusual
            fields[c.RECOVERY] = int8(data, at)
        elif version < 2:
            # not expressible in the newest version, where these values have another meaning
            raise Unusual
        elif last <= 2:
            fields[c.ELR + last - 1] = _elements(data, at, stop)
        elif not fields[c.TAG_COUNT]:
            fields[c.TAGS], fields[c.TAGS_END], fields[c.TAG_COUNT] = tag_at, end, count - done
        at = stop
    if at != end:
        raise Unusual


@inner
def _partition(data: Bytes, begin: int, end: int, topics: Table, partitions: Table) -> None:
    """Replay a PartitionRecord: all columns are set."""
    if begin + PARTITION_KEY_BYTES > end:
        raise Unusual
    row = partition_row(partitions, data, begin, True)
    fields = partitions.rows[row]
    if not fields[c.THERE]:
        id_at = begin + PARTITION_KEY_BYTES - UUID_BYTES
        topic = row_of(topics, data, id_at, UUID_BYTES, False)
        if not topic or not topics.rows[topic, c.RECORD]:
            raise Unusual
        fields[c.THERE] = 1
        fields[c.NEXT_PARTITION] = topics.rows[topic, c.FIRST_PARTITION]
        topics.rows[topic, c.FIRST_PARTITION] = row
    fields[c.MARKS_UNTIL] = 0
    version = data[begin - 1]
    at = _plain_fields(data, begin + PARTITION_KEY_BYTES, end, version, fields)
    _tagged_fields(data, at, end, version, fields)
    _place(data, fields)


@inner
def _set_number(data: Bytes, at: int, stop: int, number: int, fields: Numbers) -> None:
    if stop != at + (4 if number == 1 else 1):
        raise Unusual
    if number == 5:
        if int8(data, at) != _RECOVERY_UNCHANGED:
            fields[c.RECOVERY] = int8(data, at)
    elif int32(data, at) != _LEADER_UNCHANGED:
        fields[c.LEADER] = int32(data, at)
        fields[c.LEADER_EPOCH] += 1


@inner
def _change(data: Bytes, begin: int, end: int, partitions: Table) -> None:
    at = begin + PARTITION_KEY_BYTES
    if at > end:
        raise Unusual
    row = partition_row(partitions, data, begin, False)
    fields = partitions.rows[row]
    if not row or not fields[c.THERE]:
        raise Unusual
    version = data[begin - 1]
    count, at = uvarint(data, at, end)
    last, moves = -1, False
    for _ in range(count):
        last, at, stop = tag(data, at, end, last)
        if last == 1 or last == 5:
            _set_number(data, at, stop, last, fields)
        elif last == 8:
            if version < 1 or array_end(data, at, stop, UUID_BYTES) != stop:
                raise Unusual
            if data[at]:
                fields[c.DIRECTORIES], moves = at, True
        elif last > 8 or (last > 5 and version < 2) or array_end(data, at, stop, 4) != stop:
            raise Unusual
        elif not data[at]:
            pass  # null: unchanged
        elif last == 0:
            fields[c.ISR] = at
        elif last == 2:
            fields[c.REPLICAS], moves = at, True
        elif last <= 4:
            fields[c.REMOVING + last - 3] = at
        else:
            fields[c.ELR + last - 6] = _elements(data, at, stop)
        at = stop
    fields[c.PARTITION_EPOCH] += 1
    if at != end or max(fields[c.PARTITION_EPOCH], fields[c.LEADER_EPOCH]) > _MOST_INT32:
        raise Unusual
    if moves:
        _place(data, fields)


@inner
def _sum(data: Bytes, begin: int, end: int, clears: int, partitions: Table) -> None:
    """Apply combined changes (`sums.py`). `clears`: number of earlier ClearElr records."""
    row = partition_row(partitions, data, begin, False)
    fields = partitions.rows[row]
    if not row or not fields[c.THERE]:
        raise Unusual
    at = begin + PARTITION_KEY_BYTES
    leaders = int32(data, at + 4)
    fields[c.PARTITION_EPOCH] += int32(data, at)
    if leaders:
        fields[c.LEADER] = int32(data, at + 8)
        fields[c.LEADER_EPOCH] += leaders
    if int8(data, at + 12) != _RECOVERY_UNCHANGED:
        fields[c.RECOVERY] = int8(data, at + 12)
    if max(fields[c.PARTITION_EPOCH], fields[c.LEADER_EPOCH]) > _MOST_INT32:
        raise Unusual
    at += SUM_NUMBERS_BYTES
    if data[begin - 1]:
        take_marks(data, sum_arrays_end(data, at, end), data[begin - 1], clears, fields)
    moves = False
    for index in range(SUM_ARRAYS):
        stop = array_end(data, at, end, sum_element_bytes(index))
        if data[at]:
            if index == 0:
                fields[c.ISR] = at
            elif index >= SUM_ELR:
                fields[c.REPLICAS + index - 1] = _elements(data, at, stop)
            else:
                fields[c.REPLICAS + index - 1] = at
            moves = moves or index == SUM_DIRECTORIES
        at = stop
    if moves:
        _place(data, fields)


@inner
def _topic(data: Bytes, begin: int, end: int, index: int, topics: Table, names: Table) -> None:
    id_at = text_end(data, begin, end, False)
    if id_at + UUID_BYTES > end:
        raise Unusual
    check_tags(data, id_at + UUID_BYTES, end)
    topic = row_of(topics, data, id_at, UUID_BYTES, True)
    name = row_of(names, data, begin, id_at - begin, True)
    if topics.rows[topic, c.RECORD] or names.rows[name, c.TOPIC]:
        raise Unusual  # a duplicate, or one name of two topics
    names.rows[name, c.TOPIC] = topic
    topics.rows[topic, c.RECORD] = index + 1
    topics.rows[topic, c.NAME] = name
    topics.rows[topic, c.FIRST_PARTITION] = NONE


@inner
def _drop_configs(names: Table, configs: Table, name: int) -> None:
    config = names.rows[name, c.FIRST_CONFIG]
    while config:
        configs.rows[config, c.VALUE] = NONE
        config = configs.rows[config, c.NEXT_CONFIG]


@inner
def _remove(
    data: Bytes,
    begin: int,
    end: int,
    index: int,
    topics: Table,
    names: Table,
    partitions: Table,
    configs: Table,
) -> None:
    """Remove a topic with its partitions and its configs."""
    if begin + UUID_BYTES > end:
        raise Unusual
    no_tags(data, begin + UUID_BYTES, end)
    topic = row_of(topics, data, begin, UUID_BYTES, False)
    if not topic or not topics.rows[topic, c.RECORD]:
        return
    topics.rows[topic, c.RECORD] = NONE
    partition = topics.rows[topic, c.FIRST_PARTITION]
    while partition:
        partitions.rows[partition, c.THERE] = 0
        partition = partitions.rows[partition, c.NEXT_PARTITION]
    name = topics.rows[topic, c.NAME]
    names.rows[name, c.TOPIC] = NONE
    names.rows[name, c.REMOVED_BY] = index + 1
    _drop_configs(names, configs, name)


@inner
def _config(data: Bytes, begin: int, end: int, index: int, names: Table, configs: Table) -> None:
    if begin >= end:
        raise Unusual
    name_at = text_end(data, begin + 1, end, False)
    value_at = text_end(data, name_at, end, False)
    no_tags(data, text_end(data, value_at, end, True), end)
    known = configs.rows[0, 0]
    config = row_of(configs, data, begin, value_at - begin, True)
    if config > known and data[begin] == TOPIC_RESOURCE:
        name = row_of(names, data, begin + 1, name_at - begin - 1, True)
        configs.rows[config, c.NEXT_CONFIG] = names.rows[name, c.FIRST_CONFIG]
        names.rows[name, c.FIRST_CONFIG] = config
    configs.rows[config, c.VALUE] = index + 1 if data[value_at] else NONE


@inner
def _clear_partition(data: Bytes, clears: int, fields: Numbers) -> bool:
    """Clear the eligible leader replicas of a partition; return whether it had any."""
    if clears < fields[c.MARKS_UNTIL]:
        return clear_marked(data, clears, fields)
    if fields[c.ELR] < 0 and fields[c.LAST_KNOWN_ELR] < 0:
        return False
    fields[c.ELR] = fields[c.LAST_KNOWN_ELR] = ABSENT
    return True


@inner
def _clear_topic(data: Bytes, clears: int, topics: Table, partitions: Table, topic: int) -> None:
    row = topics.rows[topic, c.FIRST_PARTITION]
    while row:
        fields = partitions.rows[row]
        if _clear_partition(data, clears, fields):
            fields[c.PARTITION_EPOCH] += 1
            if fields[c.PARTITION_EPOCH] > _MOST_INT32:
                raise Unusual
        row = fields[c.NEXT_PARTITION]


@inner
def _clear_elr(
    data: Bytes,
    begin: int,
    end: int,
    clears: int,
    topics: Table,
    names: Table,
    partitions: Table,
) -> None:
    """Clear eligible leader replicas of one topic, or (without a name) of all. It is a change only if there are any.

    `clears`: number of earlier ClearElr records.
    """
    stop = text_end(data, begin, end, False)
    no_tags(data, stop, end)
    name = row_of(names, data, begin, stop - begin, False)
    if name and names.rows[name, c.TOPIC]:
        _clear_topic(data, clears, topics, partitions, names.rows[name, c.TOPIC])
    elif stop == begin + 1:
        for topic in range(1, topics.rows[0, 0] + 1):
            if topics.rows[topic, c.RECORD]:
                _clear_topic(data, clears, topics, partitions, topic)


@compiled
def merge(
    data: Bytes,
    begins: Numbers,
    ends: Numbers,
    kinds: Bytes,
    topics: Table,
    names: Table,
    partitions: Table,
    configs: Table,
) -> int:
    """Apply all records of these types in order and skip others. Raises Unusual. The return value has no meaning (see
    `looking_ahead.py`).
    """
    seen, clears = int64(0), int64(0)
    for index in range(len(begins)):
        if index % AHEAD == 0:
            seen += look_ahead(data, begins, ends, kinds, index, partitions)
        kind, begin, end = kinds[index], begins[index] + HEAD_BYTES, ends[index]
        if end - begin > MOST_BYTES and kind != CONFIG and kind != SUM:
            raise Unusual
        if kind == PARTITION_CHANGE:
            _change(data, begin, end, partitions)
        elif kind == SUM:
            _sum(data, begin, end, clears, partitions)
        elif kind == PARTITION:
            _partition(data, begin, end, topics, partitions)
        elif kind == CONFIG:
            _config(data, begin, end, index, names, configs)
        elif kind == TOPIC:
            _topic(data, begin, end, index, topics, names)
        elif kind == REMOVE_TOPIC:
            _remove(data, begin, end, index, topics, names, partitions, configs)
        elif kind == CLEAR_ELR:
            _clear_elr(data, begin, end, clears, topics, names, partitions)
            clears += 1
        elif kind == REMOVED_NAME:
            name = row_of(names, data, begin, end - begin, False)
            if name:
                _drop_configs(names, configs, name)
    return seen
