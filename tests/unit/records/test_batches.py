"""Record batches: layout, checksum before anything else, and what damage looks like."""

import pytest
from crc32c import crc32c
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kio.records.readers import read_batch

from quorum_node.records.batches import (
    HEADER_BYTES,
    CorruptBatch,
    Record,
    decode_records,
    encode_batch,
    encode_values,
    read_header,
    split_batches,
)
from quorum_node.records.plain_records import record_values

OPTIONAL_BYTES = st.none() | st.binary(max_size=300)
RECORDS = st.lists(
    st.builds(Record, key=OPTIONAL_BYTES, value=OPTIONAL_BYTES), min_size=1, max_size=80
)


def batch(base_offset: int = 7, count: int = 3, value: bytes = b"value") -> bytes:
    """A small batch of equal records."""
    return encode_values(
        base_offset=base_offset,
        leader_epoch=4,
        timestamp_ms=1_700_000_000_000,
        values=[value] * count,
    )


@pytest.mark.requirement("K595-02")
@given(
    RECORDS,
    st.integers(0, 2**62),
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**45),
    st.booleans(),
)
@example([Record(b"\x80" * 9 + b"\x02", None)], 0, 0, 0, False)  # a key that is no length
def test_every_record_has_offset_epoch_control_flag_key_value_and_timestamp(
    records: list[Record], base_offset: int, epoch: int, timestamp_ms: int, control: bool
) -> None:
    data = encode_batch(
        base_offset=base_offset,
        leader_epoch=epoch,
        timestamp_ms=timestamp_ms,
        records=records,
        control=control,
    )
    (found,), left = split_batches(data)
    assert left == 0
    assert found.header.size_bytes == len(data)
    assert (found.header.base_offset, found.header.leader_epoch) == (base_offset, epoch)
    assert found.header.end_offset == base_offset + len(records)
    assert found.header.is_control is control
    decoded = decode_records(found)
    assert [Record(r.key, r.value) for r in decoded] == records
    assert [r.offset for r in decoded] == list(range(base_offset, base_offset + len(records)))
    assert {r.timestamp_ms for r in decoded} == {timestamp_ms}
    assert record_values(found) == [value for _, value in records if value is not None]


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=200))
def test_fast_path_writes_the_same_bytes(values: list[bytes]) -> None:
    slow = encode_batch(
        base_offset=3, leader_epoch=1, timestamp_ms=9, records=[Record(None, v) for v in values]
    )
    fast = encode_values(base_offset=3, leader_epoch=1, timestamp_ms=9, values=values)
    assert fast == slow


@given(
    st.lists(st.builds(Record, key=OPTIONAL_BYTES, value=OPTIONAL_BYTES), min_size=1, max_size=70)
)
@pytest.mark.requirement("K595-02")
def test_independent_reader_reads_the_same_batches(records: list[Record]) -> None:
    data = encode_batch(
        base_offset=5, leader_epoch=2, timestamp_ms=1_700_000_000_123, records=records
    )
    theirs, size = read_batch(data, 0)
    assert size == len(data)
    assert [(r.key, r.value, r.offset) for r in theirs.records] == [
        (record.key, record.value, 5 + i) for i, record in enumerate(records)
    ]


def test_several_batches_and_an_incomplete_last_one() -> None:
    one, two = batch(0), batch(3)
    for cut in range(len(two)):
        found, left = split_batches(one + two[:cut])
        assert ([b.header.base_offset for b in found], left) == ([0], cut)
    found, left = split_batches(memoryview(one + two))
    assert ([b.header.base_offset for b in found], left) == ([0, 3], 0)
    assert read_header(one + two, len(one)).base_offset == 3


@pytest.mark.requirement("K595-02")
def test_every_flipped_bit_under_the_checksum_is_detected() -> None:
    data = batch()
    for index in range(17, len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[index] ^= 1 << bit
            with pytest.raises(CorruptBatch, match="checksum"):
                split_batches(bytes(damaged))


@pytest.mark.requirement("K595-02")
def test_nothing_is_parsed_before_the_checksum() -> None:
    """Even numbers that no batch can have are reported as what they are: damage."""
    damaged = bytearray(batch())
    damaged[57:61] = b"\xff\xff\xff\xff"  # record count -1
    with pytest.raises(CorruptBatch, match="checksum"):
        split_batches(bytes(damaged))
    damaged[17:21] = crc32c(bytes(damaged[21:])).to_bytes(4, "big")
    with pytest.raises(CorruptBatch, match="records"):
        split_batches(bytes(damaged))


def test_position_and_reason_of_damage_are_reported() -> None:
    first, second = batch(0), bytearray(batch(3))
    for place, value, reason in ((16, 1, "magic 1"), (11, 3, "length 3"), (30, 9, "checksum")):
        damaged = bytearray(second)
        damaged[place] = value
        damaged[8:11] = b"\0\0\0"
        with pytest.raises(CorruptBatch, match=reason) as error:
            split_batches(first + damaged)
        assert error.value.position == len(first)


def test_values_of_a_batch_of_ten_thousand_records() -> None:
    """Offset deltas of one, two and three bytes."""
    values = [b"", b"x" * 63, b"y" * 64, b"z" * 10_000] + [b"v"] * 16_500
    data = encode_values(base_offset=0, leader_epoch=1, timestamp_ms=1, values=values)
    assert record_values(split_batches(data)[0][0]) == values


def test_zeros_are_no_batch() -> None:
    assert split_batches(bytes(16)) == ([], 16)
    with pytest.raises(CorruptBatch):
        split_batches(bytes(HEADER_BYTES))


@settings(max_examples=500)
@given(st.binary(max_size=300), st.data())
def test_invalid_batch_with_a_valid_checksum_is_reported_as_corrupt(
    body: bytes, data: st.DataObject
) -> None:
    damaged = bytearray(batch(count=data.draw(st.integers(1, 4))))
    start = data.draw(st.integers(21, len(damaged)))
    damaged[start : start + len(body)] = body
    damaged[8:12] = (len(damaged) - 12).to_bytes(4, "big")
    damaged[17:21] = crc32c(bytes(damaged[21:])).to_bytes(4, "big")
    try:
        (found,) = split_batches(bytes(damaged))[0]
    except CorruptBatch:
        return
    try:
        values = record_values(found)
    except CorruptBatch:
        values = None
    try:
        records = decode_records(found)
    except CorruptBatch:
        return
    assert values == [record.value for record in records if record.value is not None]


@settings(max_examples=300)
@given(st.binary(max_size=400))
def test_random_bytes_are_no_batch(data: bytes) -> None:
    try:
        split_batches(data)
    except CorruptBatch:
        pass
    try:
        read_header(data)
    except CorruptBatch:
        pass
