"""Applies records to the tables: replay by the rules of the image (`quorum_node.image`), on positions instead of
objects. PURE, compiled.

Owns which field of which record supersedes what. The state before the first record is known, so a partition of an
unknown topic, a change of an unknown partition, and every contradictory or unsupported record raises Unsupported. Source:
KIP-631, "Topic records"; KIP-858 (directories); KIP-966 (eligible leader replicas), as a stock 4.x controller replays
them.
"""

from quorum_node.image.resource_types import TOPIC as TOPIC_RESOURCE
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
from quorum_pipeline.compaction.elr_updates import clear_earlier_elr, set_elr_updates
from quorum_pipeline.compaction.frames import HEAD_BYTES
from quorum_pipeline.compaction.internal_records import (
    COMBINED_ARRAYS,
    COMBINED_CHANGE,
    COMBINED_NUMBERS_BYTES,
    DIRECTORIES_ARRAY,
    ELR_ARRAY,
    LEADER_AT,
    LEADERS_AT,
    RECOVERY_AT,
    REMOVED_NAME,
    array_element_bytes,
    combined_arrays_end,
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
    required_array_end,
    tag,
    text_end,
    uvarint,
)
from quorum_pipeline.compiled import Bytes, Numbers, Table, compiled, inner

TOPIC = md.TopicRecord.RECORD_TYPE
REMOVE_TOPIC = md.RemoveTopicRecord.RECORD_TYPE
PARTITION = md.PartitionRecord.RECORD_TYPE
PARTITION_CHANGE = md.PartitionChangeRecord.RECORD_TYPE
CONFIG = md.ConfigRecord.RECORD_TYPE
CLEAR_ELR = md.ClearElrRecord.RECORD_TYPE
_RECOVERED = md.RECOVERED
_LEADER_UNCHANGED, _RECOVERY_UNCHANGED = md.LEADER_UNCHANGED, md.RECOVERY_UNCHANGED
_MAX_INT32 = (1 << 31) - 1


@inner
def _elements(data: Bytes, at: int, stop: int) -> int:
    """Position of an array; ABSENT if it is empty."""
    if array_end(data, at, stop, INT32_BYTES) != stop:
        raise Unsupported
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
            raise Unsupported  # too few or too many elements
    fields[c.DIRECTORIES] = ABSENT


@inner
def _fixed_fields(data: Bytes, at: int, end: int, version: int, fields: Numbers) -> int:
    for column in (c.REPLICAS, c.ISR, c.REMOVING, c.ADDING):
        fields[column] = at
        at = required_array_end(data, at, end, INT32_BYTES)
    if at + 3 * INT32_BYTES > end:
        raise Unsupported
    for column in (c.LEADER, c.LEADER_EPOCH, c.PARTITION_EPOCH):
        fields[column] = int32(data, at)
        at += INT32_BYTES
    fields[c.DIRECTORIES] = ABSENT
    if version >= tags.PARTITION_DIRECTORIES_SINCE:
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
        if last == tags.PARTITION_RECOVERY:
            if stop != at + INT8_BYTES:
                raise Unsupported
            fields[c.RECOVERY] = int8(data, at)
        elif version < tags.PARTITION_ELR_SINCE:
            # not expressible in the newest version, where these values have another meaning
            raise Unsupported
        elif last <= tags.PARTITION_LAST_KNOWN_ELR:
            fields[c.ELR + last - tags.PARTITION_ELR] = _elements(data, at, stop)
        elif not fields[c.TAG_COUNT]:
            fields[c.TAGS], fields[c.TAGS_END], fields[c.TAG_COUNT] = tag_at, end, count - done
        at = stop
    if at != end:
        raise Unsupported


@inner
def _partition(data: Bytes, begin: int, end: int, topics: Table, partitions: Table) -> None:
    """Replay a PartitionRecord: all columns are set."""
    if begin + PARTITION_KEY_BYTES > end:
        raise Unsupported
    row = partition_row(partitions, data, begin, True)
    fields = partitions.rows[row]
    if not fields[c.EXISTS]:
        id_at = begin + PARTITION_KEY_BYTES - UUID_BYTES
        topic = row_of(topics, data, id_at, UUID_BYTES, False)
        if not topic or not topics.rows[topic, c.RECORD]:
            raise Unsupported
        fields[c.EXISTS] = 1
        fields[c.NEXT_PARTITION] = topics.rows[topic, c.FIRST_PARTITION]
        topics.rows[topic, c.FIRST_PARTITION] = row
    fields[c.ELR_UPDATES_UNTIL] = 0
    version = data[begin - 1]
    at = _fixed_fields(data, begin + PARTITION_KEY_BYTES, end, version, fields)
    _tagged_fields(data, at, end, version, fields)
    _place(data, fields)


@inner
def _set_number(data: Bytes, at: int, stop: int, number: int, fields: Numbers) -> None:
    if stop != at + (INT32_BYTES if number == tags.CHANGE_LEADER else INT8_BYTES):
        raise Unsupported
    if number == tags.CHANGE_RECOVERY:
        if int8(data, at) != _RECOVERY_UNCHANGED:
            fields[c.RECOVERY] = int8(data, at)
    elif int32(data, at) != _LEADER_UNCHANGED:
        fields[c.LEADER] = int32(data, at)
        fields[c.LEADER_EPOCH] += 1


