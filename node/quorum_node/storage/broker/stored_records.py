"""Reads the records of a stored batch, with any compression.

Only compaction and searches by timestamp decode stored batches. Source: Kafka's
documentation, "Record Batch".
"""

from collections.abc import Iterator
from typing import NamedTuple

from quorum_node.broker.wrapped import wrapped
from quorum_node.records.batches import (
    COMPRESSION_MASK,
    HEADER_BYTES,
    Batch,
    CorruptBatch,
    DecodedRecord,
    decode_records,
    read_header,
)
from quorum_node.schema.primitives import MalformedRecord, read_varint
from quorum_node.storage.broker.codecs import BadContent, inflate

_LOG_APPEND_TIME = 0x08


class StoredRecord(NamedTuple):
    """`body`: the record as in the batch, with its length prefix."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    has_value: bool
    body: bytes


def record_bytes(data: bytes) -> bytes:
    """The decompressed records. Raises UnknownCodec, CorruptBatch."""
    codec = read_header(data).attributes & COMPRESSION_MASK
    if not codec:
        return data[HEADER_BYTES:]
    try:
        return inflate(codec, data[HEADER_BYTES:])
    except BadContent as error:
        raise CorruptBatch(HEADER_BYTES, str(error)) from None


def decoded_records(data: bytes) -> list[DecodedRecord]:
    """Keys and values of a batch that has records. Raises UnknownCodec, CorruptBatch."""
    header, content = read_header(data), record_bytes(data)
    plain = header._replace(attributes=header.attributes & ~COMPRESSION_MASK)
    return decode_records(Batch(plain, memoryview(data[:HEADER_BYTES] + content)))


def stored_records(data: bytes) -> Iterator[StoredRecord]:
    """The records in order; offsets may have gaps. Raises UnknownCodec, CorruptBatch.

    An offset outside of the batch counts as damage. In a compacted log a record with too high an offset would remove later
    records of its key.
    """
    header = read_header(data)
    raw, at, least_delta = record_bytes(data), 0, 0
    append_time = header.max_timestamp_ms if header.attributes & _LOG_APPEND_TIME else None
    try:
        while at < len(raw):
            size, body = read_varint(raw, at)
            end = body + size
            if size < 6 or end > len(raw):
                raise MalformedRecord(f"record of {size} bytes")
            timestamp_delta, position = read_varint(raw, body + 1)
            offset_delta, position = read_varint(raw, position)
            if not least_delta <= offset_delta <= header.last_offset_delta:
                raise MalformedRecord(f"offset delta {offset_delta}")
            least_delta = offset_delta + 1
            key_size, position = read_varint(raw, position)
            key = None
            if key_size >= 0:
                key = raw[position : position + key_size]
                position += key_size
            value_size, position = read_varint(raw, position)
            if position + max(value_size, 0) > end:
                raise MalformedRecord(f"value of {value_size} bytes")
            timestamp = wrapped(header.base_timestamp_ms + timestamp_delta)
            yield StoredRecord(
                header.base_offset + offset_delta,
                timestamp if append_time is None else append_time,
                key,
                value_size >= 0,
                raw[at:end],
            )
            at = end
    except (MalformedRecord, IndexError) as error:
        raise CorruptBatch(at, str(error)) from None
