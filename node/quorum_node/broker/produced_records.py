"""Validates the records of a produced batch, and changes the batch if the topic's configuration requires it. PURE.

Owns a stock leader's rules for records: times, keys, the type of timestamps. Must not know compression (`server/broker`
passes the decompressed records).
Source: Kafka's documentation, "Topic Configs" (message.timestamp.*, cleanup.policy); KIP-32; KIP-937.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from struct import Struct
from typing import NamedTuple

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


MOST_NAMED = 1_000
"""Invalid records of a batch that a refusal names. Of compressed records, a few bytes may contain millions."""


class InvalidRecord(NamedTuple):
    """A record that a leader refuses. `number`: its index in the batch."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a batch is not appended. `records`: the first of those that are invalid; none if the batch as a whole is refused.

    A producer fails the named records with this error, and the others of the batch with another one (KIP-467).
    """

    error: BrokerError
    text: str
    records: tuple[InvalidRecord, ...] = ()


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
    if has_append_time:
        times = [header.max_timestamp_ms] * header.record_count
    else:
        times = _times(header.base_timestamp_ms, walked.timestamp_deltas_ms)
    keyless = walked.without_key if limits.needs_keys else []
    if has_append_time and (limits.takes_append_time or header.max_timestamp_ms == NO_TIMESTAMP):
        untimely: Iterable[int] = range(header.record_count)
        text = "has the type LogAppendTime, which only brokers set"
    else:
        untimely = () if limits.takes_append_time else _out_of_range(times, limits, now_ms)
        text = _range_text(limits, now_ms)
    if keyless or untimely:
        return _refusal(keyless, untimely, times, text)
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


def _out_of_range(times: list[int], limits: BatchLimits, now_ms: int) -> list[int]:
    """Indexes of the records with a time out of range."""
    earliest = now_ms - limits.timestamp_before_max_ms
    latest = now_ms + limits.timestamp_after_max_ms
    if earliest <= min(times) and max(times) <= latest:
        return []
    return [
        index
        for index, each in enumerate(times)
        if each != NO_TIMESTAMP and not earliest <= each <= latest
    ]


def _range_text(limits: BatchLimits, now_ms: int) -> str:
    earliest = now_ms - limits.timestamp_before_max_ms
    return f"is not within [{earliest}, {now_ms + limits.timestamp_after_max_ms}]"


def _refusal(keyless: list[int], untimely: Iterable[int], times: list[int], text: str) -> Refusal:
    """All invalid records, up to a limit. The time of a record without its key is not looked at."""
    skipped = frozenset(keyless)  # in a list, the search would take quadratic time
    late = [each for each in untimely if each not in skipped]
    records = tuple(
        InvalidRecord(
            index,
            "the topic is compacted: each record needs a key"
            if index in skipped
            else f"timestamp {times[index]} {text}",
        )
        for index in islice(merge(keyless, late), MOST_NAMED)
    )
    error = BrokerError.INVALID_TIMESTAMP if late else BrokerError.INVALID_RECORD
    count, first = len(keyless) + len(late), records[0]
    all_text = f"{count} invalid records; record {first.number}: {first.text}"
    return Refusal(error, first.text if count == 1 else all_text, records)


def restamped(data: bytes, stamp: Stamp, codec: int, content: bytes | None) -> bytes:
    """The batch with new header fields, new bytes of records if `content` is not None, and the right checksum."""
    changed = bytearray(data if content is None else data[:HEADER_BYTES] + content)
    attributes = stamp.attributes & ~COMPRESSION_MASK | codec
    _INT32.pack_into(changed, _LENGTH_AT, len(changed) - PREFIX_BYTES)
    _INT16.pack_into(changed, _ATTRIBUTES_AT, attributes)
    _INT64.pack_into(changed, _MAX_TIMESTAMP_AT, stamp.max_timestamp_ms)
    _UINT32.pack_into(changed, _CRC_AT, crc32c(memoryview(changed)[CRC_COVERS_FROM:]))
    return bytes(changed)
