"""Topics, partitions and configs as numeric tables during one compaction. PURE, compiled.

Owns the format. Variable-size values are positions in the byte array of all records. Rows are found by their keys,
which are bytes there too, in a hash table with open addressing of at least twice the number of rows. Row 0 is unused;
its first column holds the number of rows, and row number 0 means none. Independent of the meaning of records.
"""

import numpy as np

from quorum_pipeline.canonical_encoding import int32, int64
from quorum_pipeline.compaction.values import hash_of, mixed, same, word
from quorum_pipeline.compiled import Bytes, Table, inner

UUID_BYTES, PARTITION_KEY_BYTES = 16, 20
NONE = 0
KEY, KEY_BYTES = 0, 1
"""The first columns of each table."""

RECORD, NAME, FIRST_PARTITION, TOPIC_COLUMNS = 2, 3, 4, 5
"""Columns of a topic: number of its record + 1, or NONE if removed; the row of its name; the head of the linked list
of its partitions. The key is its id.
"""

TOPIC, FIRST_CONFIG, REMOVED_BY, NAME_COLUMNS = 2, 3, 4, 5
"""Columns of a name: the topic with this name; the head of the list of the configs of a topic of that name (they may
precede or outlive the topic); number of the record + 1 that last removed a topic of that name, or NONE. The key is
the encoded name.
"""

VALUE, NEXT_CONFIG, CONFIG_COLUMNS = 2, 3, 4
"""Columns of a config: number of the record with its value + 1, or NONE. The key is type and name of the resource and name of the config,
which are adjacent in records."""

PARTITION_ID, EXISTS, ISR, LEADER, LEADER_EPOCH, PARTITION_EPOCH = range(2, 8)
REPLICAS, REMOVING, ADDING, DIRECTORIES, ELR, LAST_KNOWN_ELR = range(8, 14)
KEY_AT, NEXT_PARTITION, RECOVERY, TAGS, TAGS_END, TAG_COUNT = range(14, 20)
ELR_UPDATES_AT, ELR_UPDATES_FROM, ELR_UPDATES_UNTIL, ELR_STATE, PARTITION_COLUMNS = range(20, 25)
"""Columns of a partition; arrays are positions. DIRECTORIES is ABSENT if unknown, ELR and LAST_KNOWN_ELR if empty.
TAGS are unknown tagged fields. The two halves of the topic's id and the most used columns are adjacent, so that they
share a cache line; a row occupies three lines. KEY_AT is the position of partition and topic id. The columns from
ELR_UPDATES_AT on are of the last combined changes with ELR updates (`elr_updates.py`): position of the updates, number of
ClearElr records before these changes, and before the last one that has an update; then the first interval that is not taken
into account yet (above the flags of an update), and the flags of what was set before it.
"""
_LINE = 8
"""Numbers per cache line."""


def table(rows: int, columns: int) -> Table:
    """Create a table with room for `rows` rows."""
    slots = np.zeros(1 << max(4, (2 * rows).bit_length()), np.int32)
    size = (rows + 1) * columns
    memory = np.empty(size + _LINE, np.int64)
    begin = -(memory.ctypes.data // memory.itemsize) % _LINE
    found = memory[begin : begin + size].reshape(rows + 1, columns)
    found[0, 0] = 0
    return Table(slots, found)


@inner
def _new_row(table: Table, slot: int) -> int:
    """Allocate the next row at a free slot of the hash table."""
    table.rows[0, 0] += 1
    row = int64(table.rows[0, 0])
    table.slots[slot] = row
    return row


@inner
def row_of(table: Table, data: Bytes, at: int, size: int, make: bool) -> int:
    """Return the row of a key; if it is missing, NONE, or with `make` a new one in which only the key is set."""
    slots, rows = table.slots, table.rows
    mask = len(slots) - 1
    slot = hash_of(data, at, at + size) & mask
    while True:
        row = int64(slots[slot])
        if row == 0:
            break
        if rows[row, KEY_BYTES] == size and same(data, rows[row, KEY], at, size):
            return row
        slot = (slot + 1) & mask
    if not make:
        return NONE
    row = _new_row(table, slot)
    rows[row, KEY], rows[row, KEY_BYTES] = at, size
    for column in range(2, rows.shape[1]):
        rows[row, column] = 0
    return row


@inner
def _partition_slot(table: Table, data: Bytes, at: int) -> int:
    """First slot in the hash table for a partition."""
    mixed_id = mixed(word(data, at + 4) ^ mixed(word(data, at + 12)))
    return (mixed_id + int32(data, at)) & (len(table.slots) - 1)


@inner
def partition_row(table: Table, data: Bytes, at: int, make: bool) -> int:
    """Return the row of a partition whose id, followed by the topic's, is at `at`; if it is missing, NONE, or with `make` a new one."""
    slots, rows = table.slots, table.rows
    partition_id = int32(data, at)
    first, second = word(data, at + 4), word(data, at + 12)
    mask = len(slots) - 1
    slot = _partition_slot(table, data, at)
    while True:
        row = int64(slots[slot])
        if row == 0:
            break
        fields = rows[row]
        if fields[0] == first and fields[1] == second and fields[PARTITION_ID] == partition_id:
            return row
        slot = (slot + 1) & mask
    if not make:
        return NONE
    row = _new_row(table, slot)
    fields = rows[row]
    fields[0], fields[1], fields[PARTITION_ID] = first, second, partition_id
    fields[EXISTS] = 0
    fields[KEY_AT] = at
    return row


@inner
def prefetch_row(table: Table, data: Bytes, at: int) -> int:
    """Prefetch the row that `partition_row` will probably find, so that the later access does not wait for memory."""
    row = int64(table.slots[_partition_slot(table, data, at)])
    return int64(table.rows[row, PARTITION_ID])
