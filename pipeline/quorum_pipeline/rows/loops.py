"""Compiled loops over the bytes of records. PURE.

These loops do all the work per record, because Python would be too slow. They are generic: a program, an array of
numbers generated from a declaration (`columnar.py`), describes the fields. They read the canonical encoding and report
any other one. They may read some bytes ahead, so READ_AHEAD_BYTES must follow the last record. Source:
Kafka's documentation, "Record Batch"; KIP-482 (compact forms, tagged fields).
"""

import numpy as np
import numpy.typing as npt

from quorum_node.records.batches import HEADER_BYTES, MAGIC, PREFIX_BYTES
from quorum_pipeline.canonical_encoding import (
    UNSUPPORTED,
    canonical_record,
    canonical_uvarint,
    int32,
)
from quorum_pipeline.compiled import Bytes, Numbers, compiled_when_called

READ_AHEAD_BYTES = 16
ABSENT, NULL = -1, -1
FIXED, COUNTED, NULLABLE = 0, 1, 2
"""Forms of a field: fixed size; a count of elements (bytes of a string), then the elements; the same, nullable."""
BASE_OFFSET, COUNT, EPOCH, TIMESTAMP_MS, CRC = HEADER_COLUMNS = range(5)
"""Columns of a table of batch headers."""
HEADERS = len(HEADER_COLUMNS)


@compiled_when_called
def _int64(data: Bytes, at: int) -> int:
    return int32(data, at) << 32 | int32(data, at + 4) & 0xFFFFFFFF


@compiled_when_called
def headers(
    data: Bytes, size: int, offset: int, other_forms: int, borders: Numbers, table: Numbers
) -> int:
    """Read contiguous batches from the first byte on, as long as their headers have the canonical form; return their number.

    The first one has the given offset, each continues at the end offset of the previous one, and none has a bit of
    `other_forms` in its attributes. Fills `borders` with the begins of batches and the end of the last one, and `table`
    with their headers. Checksums are not verified.
    """
    at, count = 0, 0
    borders[0] = 0
    while at + HEADER_BYTES <= size:
        end = at + PREFIX_BYTES + int32(data, at + 8)
        records = int32(data, at + 57)
        if (
            data[at + 16] != MAGIC
            or end < at + HEADER_BYTES
            or end > size
            or data[at + 22] & other_forms
            or _int64(data, at) != offset
            or not 0 < records < end - at
            or int32(data, at + 23) != records - 1
        ):
            break
        table[count, BASE_OFFSET], table[count, COUNT] = offset, records
        table[count, EPOCH] = int32(data, at + 12)
        table[count, TIMESTAMP_MS] = _int64(data, at + 27)
        table[count, CRC] = int32(data, at + 17) & 0xFFFFFFFF
        offset += records
        count += 1
        at = end
        borders[count] = at
    return count


@compiled_when_called
def frames(
    data: Bytes, borders: Numbers, firsts: Numbers, begins: Numbers, ends: Numbers
) -> npt.NDArray[np.bool_]:
    """Fill `begins` and `ends` with the positions of the records' values; return whether each batch has the canonical form.

    Batch i is `data[borders[i]:borders[i + 1]]`, and its records have the numbers from `firsts[i]` on. The canonical form has no
    keys, no headers, the timestamp of the batch, and no gap between offsets.
    """
    canonical = np.zeros(len(borders) - 1, np.bool_)
    for batch in range(len(canonical)):
        at, limit = borders[batch] + HEADER_BYTES, borders[batch + 1]
        count = firsts[batch + 1] - firsts[batch]
        delta = 0
        while delta < count:
            begin, end = canonical_record(data, at, limit, delta)
            if begin < 0:
                break
            begins[firsts[batch] + delta], ends[firsts[batch] + delta] = begin, end
            delta += 1
            at = end + 1
        canonical[batch] = delta == count and at == limit
    return canonical


@compiled_when_called
def _value(data: Bytes, at: int, end: int, size_bytes: int, form: int) -> tuple[int, int, int]:
    """Return where a value begins, its number of elements (or NULL, or UNSUPPORTED), and the position after it."""
    if form == FIXED:
        return at, 1, at + size_bytes
    count, at = canonical_uvarint(data, at, end)
    if count < 0 or (count == 0 and form == COUNTED):
        return at, UNSUPPORTED, at
    return at, count - 1, at + max(count - 1, 0) * size_bytes


@compiled_when_called
def _place(data: Bytes, at: int, end: int, program: Numbers, field: int) -> tuple[int, int, int]:
    """Return the same for a field of a program, whose elements may be structures without tagged fields."""
    place, count, at = _value(data, at, end, program[field, 1], program[field, 2])
    if program[field, 4] == 0:
        return place, count, at
    for _ in range(count):
        for inner in range(program[field, 3], program[field, 3] + program[field, 4]):
            _, size, at = _value(data, at, end, program[inner, 1], program[inner, 2])
            if size == UNSUPPORTED or at >= end:
                return place, UNSUPPORTED, at
        if data[at] != 0:
            return place, UNSUPPORTED, at
        at += 1
    return place, count, at


