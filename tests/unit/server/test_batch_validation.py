"""Batches of producers: a stock leader's rules for records, the changes required by a topic's configuration, and their order."""

import asyncio
import random
from dataclasses import replace

import pytest
from crc32c import crc32c

from quorum_node.broker.batch import Batch
from quorum_node.broker.errors import BrokerError
from quorum_node.broker.produced_batch import BatchLimits, read_produced
from quorum_node.broker.produced_records import MOST_NAMED, Refusal
from quorum_node.records.batches import HEADER_BYTES, read_header, split_batches
from quorum_node.server.broker.batch_validation import (
    MOST_BYTES_ON_LOOP,
    MOST_RECORDS_ON_LOOP,
    BatchValidation,
    Validated,
    validated,
)
from quorum_node.storage.broker.codecs import GZIP, LZ4, NONE, SNAPPY, ZSTD
from quorum_node.storage.broker.stored_records import record_bytes, stored_records
from support import produced_batches
from support.produced_batches import Content, content_of

NOW_MS = 1_764_000_000_000
HOUR_MS = 3_600_000
LIMITS = BatchLimits()
INVALID_TIMESTAMP = BrokerError.INVALID_TIMESTAMP


def produced(
    *records: Content,
    base_ms: int = NOW_MS,
    max_ms: int | None = None,
    attributes: int = 0,
    content: bytes | None = None,
    count: int | None = None,
) -> bytes:
    """As `support.produced_batches` makes it, at the time of these tests."""
    return produced_batches.produced(
        *records,
        base_ms=base_ms,
        max_ms=max_ms,
        attributes=attributes,
        content=content,
        count=count,
    )


def read(data: bytes, limits: BatchLimits = LIMITS) -> Batch:
    batch = read_produced(data, limits)
    assert isinstance(batch, Batch)
    return batch


def result(data: bytes, limits: BatchLimits = LIMITS) -> Batch | Refusal:
    return validated(read(data, limits), limits, NOW_MS)


def accepted(data: bytes, limits: BatchLimits = LIMITS) -> bytes:
    found = result(data, limits)
    assert isinstance(found, Batch), found
    kept = bytes(found.data)  # type: ignore[call-overload]
    (batch,), rest = split_batches(kept)
    assert (rest, found.size_bytes) == (0, len(kept))
    assert found.max_timestamp_ms == batch.header.max_timestamp_ms
    return kept


def refused(data: bytes, limits: BatchLimits = LIMITS) -> Refusal:
    found = result(data, limits)
    assert isinstance(found, Refusal), found
    return found


def named(refusal: Refusal) -> list[int]:
    """Indexes of the invalid records."""
    return [each.number for each in refusal.records]


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
def test_valid_producer_batch_is_stored_unchanged(codec: int) -> None:
    data = produced((0, None, b"a"), (5, b"k", b"b" * 300), (3, None, b""), attributes=codec)
    assert accepted(data) == data


@pytest.mark.parametrize("codec", [NONE, LZ4])
@pytest.mark.parametrize("late_ms", [HOUR_MS + 1, 1 << 40])
def test_timestamp_too_far_in_the_future_is_rejected_in_any_record(
    codec: int, late_ms: int
) -> None:
    """Also if the header claims an earlier maximum."""
    data = produced((0, None, b"a"), (late_ms, None, b"b"), attributes=codec, max_ms=NOW_MS)
    found = refused(data)
    assert (found.error, named(found)) == (INVALID_TIMESTAMP, [1])
    assert f"timestamp {NOW_MS + late_ms} is not within" in found.text
    assert accepted(produced((0, None, b"a"), (HOUR_MS, None, b"b")))
    assert accepted(data, replace(LIMITS, timestamp_after_max_ms=late_ms))


def test_timestamp_too_far_in_the_past_is_rejected_if_the_topic_limits_it() -> None:
    data = produced((-HOUR_MS - 1, None, b"a"), (0, None, b"b"))
    assert accepted(data)
    found = refused(data, replace(LIMITS, timestamp_before_max_ms=HOUR_MS))
    assert (found.error, named(found)) == (INVALID_TIMESTAMP, [0])
    assert accepted(data, replace(LIMITS, timestamp_before_max_ms=HOUR_MS + 1))


def test_record_without_timestamp_is_never_out_of_range() -> None:
    limits = replace(LIMITS, timestamp_before_max_ms=HOUR_MS)
    assert accepted(produced((0, None, b"a"), base_ms=-1), limits)
    mixed = produced((0, None, b"a"), (1, None, b"b"), base_ms=-1)
    assert named(refused(mixed, limits)) == [1]


def test_wrong_maximum_timestamp_of_the_header_is_corrected() -> None:
    data = produced((0, None, b"a"), (7, None, b"b"), (2, None, b"c"), max_ms=5)
    kept = accepted(data)
    assert read_header(kept).max_timestamp_ms == NOW_MS + 7
    assert kept[HEADER_BYTES:] == data[HEADER_BYTES:]


