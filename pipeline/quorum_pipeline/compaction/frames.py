"""Where the values of the records of batches lie, and of which kind they are. PURE, compiled.

Only the form that all writers of metadata use is read here: no compression, no gap between offsets, no keys, no headers, the batch's
timestamp. Source: Kafka's documentation, "Record Batch"; KIP-631, "Record format".
"""

import numpy as np

from quorum_node.records.batches import COMPRESSION_MASK, CONTROL_FLAG, HEADER_BYTES, PREFIX_BYTES
from quorum_node.records.metadata import FRAME_VERSION, RECORDS_BY_TYPE
from quorum_pipeline.compaction.compiled import Bytes, Numbers, compiled, inner
from quorum_pipeline.compaction.values import Unusual, int32, uvarint

OTHER = 0xFF
"""A record that is not known."""
HEAD_BYTES = 3
_OTHER_FORMS = COMPRESSION_MASK | CONTROL_FLAG
_ATTRIBUTES_AT, _LAST_DELTA_AT, _COUNT_AT = 21, 23, 57
_HIGHEST_VERSIONS = np.full(0x80, -1, np.int64)
for _number, _record in RECORDS_BY_TYPE.items():
    _HIGHEST_VERSIONS[_number] = _record.HIGHEST_VERSION


@inner
def _value(data: Bytes, at: int, end: int, delta: int) -> tuple[int, int, int]:
    """Begin and end of a record's value, and the end of the record."""
    size, at = uvarint(data, at, end)
    # Zigzag: an even number is half of it. Attributes, no timestamp delta, the offset delta, no key, the value, no headers.
    record_end = at + (size >> 1)
    if size & 1 or record_end > end or at + 2 >= end or data[at + 1]:
        raise Unusual
    told, at = uvarint(data, at + 2, record_end)
    if told != delta << 1 or at >= record_end or data[at] != 1:
        raise Unusual
    size, at = uvarint(data, at + 1, record_end)
    value_end = at + (size >> 1)
    if size & 1 or value_end != record_end - 1 or data[value_end]:
        raise Unusual
    return at, value_end, record_end


@compiled
def find_values(data: Bytes, begins: Numbers, ends: Numbers) -> None:
    """Fills in where the values of all records of the batches in `data` begin and end. Raises Unusual."""
    at, found = 0, 0
    while at < len(data):
        batch_end = at + PREFIX_BYTES + int32(data, at + 8)
        count = int32(data, at + _COUNT_AT)
        if (
            count != int32(data, at + _LAST_DELTA_AT) + 1
            or data[at + _ATTRIBUTES_AT + 1] & _OTHER_FORMS
        ):
            raise Unusual
        at += HEADER_BYTES
        for delta in range(count):
            begins[found], ends[found], at = _value(data, at, batch_end, delta)
            found += 1
        if at != batch_end:
            raise Unusual
    if found != len(begins):
        raise Unusual


@compiled
def find_kinds(data: Bytes, begins: Numbers, ends: Numbers, kinds: Bytes) -> None:
    """Fills in the type of each record, or OTHER. Raises Unusual where that is not told by one byte: it might be any type."""
    for index in range(len(begins)):
        at = begins[index]
        if ends[index] - at < HEAD_BYTES or data[at] != FRAME_VERSION:
            raise Unusual
        number, version = data[at + 1], data[at + 2]
        if number >= 0x80 or version >= 0x80:
            raise Unusual
        kinds[index] = number if version <= _HIGHEST_VERSIONS[number] else OTHER