@compiled_when_called
def fields(
    data: Bytes,
    begins: Numbers,
    ends: Numbers,
    program: Numbers,
    places: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    present: Numbers,
) -> bool:
    """Fill in where each field of each record begins, and its number of elements. Return False if anything is not supported.

    `program`: for each field its tag (-1 for fields without one, which come first), the size of an element, its form; and for
    structures as elements: the first row of the program with one of their fields, and the number of their fields. `places`
    and `counts` have a row for each field; `places` are initially ABSENT. `present`: number of records with each field,
    initially 0.
    """
    fields_count = len(present)
    untagged = 0
    while untagged < fields_count and program[untagged, 0] < 0:
        untagged += 1
    for record in range(len(begins)):
        at, end = begins[record], ends[record]
        for field in range(untagged):
            place, count, at = _place(data, at, end, program, field)
            if count == UNSUPPORTED or at > end:
                return False
            places[field, record], counts[field, record] = place, count
            present[field] += 1
        left, at = canonical_uvarint(data, at, end)
        last_tag = -1
        while left > 0:
            tag, at = canonical_uvarint(data, at, end)
            size, at = canonical_uvarint(data, at, end)
            behind = at + size
            if tag <= last_tag or size < 0 or behind > end:
                return False
            for field in range(untagged, fields_count):
                if program[field, 0] == tag:
                    place, count, at = _place(data, at, behind, program, field)
                    if count == UNSUPPORTED or at != behind:
                        return False
                    places[field, record], counts[field, record] = place, count
                    present[field] += 1
            last_tag, at = tag, behind
            left -= 1
        if left < 0 or at != end:
            return False
    return True


@compiled_when_called
def turned(data: Bytes, places: Numbers, default: Bytes, found: npt.NDArray[np.uint8]) -> None:
    """Fill in the bytes of fixed fields in reverse order, a row for each; ABSENT ones get the default."""
    size = len(default)
    for index in range(len(places)):
        place = places[index]
        for byte in range(size):
            found[index, byte] = default[byte] if place == ABSENT else data[place + size - 1 - byte]


@compiled_when_called
def base64(data: Bytes, places: Numbers, letters: Bytes, found: npt.NDArray[np.uint8]) -> None:
    """Fill in the 22 base 64 letters of each sixteen bytes, a row for each; ABSENT ones are skipped."""
    for index in range(len(places)):
        place = places[index]
        if place == ABSENT:
            continue
        for group in range(5):
            at = place + 3 * group
            bits = int(data[at]) << 16 | int(data[at + 1]) << 8 | int(data[at + 2])
            for letter in range(4):
                found[index, 4 * group + letter] = letters[bits >> (18 - 6 * letter) & 0x3F]
        last = int(data[place + 15])
        found[index, 20], found[index, 21] = letters[last >> 2], letters[(last & 3) << 4]


@compiled_when_called
def gathered(data: Bytes, begins: Numbers, offsets: npt.NDArray[np.int32], found: Bytes) -> None:
    """Copy texts so that they are contiguous: the text at `begins[i]` goes to `found[offsets[i]:offsets[i + 1]]`."""
    for index in range(len(begins)):
        begin, to, behind = begins[index], offsets[index], offsets[index + 1]
        found[to:behind] = data[begin : begin + behind - to]


@compiled_when_called
def appended(
    texts: Bytes, borders: npt.NDArray[np.int32], ends: npt.NDArray[np.int32], found: Bytes
) -> None:
    """Append `texts[borders[i]:borders[i + 1]]` to text i, which ends at `ends[i]`; update `ends`."""
    for index in range(len(ends)):
        to = ends[index]
        for place in range(borders[index], borders[index + 1]):
            found[to] = texts[place]
            to += 1
        ends[index] = to


@compiled_when_called
def appended_to_all(text: Bytes, ends: npt.NDArray[np.int32], found: Bytes) -> None:
    """Append one text to all texts, which end at `ends`; update `ends`."""
    for index in range(len(ends)):
        to = ends[index]
        for place in range(len(text)):
            found[to] = text[place]
            to += 1
        ends[index] = to


@compiled_when_called
def elements(
    begins: Numbers, offsets: npt.NDArray[np.int32], size_bytes: int, found: Numbers
) -> None:
    """Fill in where each element of each array begins."""
    for index in range(len(begins)):
        for number in range(offsets[index + 1] - offsets[index]):
            found[offsets[index] + number] = begins[index] + number * size_bytes


@compiled_when_called
def structures(
    data: Bytes,
    begins: Numbers,
    offsets: npt.NDArray[np.int32],
    program: Numbers,
    places: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
) -> None:
    """Fill in where each field of each structure begins, and its number of elements, in arrays that `fields` has checked."""
    for index in range(len(begins)):
        at = begins[index]
        for element in range(offsets[index], offsets[index + 1]):
            for field in range(len(program)):
                place, count, at = _value(data, at, len(data), program[field, 1], program[field, 2])
                places[field, element], counts[field, element] = place, count
            at += 1


def compile_all() -> None:
    """Compile all loops now, so that processes forked from this one need not."""
    data: Bytes = np.frombuffer(bytes(READ_AHEAD_BYTES), np.uint8)
    own, none, borders = data.copy(), np.zeros(0, np.int64), np.zeros(1, np.int64)
    offsets, tables = np.zeros(1, np.int32), np.zeros((0, 0), np.int64)
    headers(data, 0, 0, 0, borders, np.zeros((0, HEADERS), np.int64))
    frames(data, borders, borders, none, none)
    fields(data, none, none, np.zeros((0, 5), np.int64), tables, tables, none)
    turned(data, none, own, np.zeros((0, len(own)), np.uint8))
    base64(data, none, data, np.zeros((0, 22), np.uint8))
    gathered(data, none, offsets, own)
    appended(data, np.frombuffer(bytes(4), np.int32), offsets[:0], own)
    appended_to_all(data, offsets[:0], own)
    elements(none, offsets, 1, none)
    structures(data, none, offsets, np.zeros((0, 5), np.int64), tables, tables)
