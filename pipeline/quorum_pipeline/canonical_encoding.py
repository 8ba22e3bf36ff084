"""The canonical encoding of numbers and records in metadata logs. PURE, compiled.

Reads varints and record frames for every compiled loop. Any other encoding (a varint of more than three bytes or
longer than necessary, a key, headers, a separate timestamp) is UNSUPPORTED; then the node's decoders interpret it. No
byte at or after `end` is read. Source: Kafka's documentation, "Record Batch"; KIP-482 (compact forms).
"""

from typing import TYPE_CHECKING

import numpy as np

from quorum_pipeline.compiled import Bytes, compiled_when_called

UNSUPPORTED = -2
"""Returned instead of a number if the encoding is not canonical."""
if TYPE_CHECKING:
    int64 = uint64 = int
else:
    int64 = np.int64  # numba gives the sum of a byte and a Python int another type
    uint64 = np.uint64  # an unsigned index avoids the check for negative values


class Unsupported(Exception):
    """Not supported by the fast path: the reference path decodes it or reports its error."""


@compiled_when_called
def canonical_uvarint(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Decode a minimal varint of up to three bytes; return its value, or UNSUPPORTED, and the position after it."""
    if at >= end:
        return UNSUPPORTED, at
    low = int64(data[uint64(at)])
    if low < 0x80:
        return low, at + 1
    if at + 1 >= end:
        return UNSUPPORTED, at
    middle = int64(data[uint64(at + 1)])
    if middle == 0:
        return UNSUPPORTED, at
    if middle < 0x80:
        return low & 0x7F | middle << 7, at + 2
    if at + 2 >= end:
        return UNSUPPORTED, at
    high = int64(data[uint64(at + 2)])
    if high == 0 or high >= 0x80:
        return UNSUPPORTED, at
    return low & 0x7F | (middle & 0x7F) << 7 | high << 14, at + 3


@compiled_when_called
def int32(data: Bytes, at: int) -> int:
    """Decode a signed big-endian number of four bytes; the caller has checked that they are within the data."""
    begin = uint64(at)
    value = (
        int64(data[begin]) << 24
        | int64(data[begin + uint64(1)]) << 16
        | int64(data[begin + uint64(2)]) << 8
        | int64(data[begin + uint64(3)])
    )
    return value - (1 << 32) if value >= 1 << 31 else value


@compiled_when_called
def canonical_record(data: Bytes, at: int, end: int, delta: int) -> tuple[int, int]:
    """Return where the value of a record begins and ends, or (UNSUPPORTED, UNSUPPORTED); the record ends one byte after its value.

    The record begins at `at`, its batch ends at `end`, and its offset is `delta` more than that of the batch.
    """
    size, at = canonical_uvarint(data, at, end)
    # The size is zigzag encoded: an even varint stands for its half. The rest is attributes,
    # timestamp delta 0, offset delta, no key, value, no headers.
    record_end = at + (size >> 1)
    if size < 0 or size & 1 or record_end > end or at + 2 >= end or data[uint64(at + 1)]:
        return UNSUPPORTED, UNSUPPORTED
    encoded_delta, at = canonical_uvarint(data, at + 2, record_end)
    if encoded_delta != delta << 1 or at >= record_end or data[uint64(at)] != 1:
        return UNSUPPORTED, UNSUPPORTED
    size, at = canonical_uvarint(data, at + 1, record_end)
    value_end = at + (size >> 1)
    if size < 0 or size & 1 or value_end != record_end - 1 or data[uint64(value_end)]:
        return UNSUPPORTED, UNSUPPORTED
    return at, value_end