@inner
def _change(data: Bytes, begin: int, end: int, partitions: Table) -> None:
    at = begin + PARTITION_KEY_BYTES
    if at > end:
        raise Unsupported
    row = partition_row(partitions, data, begin, False)
    fields = partitions.rows[row]
    if not row or not fields[c.EXISTS]:
        raise Unsupported
    version = data[begin - 1]
    count, at = uvarint(data, at, end)
    last, moves = -1, False
    for _ in range(count):
        last, at, stop = tag(data, at, end, last)
        if last == tags.CHANGE_LEADER or last == tags.CHANGE_RECOVERY:
            _set_number(data, at, stop, last, fields)
        elif last == tags.CHANGE_DIRECTORIES:
            is_known = version >= tags.CHANGE_DIRECTORIES_SINCE
            if not is_known or array_end(data, at, stop, UUID_BYTES) != stop:
                raise Unsupported
            if data[at]:
                fields[c.DIRECTORIES], moves = at, True
        elif (
            last > tags.CHANGE_DIRECTORIES
            or array_end(data, at, stop, INT32_BYTES) != stop
            or (last >= tags.CHANGE_ELR and version < tags.CHANGE_ELR_SINCE)
        ):
            raise Unsupported
        elif not data[at]:
            pass  # null: unchanged
        elif last == tags.CHANGE_ISR:
            fields[c.ISR] = at
        elif last == tags.CHANGE_REPLICAS:
            fields[c.REPLICAS], moves = at, True
        elif last <= tags.CHANGE_ADDING:
            fields[c.REMOVING + last - tags.CHANGE_REMOVING] = at
        else:
            fields[c.ELR + last - tags.CHANGE_ELR] = _elements(data, at, stop)
        at = stop
    fields[c.PARTITION_EPOCH] += 1
    if at != end or max(fields[c.PARTITION_EPOCH], fields[c.LEADER_EPOCH]) > _MAX_INT32:
        raise Unsupported
    if moves:
        _place(data, fields)


@inner
def _combined_change(data: Bytes, begin: int, end: int, clears: int, partitions: Table) -> None:
    """Apply combined changes (`internal_records.py`). `clears`: number of earlier ClearElr records."""
    row = partition_row(partitions, data, begin, False)
    fields = partitions.rows[row]
    if not row or not fields[c.EXISTS]:
        raise Unsupported
    at = begin + PARTITION_KEY_BYTES
    leaders = int32(data, at + LEADERS_AT)
    fields[c.PARTITION_EPOCH] += int32(data, at)
    if leaders:
        fields[c.LEADER] = int32(data, at + LEADER_AT)
        fields[c.LEADER_EPOCH] += leaders
    if int8(data, at + RECOVERY_AT) != _RECOVERY_UNCHANGED:
        fields[c.RECOVERY] = int8(data, at + RECOVERY_AT)
    if max(fields[c.PARTITION_EPOCH], fields[c.LEADER_EPOCH]) > _MAX_INT32:
        raise Unsupported
    at += COMBINED_NUMBERS_BYTES
    if data[begin - 1]:
        set_elr_updates(data, combined_arrays_end(data, at, end), data[begin - 1], clears, fields)
    moves = False
    for index in range(COMBINED_ARRAYS):
        stop = array_end(data, at, end, array_element_bytes(index))
        if data[at]:
            if index == 0:
                fields[c.ISR] = at
            elif index >= ELR_ARRAY:
                fields[c.REPLICAS + index - 1] = _elements(data, at, stop)
            else:
                fields[c.REPLICAS + index - 1] = at
            moves = moves or index == DIRECTORIES_ARRAY
        at = stop
    if moves:
        _place(data, fields)


@inner
def _topic(data: Bytes, begin: int, end: int, index: int, topics: Table, names: Table) -> None:
    id_at = text_end(data, begin, end, False)
    if id_at + UUID_BYTES > end:
        raise Unsupported
    check_tags(data, id_at + UUID_BYTES, end)
    topic = row_of(topics, data, id_at, UUID_BYTES, True)
    name = row_of(names, data, begin, id_at - begin, True)
    if topics.rows[topic, c.RECORD] or names.rows[name, c.TOPIC]:
        raise Unsupported  # a duplicate, or one name of two topics
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
        raise Unsupported
    no_tags(data, begin + UUID_BYTES, end)
    topic = row_of(topics, data, begin, UUID_BYTES, False)
    if not topic or not topics.rows[topic, c.RECORD]:
        return
    topics.rows[topic, c.RECORD] = NONE
    partition = topics.rows[topic, c.FIRST_PARTITION]
    while partition:
        partitions.rows[partition, c.EXISTS] = 0
        partition = partitions.rows[partition, c.NEXT_PARTITION]
    name = topics.rows[topic, c.NAME]
    names.rows[name, c.TOPIC] = NONE
    names.rows[name, c.REMOVED_BY] = index + 1
    _drop_configs(names, configs, name)


@inner
def _config(data: Bytes, begin: int, end: int, index: int, names: Table, configs: Table) -> None:
    if begin >= end:
        raise Unsupported
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
    if clears < fields[c.ELR_UPDATES_UNTIL]:
        return clear_earlier_elr(data, clears, fields)
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
            if fields[c.PARTITION_EPOCH] > _MAX_INT32:
                raise Unsupported
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
    """Apply all records of these types in order and skip others. Raises Unsupported. The return value has no meaning (see
    `prefetching.py`).
    """
    seen, clears = int64(0), int64(0)
    for index in range(len(begins)):
        if index % PREFETCH_RECORDS == 0:
            seen += prefetch_rows(data, begins, ends, kinds, index, partitions)
        kind, begin, end = kinds[index], begins[index] + HEAD_BYTES, ends[index]
        if end - begin > MAX_BYTES and kind != CONFIG and kind != COMBINED_CHANGE:
            raise Unsupported
        if kind == PARTITION_CHANGE:
            _change(data, begin, end, partitions)
        elif kind == COMBINED_CHANGE:
            _combined_change(data, begin, end, clears, partitions)
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