@pytest.mark.parametrize("codec", [NONE, ZSTD])
def test_log_append_time_uses_the_clock_of_the_leader(codec: int) -> None:
    limits = replace(LIMITS, takes_append_time=True)
    # The producer's own time is ignored.
    data = produced((0, None, b"a"), (1 << 41, None, b"b"), attributes=codec)
    kept = accepted(data, limits)
    header = read_header(kept)
    assert (header.attributes, header.max_timestamp_ms) == (codec | 0x08, NOW_MS)
    assert [each.timestamp_ms for each in stored_records(kept)] == [NOW_MS, NOW_MS]
    assert kept[HEADER_BYTES:] == data[HEADER_BYTES:]


def test_only_the_leader_sets_the_timestamp_type() -> None:
    data = produced((0, None, b"a"), attributes=0x08, max_ms=NOW_MS + 3)
    assert refused(data, replace(LIMITS, takes_append_time=True)).error is INVALID_TIMESTAMP
    header = read_header(accepted(data))
    assert (header.attributes, header.max_timestamp_ms) == (0, NOW_MS + 3)
    late = produced((0, None, b"a"), attributes=0x08, max_ms=NOW_MS + HOUR_MS + 1)
    assert refused(late).error is INVALID_TIMESTAMP


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
def test_compacted_topic_requires_keys(codec: int) -> None:
    limits = replace(LIMITS, needs_keys=True)
    assert accepted(produced((0, b"k", b"a"), (0, b"", b"b"), attributes=codec), limits)
    found = refused(produced((0, b"k", b"a"), (0, None, b"b"), attributes=codec), limits)
    assert (found.error, named(found)) == (BrokerError.INVALID_RECORD, [1])
    assert "compacted" in found.text


