"""Positions and types of record values in batches. PURE, compiled.

Reads only the usual form of metadata batches: no compression, no gap between offsets, no keys, no headers, the
batch's timestamp. Source: Kafka's documentation, "Record Batch"; KIP-631, "Record format".
"""

import numpy as np

from quorum_node.records.batches import COMPRESSION_MASK, CONTROL_FLAG, HEADER_BYTES, PREFIX_BYTES
from quorum_node.records.metadata import FRAME_VERSION, RECORDS_BY_TYPE
from quorum_pipeline.compiled import Bytes, Numbers, compiled
from quorum_pipeline.plain_form import Unusual, int32, plain_record

OTHER = 0xFF
"""Type of an unknown record."""
HEAD_BYTES = 3
_OTHER_FORMS = COMPRESSION_MASK | CONTROL_FLAG
_ATTRIBUTES_AT, _LAST_DELTA_AT, _COUNT_AT = 21, 23, 57
_HIGHEST_VERSIONS = np.full(0x80, -1, np.int64)
for _number, _record in RECORDS_BY_TYPE.items():
    _HIGHEST_VERSIONS[_number] = _record.HIGHEST_VERSION


@compiled
def find_values(data: Bytes, begins: Numbers, ends: Numbers) -> None:
    """Fill in the start and end of the values of all records in the batches in `data`. Raises Unusual."""
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
            begin, value_end = plain_record(data, at, batch_end, delta)
            if begin < 0:
                raise Unusual
            begins[found], ends[found] = begin, value_end
            found, at = found + 1, value_end + 1
        if at != batch_end:
            raise Unusual
    if found != len(begins):
        raise Unusual


@compiled
def find_kinds(data: Bytes, begins: Numbers, ends: Numbers, kinds: Bytes) -> None:
    """Fill in the type of each record, or OTHER. Raises Unusual if a type is encoded in more than one byte."""
    for index in range(len(begins)):
        at = begins[index]
        if ends[index] - at < HEAD_BYTES or data[at] != FRAME_VERSION:
            raise Unusual
        number, version = data[at + 1], data[at + 2]
        if number >= 0x80 or version >= 0x80:
            raise Unusual
        kinds[index] = number if version <= _HIGHEST_VERSIONS[number] else OTHER
