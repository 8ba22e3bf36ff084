"""Kafka record batches, format v2: the unit of the log, of replication and of checksums.

Owns encoding and decoding of batches. Must not know the meaning of records, nor where batches are stored.
Source: Kafka's documentation, "Record Batch"; KIP-595, "Log"; requirement: the CRC-32C is checked before
anything that it covers is interpreted.

Hot path: a batch is encoded once, by the leader. After that it is sent and stored as raw bytes.
"""

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from quorum_node.schema.primitives import (
    Buffer,
    MalformedRecord,
    encode_varint,
    read_varint,
)

MAGIC = 2
PREFIX_BYTES = 12
"""Base offset and length, which the length does not include."""
HEADER_BYTES = 61
MIN_LENGTH = HEADER_BYTES - PREFIX_BYTES
CONTROL_FLAG = 0x20
TRANSACTIONAL_FLAG = 0x10
COMPRESSION_MASK = 0x07
_MAGIC_AT = 16
CRC_COVERS_FROM = 21
_MIN_RECORD_BYTES = 7

_PREFIX = Struct(">qiibI")
_BODY = Struct(">hiqqqhii")
HEADER = Struct(">qiibIhiqqqhii")
"""Base offset, length, leader epoch, magic, CRC-32C, attributes, last offset delta, base timestamp, maximum timestamp, producer id,
producer epoch, base sequence, number of records."""
HEADER_START = Struct(">qiibIhi")
"""The header's fields up to the last offset delta, for code that reads headers that may be damaged."""
SPAN = Struct(">qi11xi")
"""Base offset, length, last offset delta."""
LENGTH = Struct(">8xi4xb")
"""Length, magic."""
_NO_PRODUCER = (-1, -1)
_ZIGZAG_BYTES = [bytes((n,)) for n in range(0x80)]


class CorruptBatch(Exception):
    """Bytes that can't be a batch: wrong magic, checksum, length or content.

    `position` counts from the start of the given buffer.
    """

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"corrupt batch at byte {position}: {reason}")
        self.position = position
        self.reason = reason


class Record(NamedTuple):
    """A record to be written; None is Kafka's null."""

    key: bytes | None
    value: bytes | None


class DecodedRecord(NamedTuple):
    """A record as found in a batch."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


# Named tuples, not dataclasses: one is created for each batch that is written, fetched or served.
class BatchHeader(NamedTuple):
    """The fixed part of a batch; `size_bytes` is the whole batch with its prefix."""

    base_offset: int
    size_bytes: int
    leader_epoch: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    record_count: int

    @property
    def end_offset(self) -> int:
        """Offset after the last record (exclusive)."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def is_control(self) -> bool:
        """True for a batch of control records (voters, leader change, ...)."""
        return self.attributes & CONTROL_FLAG != 0


class Batch(NamedTuple):
    """A whole batch with verified checksum; `data` is a view without a copy."""

    header: BatchHeader
    data: memoryview


def encode_batch(
    *,
    base_offset: int,
    leader_epoch: int,
    timestamp_ms: int,
    records: Sequence[Record],
    control: bool = False,
    transaction: tuple[int, int] | None = None,
) -> bytes:
    """One uncompressed batch; every record gets the same timestamp. At least one record is required.

    `transaction`: id and epoch of the producer; the batch has no sequence number.
    """
    assert records, "a batch needs at least one record"
    parts = []
    for delta, (key, value) in enumerate(records):
        delta_bytes = _ZIGZAG_BYTES[delta << 1] if delta < 0x40 else encode_varint(delta)
        if key is None:
            key_bytes = b"\x01"
        else:
            key_bytes = encode_varint(len(key)) + key
        if value is None:
            body = b"\0\0" + delta_bytes + key_bytes + b"\x01\0"
        else:
            body = b"".join(
                (b"\0\0", delta_bytes, key_bytes, encode_varint(len(value)), value, b"\0")
            )
        parts.append(encode_varint(len(body)))
        parts.append(body)
    attributes = CONTROL_FLAG if control else 0
    if transaction is not None:
        attributes |= TRANSACTIONAL_FLAG
    fields = (timestamp_ms, timestamp_ms, *(transaction or _NO_PRODUCER), -1, len(records))
    return framed(
        base_offset, leader_epoch, (attributes, len(records) - 1, *fields), b"".join(parts)
    )


def encode_values(
    *, base_offset: int, leader_epoch: int, timestamp_ms: int, values: Sequence[bytes]
) -> bytes:
    """As `encode_batch`, for metadata records (no keys): the fast path of an append."""
    assert values, "a batch needs at least one record"
    parts: list[bytes] = []
    for delta, value in enumerate(values):
        parts += (_record_head(delta, len(value)), value, b"\0")
    fields = (0, len(values) - 1, timestamp_ms, timestamp_ms, *_NO_PRODUCER, -1, len(values))
    return framed(base_offset, leader_epoch, fields, b"".join(parts))


@lru_cache(maxsize=1 << 14)
def _record_head(delta: int, value_bytes: int) -> bytes:
    """The bytes before the value of a record without key. The one byte after the value means no headers."""
    # attributes, timestamp delta, offset delta, key length -1, value length
    head = b"\0\0" + encode_varint(delta) + b"\x01" + encode_varint(value_bytes)
    return encode_varint(len(head) + value_bytes + 1) + head


