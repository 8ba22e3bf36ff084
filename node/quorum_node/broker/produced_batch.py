"""Validates the bytes of a produce request as one batch. PURE.

Owns a leader's checks of header and checksum, with a stock leader's error codes. Must not know the log, nor records
(`produced_records.py`).
Source: Kafka's documentation, "Record Batch"; KIP-98; the checks of a stock leader before it appends.
"""

from dataclasses import dataclass
from struct import Struct

from crc32c import crc32c

from quorum_node.broker.batch import NO_PRODUCER, Batch
from quorum_node.broker.errors import BrokerError
from quorum_node.records.batches import (
    COMPRESSION_MASK,
    CRC_COVERS_FROM,
    HEADER_BYTES,
    LENGTH,
    MAGIC,
    PREFIX_BYTES,
    TRANSACTIONAL_FLAG,
    CorruptBatch,
    read_header,
)
from quorum_node.schema.primitives import Buffer

_NEWEST_CODEC = 4
"""The codec with the highest number: zstd."""
_PRODUCER = Struct(">43xqhi")
"""Producer id, producer epoch and base sequence."""
_MAGIC_AT, _ATTRIBUTES_LOW_AT = 16, 22
_CRC = Struct(">17xI")
_LEAST_LENGTH = 14
"""Minimum length, that of a message of the oldest format."""
_PLACED = Struct(">qii")
"""Base offset, length and leader epoch: the only bytes that a leader changes. The checksum does not cover them."""


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Settings of a topic for batches and their records.

    `max_message_bytes`: max.message.bytes; `segment_bytes`: a batch has to fit into one segment; `needs_keys`: the topic is
    compacted; `takes_append_time`: message.timestamp.type is LogAppendTime; `timestamp_before_max_ms` and
    `timestamp_after_max_ms`: largest difference between the time of a record and now; `codec`: compression.type, None keeps the
    producer's; `codec_level`: of gzip and zstd, None is the default.
    """

    max_message_bytes: int = 1_048_588
    segment_bytes: int = 1 << 30
    needs_keys: bool = False
    takes_append_time: bool = False
    timestamp_before_max_ms: int = (1 << 63) - 1
    timestamp_after_max_ms: int = 3_600_000
    codec: int | None = None
    codec_level: int | None = None


def one_batch(data: Buffer) -> memoryview | BrokerError:
    """The single batch of the present format at the start of the bytes, or why the request is refused.

    An incomplete batch may follow. A stock broker makes these checks before it looks up the partition's log.
    """
    size_bytes = _first_size(data)
    return size_bytes if isinstance(size_bytes, BrokerError) else memoryview(data)[:size_bytes]


def codec_of(batch: memoryview) -> int:
    """Codec number of a batch that `one_batch` returned; it may not exist."""
    return batch[_ATTRIBUTES_LOW_AT] & COMPRESSION_MASK


def read_produced(data: Buffer, limits: BatchLimits) -> Batch | BrokerError:
    """The batch, or why it is refused. Its data is the unchanged bytes, without an incomplete batch at the end.

    The checks have the order of a stock leader. Whether the batch fits into a segment is checked later, with its records.
    """
    batch = one_batch(data)
    if isinstance(batch, BrokerError):
        return batch
    size_bytes = len(batch)
    if any(batch[:8]):
        return BrokerError.INVALID_RECORD
    if size_bytes > limits.max_message_bytes:
        return BrokerError.MESSAGE_TOO_LARGE
    if size_bytes < HEADER_BYTES or crc32c(batch[CRC_COVERS_FROM:]) != _CRC.unpack_from(batch)[0]:
        return BrokerError.CORRUPT_MESSAGE
    codec = codec_of(batch)
    if codec > _NEWEST_CODEC:
        # No consumer could read this batch or any later one.
        return BrokerError.UNKNOWN_SERVER_ERROR
    try:
        header = read_header(batch)
    except CorruptBatch:
        return BrokerError.INVALID_RECORD
    producer_id, producer_epoch, base_sequence = _PRODUCER.unpack_from(batch)
    if header.is_control or header.record_count != header.last_offset_delta + 1:
        return BrokerError.INVALID_RECORD
    if producer_id != NO_PRODUCER and base_sequence < 0:
        return BrokerError.INVALID_RECORD
    is_transactional = bool(header.attributes & TRANSACTIONAL_FLAG)
    if is_transactional and producer_id == NO_PRODUCER:
        return BrokerError.INVALID_RECORD
    return Batch(
        base_offset=0,
        end_offset=header.record_count,
        leader_epoch=-1,
        size_bytes=header.size_bytes,
        data=batch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        max_timestamp_ms=header.max_timestamp_ms,
        is_transactional=is_transactional,
        codec=codec,
    )


def is_transactional(data: Buffer) -> bool:
    """Whether the first batch is marked as part of a transaction. The batch may be invalid otherwise."""
    return len(data) > _ATTRIBUTES_LOW_AT and bool(data[_ATTRIBUTES_LOW_AT] & TRANSACTIONAL_FLAG)


def place(data: Buffer, base_offset: int, leader_epoch: int) -> bytes:
    """The bytes with the leader's offset and epoch; the checksum stays valid."""
    placed = bytearray(data)
    _PLACED.pack_into(placed, 0, base_offset, len(placed) - PREFIX_BYTES, leader_epoch)
    return bytes(placed)


def check_size(size_bytes: int, limits: BatchLimits) -> BrokerError:
    """Whether a batch of this size fits into a message and a segment."""
    if size_bytes > limits.max_message_bytes:
        return BrokerError.MESSAGE_TOO_LARGE
    if size_bytes > limits.segment_bytes:
        return BrokerError.RECORD_LIST_TOO_LARGE
    return BrokerError.NONE


def _first_size(data: Buffer) -> int | BrokerError:
    """Size of the single batch of the present format. An incomplete one may follow, as in a stock broker."""
    first = _size_at(data, 0)
    if isinstance(first, BrokerError):
        return first
    if first is None or data[_MAGIC_AT] != MAGIC:
        return BrokerError.INVALID_RECORD
    second = _size_at(data, first)
    if second is None:
        return first
    return second if isinstance(second, BrokerError) else BrokerError.INVALID_RECORD


def _size_at(data: Buffer, position: int) -> int | BrokerError | None:
    """Size of the batch at `position`, of any format; None without a whole batch."""
    rest = len(data) - position
    if rest < PREFIX_BYTES:
        return None
    length, magic = LENGTH.unpack_from(
        bytes(data[position : position + LENGTH.size]).ljust(LENGTH.size, b"\0")
    )
    if length < _LEAST_LENGTH:
        return BrokerError.CORRUPT_MESSAGE
    if rest < LENGTH.size:
        return None
    if not 0 <= magic <= MAGIC:
        return BrokerError.CORRUPT_MESSAGE
    size_bytes: int = length + PREFIX_BYTES
    return size_bytes if size_bytes <= rest else None
