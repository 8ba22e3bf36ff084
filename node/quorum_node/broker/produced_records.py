"""Validates the records of a produced batch, and changes the batch if the topic's configuration requires it. PURE.

Owns a stock leader's rules for records: times, keys, the type of timestamps. Must not know compression (`server/broker`
passes the decompressed records).
Source: Kafka's documentation, "Topic Configs" (message.timestamp.*, cleanup.policy); KIP-32; KIP-937.
"""

from dataclasses import dataclass
from struct import Struct

from crc32c import crc32c

from quorum_node.broker.errors import BrokerError
from quorum_node.broker.produced_batch import BatchLimits
from quorum_node.broker.wrapped import wrapped
from quorum_node.records.batches import (
    COMPRESSION_MASK,
    CRC_COVERS_FROM,
    HEADER_BYTES,
    PREFIX_BYTES,
    BatchHeader,
)
from quorum_node.records.record_walk import WalkedRecords

APPEND_TIME_FLAG = 0x08
"""Attribute of a batch: its maximum timestamp, set by a broker, is the time of all records."""
NO_TIMESTAMP = -1
_LENGTH_AT, _CRC_AT, _ATTRIBUTES_AT, _MAX_TIMESTAMP_AT = 8, 17, 21, 35
_INT16, _INT32, _UINT32, _INT64 = Struct(">h"), Struct(">i"), Struct(">I"), Struct(">q")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a batch is not appended. `record`: index of an invalid record; None if no single record is invalid."""

    error: BrokerError
    text: str
    record: int | None = None


@dataclass(frozen=True, slots=True)
class Stamp:
    """The header fields that a leader sets."""

    attributes: int
    max_timestamp_ms: int


def check_records(
    header: BatchHeader, walked: WalkedRecords, limits: BatchLimits, now_ms: int
) -> Stamp | Refusal:
    """Header fields of the batch to be appended, with its codec unchanged, or why it is refused.

    `now_ms`: milliseconds since 1970.
    """
    has_append_time = bool(header.attributes & APPEND_TIME_FLAG)
    if limits.takes_append_time and has_append_time:
        text = "the type of timestamps LogAppendTime is set by brokers alone"
        return Refusal(BrokerError.INVALID_TIMESTAMP, text, 0)
    if has_append_time:
        times = [header.max_timestamp_ms] * header.record_count
    else:
        times = _times(header.base_timestamp_ms, walked.timestamp_deltas_ms)
    keyless = walked.without_key if limits.needs_keys else []
    if not limits.takes_append_time:
        late = _out_of_range(times, keyless, limits, now_ms)
        if late is not None:
            return late
    if keyless:
        text = "the topic is compacted: each record needs a key"
        return Refusal(BrokerError.INVALID_RECORD, text, keyless[0])
    if limits.takes_append_time:
        return Stamp(header.attributes | APPEND_TIME_FLAG, now_ms)
    return Stamp(header.attributes & ~APPEND_TIME_FLAG, max(NO_TIMESTAMP, max(times)))


def _times(base_ms: int, deltas_ms: list[int]) -> list[int]:
    """Time of each record; sums wrap around as in a stock broker."""
    times = [base_ms + each for each in deltas_ms]
    first, last = min(times), max(times)
    if wrapped(first) == first and wrapped(last) == last:
        return times
    return [wrapped(each) for each in times]


def _out_of_range(
    times: list[int], keyless: list[int], limits: BatchLimits, now_ms: int
) -> Refusal | None:
    """The refusal of the first record with a time out of range, or None. Records without a required key are skipped."""
    earliest = now_ms - limits.timestamp_before_max_ms
    latest = now_ms + limits.timestamp_after_max_ms
    if earliest <= min(times) and max(times) <= latest:
        return None
    skipped = frozenset(keyless)  # in a list, the search would take quadratic time
    for index, each in enumerate(times):
        if each != NO_TIMESTAMP and not earliest <= each <= latest and index not in skipped:
            text = f"timestamp {each} is not within [{earliest}, {latest}]"
            first = min([index, *keyless[:1]])
            return Refusal(BrokerError.INVALID_TIMESTAMP, text, first)
    return None


def restamped(data: bytes, stamp: Stamp, codec: int, content: bytes | None) -> bytes:
    """The batch with new header fields, new bytes of records if `content` is not None, and the right checksum."""
    changed = bytearray(data if content is None else data[:HEADER_BYTES] + content)
    attributes = stamp.attributes & ~COMPRESSION_MASK | codec
    _INT32.pack_into(changed, _LENGTH_AT, len(changed) - PREFIX_BYTES)
    _INT16.pack_into(changed, _ATTRIBUTES_AT, attributes)
    _INT64.pack_into(changed, _MAX_TIMESTAMP_AT, stamp.max_timestamp_ms)
    _UINT32.pack_into(changed, _CRC_AT, crc32c(memoryview(changed)[CRC_COVERS_FROM:]))
    return bytes(changed)