def framed(base_offset: int, leader_epoch: int, fields: tuple[int, ...], content: bytes) -> bytes:
    """The batch with `content`, the bytes of its records. `fields`: of the header, from the attributes on."""
    covered = _BODY.pack(*fields) + content
    length = len(covered) + CRC_COVERS_FROM - PREFIX_BYTES
    return _PREFIX.pack(base_offset, length, leader_epoch, MAGIC, crc32c(covered)) + covered


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`, without verifying the checksum.

    Raises CorruptBatch on fewer than 61 bytes, another magic, or numbers that no batch can have.
    """
    if len(buffer) - position < HEADER_BYTES:
        raise CorruptBatch(
            position, f"{len(buffer) - position} bytes are too few for a batch header"
        )
    header = _header_at(buffer, position)
    if buffer[position + _MAGIC_AT] != MAGIC:
        raise CorruptBatch(position, f"magic {buffer[position + _MAGIC_AT]}")
    if header.size_bytes < HEADER_BYTES:
        raise CorruptBatch(position, f"length {header.size_bytes - PREFIX_BYTES}")
    _check_counts(header, position)
    return header


def _header_at(buffer: Buffer, position: int) -> BatchHeader:
    (
        base_offset, length, epoch, _, crc, attributes, last_delta, base_ts, max_ts, _, _, _, count,
    ) = HEADER.unpack_from(buffer, position)  # fmt: skip
    return BatchHeader(
        base_offset, length + PREFIX_BYTES, epoch, crc, attributes, last_delta, base_ts, max_ts, count
    )  # fmt: skip


def _check_counts(header: BatchHeader, position: int) -> None:
    """Check the numbers of a header for plausibility."""
    base_offset, last_delta, count = header[0], header[5], header[8]
    if base_offset < 0 or last_delta < 0 or not 0 < count <= last_delta + 1:
        reason = f"offset {base_offset}, last delta {last_delta}, {count} records"
        raise CorruptBatch(position, reason)


def split_batches(buffer: Buffer) -> tuple[list[Batch], int]:
    """Whole batches with verified checksums, and the number of bytes of an incomplete batch at the end.

    A fetch response or an incomplete log may end in the middle of a batch: that is not an error.
    Raises CorruptBatch if the bytes can't be (the start of) a batch: magic, length, CRC-32C.
    """
    view = memoryview(buffer)
    total = len(view)
    position = 0
    batches: list[Batch] = []
    while total - position >= LENGTH.size:
        length, magic = LENGTH.unpack_from(view, position)
        if magic != MAGIC:
            raise CorruptBatch(position, f"magic {magic}")
        if length < MIN_LENGTH:
            raise CorruptBatch(position, f"length {length}")
        end = position + PREFIX_BYTES + length
        if end > total:
            break
        header = _header_at(view, position)
        if crc32c(view[position + CRC_COVERS_FROM : end]) != header.crc:
            raise CorruptBatch(position, "checksum differs")
        _check_counts(header, position)
        batches.append(Batch(header, view[position:end]))
        position = end
    return batches, total - position


def committed_batches(
    buffer: Buffer, offset: int, end_offset: int
) -> tuple[list[Batch], CorruptBatch | None]:
    """The whole batches in a read of committed offsets, and the damage in it, if any.

    Offsets are checked, as Kafka's checksum does not cover base offsets. A read without a batch is
    damage as well: repeating it would not end.
    """
    try:
        batches, _ = split_batches(buffer)
    except CorruptBatch as damage:
        return [], damage
    if not batches:
        return [], CorruptBatch(
            0, f"no batch from offset {offset} on ends at or before {end_offset}"
        )
    for number, batch in enumerate(batches):
        found = batch.header.base_offset
        if found != offset:
            return batches[:number], CorruptBatch(0, f"offset {found} instead of {offset}")
        offset = batch.header.end_offset
    return batches, None


def decode_records(batch: Batch) -> list[DecodedRecord]:
    """The records of a batch with verified checksum.

    Raises CorruptBatch if a length is wrong or the batch is compressed (no KRaft log ever is).
    """
    header, data = batch
    if header.attributes & COMPRESSION_MASK:
        raise CorruptBatch(0, f"compressed, attributes {header.attributes:#x}")
    if header.record_count * _MIN_RECORD_BYTES > len(data) - HEADER_BYTES:
        raise CorruptBatch(0, f"{header.record_count} records in {len(data)} bytes")
    raw = bytes(data)
    records: list[DecodedRecord] = []
    position = HEADER_BYTES
    try:
        for _ in range(header.record_count):
            record, position = _read_record(raw, position, header)
            records.append(record)
    except MalformedRecord as error:
        raise CorruptBatch(position, str(error)) from None
    if position != len(raw):
        raise CorruptBatch(position, f"{len(raw) - position} bytes after the last record")
    return records


def _read_record(raw: bytes, position: int, header: BatchHeader) -> tuple[DecodedRecord, int]:
    size, position = read_varint(raw, position)
    end = position + size
    if size < _MIN_RECORD_BYTES - 1 or end > len(raw):
        raise MalformedRecord(f"record of {size} bytes")
    timestamp_delta, position = read_varint(raw, position + 1)
    offset_delta, position = read_varint(raw, position)
    if not 0 <= offset_delta <= header.last_offset_delta:
        raise MalformedRecord(f"offset delta {offset_delta}")
    key, position = _read_bytes(raw, position, end)
    value, position = _read_bytes(raw, position, end)
    headers, position = read_varint(raw, position)
    if headers < 0 or (headers == 0) != (position == end) or position > end:
        raise MalformedRecord(f"record length {size} disagrees with its fields")
    # Headers, which metadata records don't use, are skipped: the record's length gives its end.
    offset = header.base_offset + offset_delta
    return DecodedRecord(offset, header.base_timestamp_ms + timestamp_delta, key, value), end


def _read_bytes(raw: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    size, position = read_varint(raw, position)
    if size < 0:
        if size != -1:
            raise MalformedRecord(f"length {size}")
        return None, position
    stop = position + size
    if stop > end:
        raise MalformedRecord(f"{size} bytes in a record that ends at {end}")
    return raw[position:stop], stop
