"""Bytes of produce requests: the batch that they are, or the code that a stock leader gives."""

from struct import pack_into

import pytest
from crc32c import crc32c

from quorum_node.broker.batch import Batch
from quorum_node.broker.errors import BrokerError
from quorum_node.broker.produced_batch import BatchLimits, check_size, place, read_produced
from quorum_node.records.batches import Record, encode_batch, split_batches

LIMITS = BatchLimits()
INVALID, CORRUPT = BrokerError.INVALID_RECORD, BrokerError.CORRUPT_MESSAGE


def made(count: int = 3, base_offset: int = 0) -> bytes:
    records = [Record(None, b"value %d" % number) for number in range(count)]
    return encode_batch(
        base_offset=base_offset,
        leader_epoch=-1,
        timestamp_ms=1_700_000_000_000,
        records=records,
    )


def changed(at: int, code: str, *values: int) -> bytes:
    """With other bytes, and a checksum that agrees."""
    data = bytearray(made())
    pack_into(code, data, at, *values)
    pack_into(">I", data, 17, crc32c(data[21:]))
    return bytes(data)


def test_batch_is_parsed_and_placed_without_changing_checksummed_bytes() -> None:
    data = changed(43, ">qhi", 77, 2, 40)
    batch = read_produced(data, LIMITS)
    assert isinstance(batch, Batch)
    assert (batch.base_offset, batch.end_offset, batch.size_bytes) == (0, 3, len(data))
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (77, 2, 40)
    assert (batch.last_sequence, batch.max_timestamp_ms) == (42, 1_700_000_000_000)
    written = place(data, 1234, 9)
    (found,), rest = split_batches(written)
    assert (found.header.base_offset, found.header.end_offset, rest) == (1234, 1237, 0)
    assert found.header.leader_epoch == 9
    assert written[16:] == data[16:]


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", INVALID),
        (bytes(11), INVALID),
        (bytes(16), CORRUPT),
        (made() + bytes(16), CORRUPT),
        (changed(16, ">b", 3), CORRUPT),
        (changed(16, ">b", -1), CORRUPT),
        (changed(8, ">i", 13), CORRUPT),
        (made()[:-1], INVALID),
        (made()[:60], INVALID),
        (made() + made(), INVALID),
        (made(base_offset=5), INVALID),
        (changed(16, ">b", 1), INVALID),
        (changed(8, ">i", 20), CORRUPT),
        (changed(23, ">i", 3), INVALID),
        (changed(23, ">i", -1), INVALID),
        (changed(57, ">i", 0), INVALID),
        (changed(21, ">h", 0x20), INVALID),
        (changed(21, ">h", 0x10), INVALID),
        (changed(43, ">qhi", 77, 0, -1), INVALID),
        (changed(21, ">h", 5), BrokerError.UNKNOWN_SERVER_ERROR),
    ],
    ids=range(20),
)
def test_invalid_batch_is_rejected(data: bytes, error: BrokerError) -> None:
    assert read_produced(data, LIMITS) is error


def test_incomplete_batch_after_the_first_is_truncated() -> None:
    for rest in (b"x" * 11, made()[:-1], made()[:13]):
        batch = read_produced(made() + rest, LIMITS)
        assert isinstance(batch, Batch)
        assert bytes(batch.data) == made()  # type: ignore[call-overload]
        assert batch.size_bytes == len(made())


def test_every_flipped_bit_after_the_checksum_is_detected() -> None:
    for position in range(17, len(made())):
        data = bytearray(made())
        data[position] ^= 1
        assert read_produced(bytes(data), LIMITS) in (CORRUPT, INVALID), position


def test_batch_limits_are_enforced() -> None:
    data = made()
    size = len(data)
    assert isinstance(read_produced(data, BatchLimits(size, size)), Batch)
    assert read_produced(data, BatchLimits(size - 1, size)) is BrokerError.MESSAGE_TOO_LARGE
    assert check_size(size, BatchLimits(size, size)) is BrokerError.NONE
    assert check_size(size, BatchLimits(size, size - 1)) is BrokerError.RECORD_LIST_TOO_LARGE


def test_first_of_several_errors_is_reported_in_the_order_of_a_stock_leader() -> None:
    """Base offset, size, checksum, codec, and then what the header says."""
    faulty = bytearray(changed(21, ">h", 0x25))
    assert read_produced(bytes(faulty), LIMITS) is BrokerError.UNKNOWN_SERVER_ERROR
    faulty[-1] ^= 1
    assert read_produced(bytes(faulty), LIMITS) is CORRUPT
    small = BatchLimits(max_message_bytes=len(faulty) - 1)
    assert read_produced(bytes(faulty), small) is BrokerError.MESSAGE_TOO_LARGE
    faulty[7] = 1
    assert read_produced(bytes(faulty), small) is INVALID
