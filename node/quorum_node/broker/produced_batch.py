"""Validates the bytes of a produce request as one batch. PURE.

Owns a leader's checks of header and checksum, with a stock leader's error codes. Must not know the log. Records are
not decoded here.
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
    MAGIC,
    PREFIX_BYTES,
    TRANSACTIONAL_FLAG,
    CorruptBatch,
    read_header,
)
from quorum_node.schema.primitives import Buffer

_NEWEST_CODEC = 4
"""zstd."""
_LENGTH = Struct(">8xi4xb")
_PRODUCER = Struct(">43xqhi")
"""Producer id, producer epoch and base sequence."""
_PLACED = Struct(">qii")
"""Base offset, length and leader epoch: the only bytes that a leader changes. The checksum does not cover them."""


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """`max_message_bytes`: max.message.bytes of the topic; `segment_bytes`: a batch has to fit into one segment;

    `needs_keys`: the topic is compacted, so the code that decodes the records has to check their keys.
    """

    max_message_bytes: int = 1_048_588
    segment_bytes: int = 1 << 30
    needs_keys: bool = False


def read_produced(data: Buffer, limits: BatchLimits) -> Batch | BrokerError:
    """The batch, or why it is refused. Its data is the unchanged bytes."""
    error = _frame_error(data, limits)
    if error is not BrokerError.NONE:
        return error
    try:
        header = read_header(data)
    except CorruptBatch:
        return BrokerError.INVALID_RECORD
    if crc32c(memoryview(data)[CRC_COVERS_FROM:]) != header.crc:
        return BrokerError.CORRUPT_MESSAGE
    producer_id, producer_epoch, base_sequence = _PRODUCER.unpack_from(data)
    if header.is_control or header.record_count != header.last_offset_delta + 1:
        return BrokerError.INVALID_RECORD
    if producer_id != NO_PRODUCER and base_sequence < 0:
        return BrokerError.INVALID_RECORD
    if header.attributes & COMPRESSION_MASK > _NEWEST_CODEC:
        # No consumer could read it, nor anything behind it.
        return BrokerError.UNKNOWN_SERVER_ERROR
    is_transactional = bool(header.attributes & TRANSACTIONAL_FLAG)
    if is_transactional and producer_id == NO_PRODUCER:
        return BrokerError.INVALID_RECORD
    return Batch(
        base_offset=0,
        end_offset=header.record_count,
        leader_epoch=-1,
        size_bytes=header.size_bytes,
        data=data,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        max_timestamp_ms=header.max_timestamp_ms,
        is_transactional=is_transactional,
    )


def place(data: Buffer, base_offset: int, leader_epoch: int) -> bytes:
    """The bytes with the leader's offset and epoch; the checksum stays valid."""
    placed = bytearray(data)
    _PLACED.pack_into(placed, 0, base_offset, len(placed) - PREFIX_BYTES, leader_epoch)
    return bytes(placed)


def _frame_error(data: Buffer, limits: BatchLimits) -> BrokerError:
    """Why it is not one whole batch of the present format, at offset 0 and of valid size."""
    if len(data) < _LENGTH.size:
        return BrokerError.INVALID_RECORD
    length, magic = _LENGTH.unpack_from(data)
    if magic != MAGIC:
        return BrokerError.INVALID_RECORD
    size_bytes = length + PREFIX_BYTES
    if size_bytes < HEADER_BYTES:
        return BrokerError.CORRUPT_MESSAGE
    if size_bytes != len(data) or any(memoryview(data)[:8]):
        return BrokerError.INVALID_RECORD
    if size_bytes > limits.max_message_bytes:
        return BrokerError.MESSAGE_TOO_LARGE
    if size_bytes > limits.segment_bytes:
        return BrokerError.RECORD_LIST_TOO_LARGE
    return BrokerError.NONE
