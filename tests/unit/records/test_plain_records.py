"""The fast path into a batch finds the values that the reference decoder finds, or leaves the batch to it."""

import random
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quorum_node.records.batches import (
    HEADER_BYTES,
    Batch,
    CorruptBatch,
    Record,
    decode_records,
    encode_batch,
    encode_values,
    split_batches,
)
from quorum_node.records.plain_records import plain_values, record_values

_SIZES = st.sampled_from([0, 1, 5, 57, 58, 59, 63, 64, 121, 122, 127, 128, 300, 8180, 8200, 20_000])
_VALUES = st.builds(lambda size, fill: bytes([fill]) * size, _SIZES, st.integers(0, 255))
_RECORDS = st.builds(
    Record, st.sampled_from([None, None, None, b"", b"key"]), st.none() | _VALUES | st.binary()
)


def batch_of(data: bytes) -> Batch:
    return split_batches(data)[0][0]


def places_of(batch: Batch) -> list[tuple[int, int]] | None:
    return plain_values(batch.header, bytes(batch.data))


def agrees(batch: Batch) -> bool:
    """Whether the fast path decides; what it finds is what the reference finds, and nothing else is in the batch."""
    places = places_of(batch)
    try:
        records = decode_records(batch)
    except CorruptBatch:
        assert places is None, "taken although the reference refuses it"
        with pytest.raises(CorruptBatch):
            record_values(batch)
        return False
    assert record_values(batch) == [each.value for each in records if each.value is not None]
    if places is None:
        return False
    raw = bytes(batch.data)
    header = batch.header
    assert [(None, raw[begin:end]) for begin, end in places] == [(e.key, e.value) for e in records]
    assert [e.offset for e in records] == [header.base_offset + n for n in range(len(records))]
    assert {each.timestamp_ms for each in records} == {header.base_timestamp_ms}
    return True


@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(st.lists(_RECORDS, min_size=1, max_size=8))
def test_result_equals_the_reference_on_batches_of_any_kind(records: list[Record]) -> None:
    agrees(batch_of(encode_batch(base_offset=9, leader_epoch=2, timestamp_ms=77, records=records)))


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 200, 8000])
@pytest.mark.parametrize("size", [0, 3, 57, 58, 64, 121, 122, 200])
def test_plain_path_handles_the_records_of_metadata_writers(count: int, size: int) -> None:
    """Otherwise the other tests would hold for a path that never decides anything."""
    values = [bytes([n & 0xFF]) * size for n in range(count if size < 100 else min(count, 200))]
    data = encode_values(base_offset=3, leader_epoch=1, timestamp_ms=8, values=values)
    assert agrees(batch_of(data))


@pytest.mark.parametrize("seed", range(8))
def test_result_equals_the_reference_on_damaged_batches(seed: int) -> None:
    """Any byte behind the header is another one, or several are: checksums are not this path's business."""
    rng = random.Random(seed)
    values = [rng.randbytes(rng.choice((0, 2, 30, 57, 58, 70, 130))) for _ in range(6)]
    batch = batch_of(encode_values(base_offset=5, leader_epoch=1, timestamp_ms=9, values=values))
    taken = 0
    for _ in range(1500):
        mangled = bytearray(batch.data)
        for _ in range(rng.choice((1, 1, 2))):
            at = rng.randrange(HEADER_BYTES, len(mangled))
            near = (mangled[at] ^ 1 << rng.randrange(8), rng.randrange(256))
            mangled[at] = rng.choice(near)
        taken += agrees(batch._replace(data=memoryview(bytes(mangled))))
    assert 100 < taken < 1500


def test_result_equals_the_reference_on_truncated_or_extended_batches() -> None:
    values = [b"a" * 20, b"b" * 70, b"c"]
    batch = batch_of(encode_values(base_offset=5, leader_epoch=1, timestamp_ms=9, values=values))
    for end in range(HEADER_BYTES, len(batch.data)):
        assert not agrees(batch._replace(data=batch.data[:end]))
    more = memoryview(bytes(batch.data) + b"\0")
    assert not agrees(batch._replace(data=more))
    for count in (1, 2, 4):
        assert not agrees(batch._replace(header=batch.header._replace(record_count=count)))
    compressed = batch.header._replace(attributes=1)
    assert not agrees(batch._replace(header=compressed))


def test_record_positions_are_contiguous() -> None:
    values = [bytes(size) for size in range(150)]
    batch = batch_of(encode_values(base_offset=0, leader_epoch=1, timestamp_ms=9, values=values))
    places = places_of(batch)
    assert places is not None
    assert all(end < begin for (_, end), (begin, _) in pairwise(places))
    assert [end - begin for begin, end in places] == list(range(150))


def test_two_matching_negative_lengths_are_not_treated_as_unsigned() -> None:
    batch = batch_of(
        encode_values(base_offset=0, leader_epoch=1, timestamp_ms=9, values=[b"x" * 9])
    )
    mangled = bytearray(batch.data)
    for at in (HEADER_BYTES, HEADER_BYTES + 5):
        mangled[at] |= 1
    assert not agrees(batch._replace(data=memoryview(bytes(mangled))))
