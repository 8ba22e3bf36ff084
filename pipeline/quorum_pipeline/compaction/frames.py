"""Positions and types of record values in batches. PURE, compiled.

Reads only the canonical form of metadata batches: no compression, no gap between offsets, no keys, no headers, the
batch's timestamp. Source: Kafka's documentation, "Record Batch"; KIP-631, "Record format".
"""

import numpy as np

from quorum_node.records.batches import COMPRESSION_MASK, CONTROL_FLAG, HEADER_BYTES, PREFIX_BYTES
from quorum_node.records.metadata import FRAME_VERSION, RECORDS_BY_TYPE
from quorum_pipeline.canonical_encoding import Unsupported, canonical_record, int32
from quorum_pipeline.compiled import Bytes, Numbers, compiled

OTHER = 0xFF
"""Type of an unknown record."""
HEAD_BYTES = 3
_OTHER_FORMS = COMPRESSION_MASK | CONTROL_FLAG
_LENGTH_AT, _ATTRIBUTES_AT, _LAST_DELTA_AT, _COUNT_AT = 8, 21, 23, 57
"""Positions of fields in the header of a batch. Source: Kafka's documentation, "Record Batch"."""
_HIGHEST_VERSIONS = np.full(0x80, -1, np.int64)
for _number, _record in RECORDS_BY_TYPE.items():
    _HIGHEST_VERSIONS[_number] = _record.HIGHEST_VERSION


@compiled
def find_values(data: Bytes, begins: Numbers, ends: Numbers) -> None:
    """Fill in the start and end of the values of all records in the batches in `data`. Raises Unsupported."""
    at, found = 0, 0
    while at < len(data):
        batch_end = at + PREFIX_BYTES + int32(data, at + _LENGTH_AT)
        count = int32(data, at + _COUNT_AT)
        if (
            count != int32(data, at + _LAST_DELTA_AT) + 1
            or data[at + _ATTRIBUTES_AT + 1] & _OTHER_FORMS
        ):
            raise Unsupported
        at += HEADER_BYTES
        for delta in range(count):
            begin, value_end = canonical_record(data, at, batch_end, delta)
            if begin < 0:
                raise Unsupported
            begins[found], ends[found] = begin, value_end
            found, at = found + 1, value_end + 1
        if at != batch_end:
            raise Unsupported
    if found != len(begins):
        raise Unsupported


@compiled
def find_kinds(data: Bytes, begins: Numbers, ends: Numbers, kinds: Bytes) -> None:
    """Fill in the type of each record, or OTHER. Raises Unsupported if a type is encoded in more than one byte."""
    for index in range(len(begins)):
        at = begins[index]
        if ends[index] - at < HEAD_BYTES or data[at] != FRAME_VERSION:
            raise Unsupported
        number, version = data[at + 1], data[at + 2]
        if number >= 0x80 or version >= 0x80:
            raise Unsupported
        kinds[index] = number if version <= _HIGHEST_VERSIONS[number] else OTHER
