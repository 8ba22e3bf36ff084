"""Reads values from the bytes of a record. PURE, compiled.

Every function takes `(data, position, end)` and reads nothing from `end` on. Anything but the canonical encoding of metadata
records raises Unsupported; then the node's decoders interpret the record or report its error. Source: KIP-482 (compact
forms, tagged fields); KIP-631, "Record format".
"""

import numpy as np

from quorum_pipeline.canonical_encoding import Unsupported, canonical_uvarint, int64, uint64
from quorum_pipeline.compiled import Bytes, inner

MAX_BYTES = 1 << 14
"""Maximum number of bytes of a record with more than one value. The arrays of several such records still make a decodable partition, which has a
limit of elements."""
INT8_BYTES, INT32_BYTES, INT64_BYTES = 1, 4, 8
ABSENT = -1
"""Replaces a position: null or missing."""
_HIGH_BITS = -0x7F7F7F7F7F7F7F80
"""The high bits of eight bytes, which no ASCII character has."""
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@inner
def uvarint(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Read a number in the shortest form; return it and its end."""
    value, at = canonical_uvarint(data, at, end)
    if value < 0:
        raise Unsupported
    return value, at


@inner
def put_uvarint(data: Bytes, at: int, value: int) -> int:
    """Write a number; return its end."""
    while value >= 0x80:
        data[at] = value & 0x7F | 0x80
        value >>= 7
        at += 1
    data[at] = value
    return at + 1


@inner
def word(data: Bytes, at: int) -> int:
    """Read eight bytes as a number."""
    begin, value = uint64(at), uint64(0)
    for index in range(8):
        value |= uint64(data[begin + uint64(index)]) << uint64(8 * index)
    return int64(value)


@inner
def put_int32(data: Bytes, at: int, value: int) -> int:
    """Write four bytes; return their end."""
    for shift in (24, 16, 8, 0):
        data[at] = value >> shift & 0xFF
        at += 1
    return at


@inner
def int8(data: Bytes, at: int) -> int:
    """Read a signed byte."""
    value = int64(data[at])
    return value - 0x100 if value >= 0x80 else value


@inner
def array_end(data: Bytes, at: int, end: int, element_bytes: int) -> int:
    """Return the end of an array that may be null."""
    count, at = uvarint(data, at, end)
    if count:
        at += (count - 1) * element_bytes
        if at > end:
            raise Unsupported
    return at


@inner
def array_count(data: Bytes, at: int) -> int:
    """Number of elements of an array that was checked before; -1 for null."""
    return uvarint(data, at, at + 3)[0] - 1


@inner
def required_array_end(data: Bytes, at: int, end: int, element_bytes: int) -> int:
    """Return the end of an array that must not be null."""
    if at >= end or data[at] == 0:
        raise Unsupported
    return array_end(data, at, end, element_bytes)


@inner
def _character_end(data: Bytes, at: int, stop: int) -> int:
    """Return the end of a multi-byte character, by the rules of UTF-8: shortest form, no surrogates, nothing above 10FFFF."""
    byte = int64(data[at])
    least, most = 0x80, 0xBF
    if 0xC2 <= byte <= 0xDF:
        more = 1
    elif 0xE0 <= byte <= 0xEF:
        more = 2
        if byte == 0xE0:
            least = 0xA0
        elif byte == 0xED:
            most = 0x9F
    elif 0xF0 <= byte <= 0xF4:
        more = 3
        if byte == 0xF0:
            least = 0x90
        elif byte == 0xF4:
            most = 0x8F
    else:
        raise Unsupported
    if at + more >= stop or not least <= data[at + 1] <= most:
        raise Unsupported
    for index in range(at + 2, at + more + 1):
        if data[index] & 0xC0 != 0x80:
            raise Unsupported
    return at + more + 1


@inner
def text_end(data: Bytes, at: int, end: int, nullable: bool) -> int:
    """Return the end of a string. It has to be UTF-8."""
    size, at = uvarint(data, at, end)
    if size == 0:
        if not nullable:
            raise Unsupported
        return at
    stop = at + size - 1
    if stop > end:
        raise Unsupported
    while at + 8 <= stop and not word(data, at) & _HIGH_BITS:
        at += 8
    while at < stop:
        byte = data[uint64(at)]
        at = at + 1 if byte < 0x80 else _character_end(data, at, stop)
    return stop


@inner
def no_tags(data: Bytes, at: int, end: int) -> None:
    """Check that the record ends here, without tagged fields."""
    if at != end - 1 or data[at] != 0:
        raise Unsupported


@inner
def tag(data: Bytes, at: int, end: int, last: int) -> tuple[int, int, int]:
    """Read a tagged field after the one with number `last`; return its number and the start and end of its data."""
    number, at = uvarint(data, at, end)
    size, at = uvarint(data, at, end)
    if number <= last or at + size > end:
        raise Unsupported
    return number, at, at + size


@inner
def check_tags(data: Bytes, at: int, end: int) -> None:
    """Check that the record ends after these tagged fields, which may be any."""
    count, at = uvarint(data, at, end)
    last = -1
    for _ in range(count):
        last, _, at = tag(data, at, end, last)
    if at != end:
        raise Unsupported


@inner
def mixed(value: int) -> int:
    """Mix all bits of a number into the low ones of 31 bits.

    A product moves no bit downwards, so the upper half is folded into the lower one first.
    """
    folded = np.uint64(value) ^ (np.uint64(value) >> np.uint64(32))
    product = folded * _MULTIPLIER
    return int64(product >> np.uint64(33))


@inner
def hash_of(data: Bytes, at: int, end: int) -> int:
    """Hash of bytes, not negative."""
    value = int64(end - at)
    while at + 8 <= end:
        value = mixed(value ^ word(data, at))
        at += 8
    last = int64(0)
    while at < end:
        last = last << 8 | int64(data[uint64(at)])
        at += 1
    return mixed(value ^ last)


@inner
def same(data: Bytes, first: int, second: int, size: int) -> bool:
    """Whether the bytes at both positions are equal."""
    done = 0
    while done + 8 <= size:
        if word(data, first + done) != word(data, second + done):
            return False
        done += 8
    while done < size:
        if data[uint64(first + done)] != data[uint64(second + done)]:
            return False
        done += 1
    return True
