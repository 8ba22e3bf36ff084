"""Walks over the records of one batch without copying keys and values. PURE.

Owns the check that the bytes are as many well-formed records as the header states. Must not know other reasons for a refusal.
Source: Kafka's documentation, "Record".

Hot path: a leader walks over every batch that a producer sends. Lengths of one and two bytes are therefore decoded in place.
"""

import sys
from typing import NamedTuple

from quorum_node.schema.primitives import MalformedRecord, encode_varint, read_varint


class OutOfOrder(Exception):
    """The offset delta of a record is not its index."""


class ManyHeaders(Exception):
    """The records have more headers than the limit."""


class WalkedRecords(NamedTuple):
    """`timestamp_deltas_ms`: of each record, to the batch's base timestamp. `without_key`: indexes of records without a key.

    `is_in_order`: whether the offset delta of each record is its index.
    """

    timestamp_deltas_ms: list[int]
    without_key: list[int]
    is_in_order: bool


def walk_records(
    raw: bytes,
    position: int,
    count: int,
    *,
    most_headers: int = sys.maxsize,
    needs_order: bool = False,
) -> WalkedRecords:
    """Walk over the `count` records that fill `raw` from `position` to its end.

    A negative length of a key or a value means null, as in a stock broker. Raises MalformedRecord with the index of the record,
    ManyHeaders for more than `most_headers` of all records together, and with `needs_order` OutOfOrder at the first such record:
    millions of equal records take a few bytes when they are compressed.
    """
    deltas: list[int] = []
    without_key: list[int] = []
    is_in_order = True
    index = -1
    try:
        for index in range(count):
            low, high = raw[position], raw[position + 1]
            if low < 0x80 and not low & 1:
                position += 1
                end = position + (low >> 1)
            elif low >= 0x80 > high and not low & 1:
                position += 2
                end = position + ((low & 0x7F | high << 7) >> 1)
            else:
                size, position = read_varint(raw, position)
                end = position + size
            # The attributes of a record, one byte, are not used by the format.
            delta = raw[position + 1]
            if delta < 0x80:
                delta = (delta >> 1) ^ -(delta & 1)
                position += 2
            else:
                delta, position = read_varint(raw, position + 1)
            deltas.append(delta)
            if index < 0x40 and raw[position] == index << 1:
                position += 1
            else:
                offset_delta, position = read_varint(raw, position)
                if offset_delta != index:
                    if needs_order:
                        raise OutOfOrder
                    is_in_order = False
            if raw[position] & 1:
                _, position = read_varint(raw, position)
                without_key.append(index)
            else:
                position = _after_bytes(raw, position)
            low, high = raw[position], raw[position + 1]
            if low < 0x80 and not low & 1:
                position += 1 + (low >> 1)
            elif low >= 0x80 > high and not low & 1:
                position += 2 + ((low & 0x7F | high << 7) >> 1)
            else:
                position = _after_bytes(raw, position)
            if raw[position]:
                position, headers = _after_headers(raw, position, most_headers)
                most_headers -= headers
            else:
                position += 1
            if position != end:
                raise MalformedRecord("the record's length disagrees with its fields")
    except (MalformedRecord, IndexError) as error:
        raise MalformedRecord(f"record {index}: {error}") from None
    if position != len(raw):
        raise MalformedRecord(f"{len(raw) - position} bytes after the last record")
    return WalkedRecords(deltas, without_key, is_in_order)


def renumbered(raw: bytes, position: int, count: int) -> bytes:
    """The records from `position` on, with their indexes as offset deltas; `walk_records` has accepted them."""
    parts = []
    for index in range(count):
        size, start = read_varint(raw, position)
        position = start + size
        _, at = read_varint(raw, start + 1)
        _, rest = read_varint(raw, at)
        body = raw[start:at] + encode_varint(index) + raw[rest:position]
        parts.append(encode_varint(len(body)) + body)
    return b"".join(parts)


def _after_bytes(raw: bytes, position: int) -> int:
    """The position after a key or a value, which may be null."""
    size, position = read_varint(raw, position)
    return position + max(size, 0)


def _after_headers(raw: bytes, position: int, most: int) -> tuple[int, int]:
    """The position after the headers, and their number."""
    count, position = read_varint(raw, position)
    if not 0 <= count <= len(raw) - position:
        raise MalformedRecord(f"{count} headers")
    if count > most:
        raise ManyHeaders
    for _ in range(count):
        size, position = read_varint(raw, position)
        if size < 0:
            raise MalformedRecord(f"the key of a header has length {size}")
        position = _after_bytes(raw, position + size)
    return position, count
