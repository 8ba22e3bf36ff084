"""Internal record types that occur in no log: combined changes of one partition, a removed topic name, and the name of
something that an image can't contain (`normalization.py`). PURE, compiled.

Owns their types and encoding. A combined change contains, after the head and the key of a partition: the number of changes, the
number of those with a leader, the last leader (four bytes each), the last recovery state (one byte), then the last
ISR, replicas, removing and adding replicas, directories, eligible leader replicas and last known ones as compact
arrays, null if not set, then the ELR updates (`elr_updates.py`), whose number is in the head. A removed name is the encoded
name. The type is stored separately, so no record of a log can be confused with these.
"""

from quorum_node.records.metadata import FRAME_VERSION
from quorum_pipeline.canonical_encoding import Unsupported, uint64
from quorum_pipeline.compaction.columns import PARTITION_KEY_BYTES, UUID_BYTES
from quorum_pipeline.compaction.values import INT32_BYTES, array_end, put_int32
from quorum_pipeline.compiled import Bytes, Numbers, inner

COMBINED_CHANGE, REMOVED_NAME, LEFT_OUT_NAME = 0x7F, 0x7E, 0x7D
"""Types above those of records."""
COMBINED_NUMBERS_BYTES, COMBINED_ARRAYS, DIRECTORIES_ARRAY, ELR_ARRAY = 13, 7, 4, 5
"""Number of bytes before the arrays, number of arrays, index of the directories, and of the first array of eligible leader replicas."""
LEADERS_AT, LEADER_AT, RECOVERY_AT = 4, 8, 12
"""Positions of numbers relative to the first one, the number of changes."""
_HEAD_BYTES = 3
_MAX_INT32 = (1 << 31) - 1


@inner
def array_element_bytes(index: int) -> int:
    """Number of bytes of an element in an array of a combined change."""
    return UUID_BYTES if index == DIRECTORIES_ARRAY else INT32_BYTES


@inner
def copied(data: Bytes, begin: int, end: int, to: Bytes, at: int) -> int:
    """Copy bytes; return the end of the copy."""
    for index in range(end - begin):
        to[uint64(at + index)] = data[uint64(begin + index)]
    return at + end - begin


@inner
def combined_arrays_end(data: Bytes, at: int, end: int) -> int:
    """Return the end of the arrays of a combined change."""
    for index in range(COMBINED_ARRAYS):
        at = array_end(data, at, end, array_element_bytes(index))
    return at


@inner
def combined_change_bytes(data: Bytes, arrays: Numbers) -> int:
    """Number of bytes of a combined change without its ELR updates. `arrays`: positions, or negative."""
    size = _HEAD_BYTES + PARTITION_KEY_BYTES + COMBINED_NUMBERS_BYTES
    for index in range(COMBINED_ARRAYS):
        at = arrays[index]
        size += 1 if at < 0 else array_end(data, at, len(data), array_element_bytes(index)) - at
    return size


@inner
def write_combined_change(
    data: Bytes,
    key_at: int,
    numbers: Numbers,
    arrays: Numbers,
    elr_updates: int,
    to: Bytes,
    at: int,
) -> int:
    """Write a combined change up to its ELR updates; return the end. `numbers`: changes, changes with a leader, leader, recovery state. `elr_updates`:
    number of them. Raises Unsupported.
    """
    if numbers[0] > _MAX_INT32:
        raise Unsupported
    to[at], to[at + 1], to[at + 2] = FRAME_VERSION, COMBINED_CHANGE, elr_updates
    at = copied(data, key_at, key_at + PARTITION_KEY_BYTES, to, at + _HEAD_BYTES)
    for index in range(3):
        at = put_int32(to, at, numbers[index])
    to[at] = numbers[3] & 0xFF
    at += 1
    for index in range(COMBINED_ARRAYS):
        begin = arrays[index]
        if begin < 0:
            to[at] = 0
            at += 1
        else:
            end = array_end(data, begin, len(data), array_element_bytes(index))
            at = copied(data, begin, end, to, at)
    return at