@pytest.mark.parametrize("source", [NONE, GZIP, ZSTD])
@pytest.mark.parametrize("target", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
def test_compression_type_of_the_topic_overrides_that_of_the_producer(
    source: int, target: int
) -> None:
    records = [(number, b"k%d" % number, b"value " * 40) for number in range(9)]
    data = produced(*records, attributes=source)
    kept = accepted(data, replace(LIMITS, codec=target))
    assert read_header(kept).attributes == target
    assert record_bytes(kept) == content_of(*records)
    assert (kept == data) == (source == target)


def test_compression_levels_are_applied() -> None:
    words = random.Random(1).choices([b"voter", b"epoch", b"leader", b"isr", b"offset"], k=8_000)
    data = produced((0, None, b" ".join(words)))
    for codec in (GZIP, ZSTD):
        sizes = {
            len(accepted(data, replace(LIMITS, codec=codec, codec_level=level))) for level in (1, 9)
        }
        assert len(sizes) == 2, codec


def test_batch_that_exceeds_the_limit_after_recompression_is_rejected() -> None:
    data = produced((0, None, b"x" * 5_000), attributes=ZSTD)
    limits = replace(LIMITS, codec=NONE, max_message_bytes=4_000)
    assert refused(data, limits).error is BrokerError.MESSAGE_TOO_LARGE


def test_batch_larger_than_a_segment_is_rejected_after_all_other_checks() -> None:
    data = produced((0, None, b"x" * 500))
    limits = replace(LIMITS, segment_bytes=len(data) - 1)
    assert refused(data, limits).error is BrokerError.RECORD_LIST_TOO_LARGE
    assert accepted(data, replace(limits, codec=ZSTD)), "it is smaller as it is stored"
    late = produced((2 * HOUR_MS, None, b"x" * 500))
    assert refused(late, limits).error is INVALID_TIMESTAMP


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
def test_unreadable_records_are_rejected(codec: int) -> None:
    good = content_of((0, None, b"a"), (0, None, b"b"))
    for content in (good[:-1], good + b"\0", b"\xff" * 40, b"\x10" + good[1:]):
        found = refused(produced(attributes=codec, content=content, count=2))
        assert found.error is BrokerError.INVALID_RECORD
        assert "can't be read" in found.text
    if codec:
        data = bytearray(produced((0, None, b"a" * 90), attributes=codec)[:-6])
        data[8:12] = (len(data) - 12).to_bytes(4, "big")
        data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
        found = refused(bytes(data))
        assert found.error is BrokerError.UNKNOWN_SERVER_ERROR
        assert "can't be read" in found.text


def test_offset_deltas_must_be_consecutive() -> None:
    """A stock broker stores such a batch as it is if nothing compresses it; then two records have one offset."""
    good = content_of((0, None, b"a"), (1, None, b"b"))
    assert good[8 + 3] == 2
    swapped = good[:3] + b"\x02" + good[4:11] + b"\x7f" + good[12:]
    for limits in (LIMITS, replace(LIMITS, codec=LZ4)):
        kept = accepted(produced(content=swapped, count=2, max_ms=NOW_MS + 1), limits)
        assert record_bytes(kept) == good
    both_compressed = produced(content=swapped, count=2, attributes=LZ4)
    assert refused(both_compressed).error is BrokerError.UNKNOWN_SERVER_ERROR
    assert record_bytes(accepted(both_compressed, replace(LIMITS, codec=NONE))) == good


def test_timestamps_beyond_64_bits_are_rejected() -> None:
    no_limit = replace(LIMITS, timestamp_after_max_ms=(1 << 63) - 1)
    data = produced(((1 << 63) - 1, None, b"a"), base_ms=1 << 62, max_ms=5)
    for limits in (LIMITS, no_limit):
        found = result(data, limits)
        assert isinstance(found, Batch) or found.error is INVALID_TIMESTAMP
    assert named(refused(produced((1 << 62, None, b"a"), base_ms=1 << 61, max_ms=5))) == [0]


def test_timestamp_error_takes_precedence_over_a_missing_key_elsewhere() -> None:
    limits = replace(LIMITS, needs_keys=True)
    late = 2 * HOUR_MS
    found = refused(produced((0, None, b"a"), (late, b"k", b"b")), limits)
    assert (found.error, named(found)) == (INVALID_TIMESTAMP, [0, 1])
    found = refused(produced((0, b"k", b"a"), (late, None, b"b")), limits)
    assert (found.error, named(found)) == (BrokerError.INVALID_RECORD, [1])


async def test_large_validations_run_in_a_thread_and_keep_the_order_of_a_partition() -> None:
    many = [(0, None, b"")] * (MOST_RECORDS_ON_LOOP + 1)
    large = [(0, None, bytes(MOST_BYTES_ON_LOOP))]
    small = [(0, None, b"small")]
    sizes = BatchLimits(max_message_bytes=1 << 24)
    validation = BatchValidation(lambda: NOW_MS)
    order: list[str] = []
    done = asyncio.Event()

    def then(name: str, last: bool = False) -> Validated:
        def take(found: Batch | Refusal) -> None:
            assert isinstance(found, Batch)
            order.append(name)
            if last:
                done.set()

        return take

    validation.validate("p", read(produced(*small), sizes), sizes, then("1"))
    assert order == ["1"], "small work is done at once"
    validation.validate("p", read(produced(*many), sizes), sizes, then("2"))
    validation.validate("p", read(produced(*small), sizes), sizes, then("3"))
    validation.validate("p", read(produced(*large, attributes=GZIP), sizes), sizes, then("4"))
    validation.validate("p", read(produced(*small), sizes), sizes, then("5", last=True))
    validation.validate("other", read(produced(*small), sizes), sizes, then("other"))
    assert order == ["1", "other"], "another partition does not wait"
    await asyncio.wait_for(done.wait(), 30)
    assert order == ["1", "other", "2", "3", "4", "5"]
    validation.validate("p", read(produced(*small), sizes), sizes, then("6"))
    assert order[-1] == "6", "nothing waits any more"
    validation.validate("p", read(produced(*many), sizes), sizes, then("never"))
    validation.close()
    for records in (small, many):
        validation.validate("other", read(produced(*records), sizes), sizes, then("never"))
    await asyncio.get_running_loop().run_in_executor(None, validation.join)
    await asyncio.sleep(0)
    assert order[-1] == "6", "closed"


def test_batch_that_decompresses_beyond_the_limit_is_rejected() -> None:
    """A batch that is small on the wire and decompresses to more than 128 MiB."""
    bomb = produced(content=bytes(129 << 20), count=1, attributes=ZSTD)
    assert len(bomb) < 100_000
    found = refused(bomb)
    assert found.error is BrokerError.UNKNOWN_SERVER_ERROR
    assert "decompresses to more than" in found.text


@pytest.mark.parametrize("codec", [NONE, LZ4])
def test_all_invalid_records_are_named(codec: int) -> None:
    """A producer fails these with another exception than the others of the batch (KIP-467)."""
    limits, late = replace(LIMITS, needs_keys=True), 2 * HOUR_MS
    records = [(0, None, b"a"), (0, b"k", b"b"), (late, None, b"c"), (late, b"k", b"d")]
    found = refused(produced(*records, attributes=codec), limits)
    assert (found.error, named(found)) == (INVALID_TIMESTAMP, [0, 2, 3])
    assert ["needs a key" in each.text for each in found.records] == [True, True, False]
    found = refused(produced(*records[:3], attributes=codec), limits)
    assert (found.error, named(found)) == (BrokerError.INVALID_RECORD, [0, 2])
    many = produced(*[(0, None, b"")] * (2 * MOST_NAMED), attributes=codec)
    assert named(refused(many, limits)) == [*range(MOST_NAMED)]


@pytest.mark.parametrize("takes_append_time", [False, True])
def test_log_append_time_is_refused_for_each_record(takes_append_time: bool) -> None:
    """With CreateTime only if there is no time that could be kept."""
    limits = replace(LIMITS, takes_append_time=takes_append_time)
    data = produced((0, b"k", b"a"), (0, b"k", b"b"), attributes=0x08, max_ms=-1)
    found = refused(data, limits)
    assert (found.error, named(found)) == (INVALID_TIMESTAMP, [0, 1])
