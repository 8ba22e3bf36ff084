"""The fast way through a batch says what the reference path says, or leaves the batch to it."""

from hypothesis import given
from hypothesis import strategies as st

from quorum_node.records.batches import (
    HEADER_BYTES,
    Batch,
    CorruptBatch,
    Record,
    decode_records,
    encode_batch,
    encode_values,
    read_header,
)
from quorum_pipeline.rows.plain_batch import plain_values

VALUES = st.lists(st.binary(max_size=200), min_size=1, max_size=90)


def batch_of(data: bytes) -> Batch:
    return Batch(read_header(data), memoryview(data))


def written(values: list[bytes]) -> bytes:
    return encode_values(base_offset=7, leader_epoch=3, timestamp_ms=1000, values=values)


@given(VALUES)
def test_what_a_leader_writes_is_read_the_fast_way(values: list[bytes]) -> None:
    batch = batch_of(written(values))
    assert plain_values(batch) == values
    assert [each.value for each in decode_records(batch)] == values


def test_large_values_and_many_records_are_left_to_the_reference() -> None:
    assert plain_values(batch_of(written([b"x" * 10_000]))) is None
    assert plain_values(batch_of(written([b""] * 8192))) == [b""] * 8192
    assert plain_values(batch_of(written([b""] * 8193))) is None


def test_other_forms_are_left_to_the_reference() -> None:
    def batch(record: Record, control: bool = False) -> Batch:
        parts = {"base_offset": 0, "leader_epoch": 1, "timestamp_ms": 5}
        return batch_of(encode_batch(records=[record], control=control, **parts))

    assert plain_values(batch(Record(b"key", b"value"))) is None
    assert plain_values(batch(Record(None, None))) is None
    assert plain_values(batch(Record(None, b"value"), control=True)) is None
    assert plain_values(batch(Record(None, b"value"))) == [b"value"]


@given(VALUES, st.data())
def test_whatever_it_takes_the_reference_reads_the_same(
    values: list[bytes], data: st.DataObject
) -> None:
    raw = bytearray(written(values))
    place = data.draw(st.integers(HEADER_BYTES, len(raw) - 1))
    raw[place] = data.draw(st.integers(0, 255))
    batch = batch_of(bytes(raw))
    found = plain_values(batch)
    if found is None:
        return
    try:
        records = decode_records(batch)
    except CorruptBatch:
        raise AssertionError("the reference takes it for damaged") from None
    assert [(each.offset, each.timestamp_ms, each.key, each.value) for each in records] == [
        (7 + delta, 1000, None, value) for delta, value in enumerate(found)
    ]
