"""Blocks that are decoded type by type give the rows that records decoded one by one give, or leave them to that way."""

from dataclasses import replace
from pathlib import Path
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numba import njit
from numba.core import caching

from quorum_node.records import metadata as md
from quorum_node.records.batches import (
    HEADER_BYTES,
    Batch,
    Record,
    encode_batch,
    encode_values,
    read_header,
)
from quorum_pipeline.canonical_encoding import UNSUPPORTED, canonical_uvarint
from quorum_pipeline.compiled import compiled_when_called
from quorum_pipeline.files.log_directory import open_log
from quorum_pipeline.files.log_rows import span_rows
from quorum_pipeline.rows import loops
from quorum_pipeline.rows.arrow import record_batch
from quorum_pipeline.rows.column_types import arrow_schema
from quorum_pipeline.rows.gathering import BYTES_AT_ONCE, AnyRows, Gathering
from quorum_pipeline.rows.runs import may_be_canonical
from quorum_pipeline.rows.table import MAX_TIMESTAMP_MS, Rows, table_columns
from quorum_pipeline.rows.vectorized_rows import OneType, VectorizedRows
from support.metadata_histories import histories
from support.wire_messages import messages

EVERYTHING = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=30)
VERSIONS = [
    (kind, version)
    for kind in md.RECORDS_BY_TYPE.values()
    for version in range(kind.HIGHEST_VERSION + 1)
]
TAGS = st.dictionaries(st.integers(100, 300), st.binary(max_size=20), max_size=2).map(
    lambda found: tuple(sorted(found.items()))
)
TOPIC_ID = UUID(int=1 << 100)
BASE = 7


SCHEMA = arrow_schema(table_columns())


@st.composite
def values_of_any_type(draw: st.DrawFn) -> bytes:
    kind, version = draw(st.sampled_from(VERSIONS))
    record = draw(messages(kind, version))
    assert isinstance(record, kind)
    return md.encode_metadata(replace(record, tagged_fields=draw(TAGS)), version)


@st.composite
def many_of_one_type(draw: st.DrawFn) -> list[bytes]:
    kind, version = draw(st.sampled_from(VERSIONS))
    found = draw(st.lists(messages(kind, version), min_size=2, max_size=6))
    return [md.encode_metadata(record, version) for record in found if isinstance(record, kind)]


def batch_of(data: bytes) -> Batch:
    return Batch(read_header(data), memoryview(data))


def written(values: list[bytes], base_offset: int = BASE, timestamp_ms: int = 1000) -> Batch:
    return batch_of(
        encode_values(
            base_offset=base_offset, leader_epoch=3, timestamp_ms=timestamp_ms, values=values
        )
    )


def reference(batches: list[Batch]) -> pa.Table:
    rows = Rows("file")
    for batch in batches:
        rows.add(batch, 11, 0, 1 << 62)
    return pa.Table.from_batches([record_batch(rows, SCHEMA)])


def gathered(batches: list[Batch]) -> list[AnyRows]:
    gathering = Gathering("file")
    for batch in batches:
        gathering.add(batch, 11, 0, 1 << 62)
    return list(gathering.take())


def check(batches: list[Batch]) -> list[AnyRows]:
    """The same table on both ways; what came out of the one that is tested."""
    found = gathered(batches)
    table = pa.Table.from_batches([record_batch(rows, SCHEMA) for rows in found], SCHEMA)
    table.validate(full=True)
    expected = reference(batches)
    assert table.equals(expected), f"{table.to_pylist()}\n{expected.to_pylist()}"
    problems = {rows.offsets[n]: problem for rows in found for n, problem in rows.problems()}
    reported = zip(*(expected[name].to_pylist() for name in ("offset", "problem")), strict=True)
    assert problems == {offset: problem for offset, problem in reported if problem is not None}
    return found


@EVERYTHING
@given(st.lists(values_of_any_type(), min_size=1, max_size=12))
def test_all_record_types_in_one_block(values: list[bytes]) -> None:
    (rows,) = check([written(values)])
    assert isinstance(rows, VectorizedRows)


@EVERYTHING
@given(many_of_one_type())
def test_many_records_of_one_type(values: list[bytes]) -> None:
    check([written(values)])


@EVERYTHING
@given(histories())
def test_random_histories(values: list[bytes]) -> None:
    half = max(1, len(values) // 2)
    parts = [part for part in (values[:half], values[half:]) if part]
    check([written(part, BASE + n * half) for n, part in enumerate(parts)])


@EVERYTHING
@given(st.lists(values_of_any_type(), min_size=1, max_size=6), st.data())
def test_damage_within_a_record_equals_the_reference_result(
    values: list[bytes], data: st.DataObject
) -> None:
    index = data.draw(st.integers(0, len(values) - 1))
    raw = bytearray(values[index])
    if data.draw(st.booleans()):
        del raw[data.draw(st.integers(0, len(raw) - 1)) :]
    else:
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    check([written([*values[:index], bytes(raw), *values[index + 1 :]])])


@EVERYTHING
@given(st.lists(values_of_any_type(), min_size=1, max_size=6), st.data())
def test_frame_damage_equals_the_reference_result(values: list[bytes], data: st.DataObject) -> None:
    raw = bytearray(written(values).data)
    raw[data.draw(st.integers(HEADER_BYTES, len(raw) - 1))] = data.draw(st.integers(0, 255))
    before, behind = written([b"\1\x14\0\0"], 0), written(values, BASE + len(values))
    check([before, batch_of(bytes(raw)), behind])


def test_records_of_all_writers_are_decoded_type_by_type() -> None:
    change = md.PartitionChangeRecord(partition_id=1, topic_id=TOPIC_ID, isr=(1, 2), leader=2)
    partition = md.PartitionRecord(
        partition_id=1,
        topic_id=TOPIC_ID,
        replicas=(1, 2, 3),
        isr=(1,),
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        directories=(TOPIC_ID, TOPIC_ID, md.UNASSIGNED),
    )
    config = md.ConfigRecord(resource_type=2, resource_name="é" * 70, name="k", value=None)
    records = [(change, 2), (partition, 2), (config, 0), (md.NoOpRecord(), 0)] * 90
    (rows,) = check([written([md.encode_metadata(*each) for each in records])])
    assert isinstance(rows, VectorizedRows)
    assert all(isinstance(group, OneType) for group in rows.groups)
    assert len(rows.groups) == 4


def test_other_batches_are_decoded_by_the_reference() -> None:
    def batch(record: Record, control: bool = False) -> Batch:
        parts = {"base_offset": 0, "leader_epoch": 1, "timestamp_ms": 5}
        return batch_of(encode_batch(records=[record], control=control, **parts))

    value = md.encode_metadata(md.NoOpRecord())
    for each in (Record(b"key", value), Record(None, None)):
        (rows,) = check([batch(each)])
        assert isinstance(rows, Rows)
    assert not may_be_canonical(batch(Record(None, value), control=True))
    before, behind = written([value], 0), written([value] * 2, 2)
    kinds = [type(rows) for rows in check([before, batch(Record(b"key", value)), behind])]
    assert kinds == [VectorizedRows, Rows, VectorizedRows]


def test_allocation_is_limited_by_the_records_that_fit_into_a_batch() -> None:
    batch = written([b"\1\x14\0\0"])
    assert may_be_canonical(batch)
    most = (1 << 31) - 1
    reported = batch.header._replace(record_count=most, last_offset_delta=most - 1)
    assert not may_be_canonical(batch._replace(header=reported))


@pytest.mark.parametrize(
    ("size", "is_canonical"), [(10_000, True), (1_000_000, True), (1 << 20, False)]
)
def test_lengths_of_up_to_three_bytes(size: int, is_canonical: bool) -> None:
    (rows,) = check([written([b"x" * size])])
    assert isinstance(rows, VectorizedRows) == is_canonical


@pytest.mark.parametrize("count", [0x40, 8192, 8193])
def test_offsets_of_several_bytes(count: int) -> None:
    (rows,) = gathered([written([b"\1\x14\0\0"] * count)])
    assert isinstance(rows, VectorizedRows)
    assert list(rows.offsets) == list(range(BASE, BASE + count))
    assert len(rows.values) == count


@pytest.mark.parametrize(
    ("timestamp_ms", "is_shown"),
    [(-1, True), (MAX_TIMESTAMP_MS, True), (-MAX_TIMESTAMP_MS, True)]
    + [(each, False) for each in (MAX_TIMESTAMP_MS + 1, 2**63 - 1, -(2**63))],
)
def test_timestamp_out_of_the_column_range_is_null(timestamp_ms: int, is_shown: bool) -> None:
    (rows,) = check([written([b"\1\x14\0\0"], timestamp_ms=timestamp_ms)])
    assert isinstance(rows, VectorizedRows)
    (found,) = record_batch(rows, SCHEMA).column("timestamp").cast(pa.int64()).to_pylist()
    assert found == (timestamp_ms * 1000 if is_shown else None)


def test_long_records_limit_a_block_as_many_short_ones_do() -> None:
    gathering, batch = Gathering("file"), written([b"x" * (1 << 20)] * 8)
    most = BYTES_AT_ONCE // batch.header.size_bytes + 1
    for number in range(most):
        assert not gathering.is_enough, number
        gathering.add(batch, 0, 0, 1 << 62)
    assert gathering.is_enough
    assert sum(map(len, gathering.take())) == most * 8
    assert not gathering.is_enough


def test_all_loops_are_compiled_before_workers_are_forked(tmp_path: Path) -> None:
    """Another type of an argument would be compiled in each of them."""
    loops.compile_all()
    config = md.ConfigRecord(resource_type=2, resource_name="a", name="b", value="c")
    change = md.PartitionChangeRecord(partition_id=1, topic_id=TOPIC_ID, isr=(1, 2), leader=2)
    batch = written([md.encode_metadata(config, 0), md.encode_metadata(change, 2)])
    check([batch])
    path = tmp_path / f"{BASE:020d}.log"
    path.write_bytes(batch.data)
    for span in open_log(tmp_path).spans(BASE, 1 << 20):
        for rows in span_rows(span, 0, 1 << 62, keep_problems=True):
            record_batch(rows, SCHEMA)
    found = [each for each in vars(loops).values() if hasattr(each, "signatures")]
    compiled = [each for each in found if each.__module__ == loops.__name__]
    assert [len(each.signatures) for each in compiled if not each.__name__.startswith("_")] == [
        1
    ] * 10


def test_loops_are_compiled_without_a_writable_cache(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(caching.CompileResultCacheImpl, "_locator_classes", [])
    with pytest.raises(RuntimeError, match="no locator"):
        njit(cache=True)(twice)
    assert compiled_when_called(twice)(21) == 42


def twice(number: int) -> int:
    return 2 * number


@pytest.mark.parametrize(
    ("number", "plain"),
    [
        *[(b"\x05", 5), (b"\x85\x01", 133), (b"\xff\xff\x7f", 0x1FFFFF)],
        *[
            (b"\x85\x00", UNSUPPORTED),
            (b"\x80\x80\x00", UNSUPPORTED),
            (b"\x80\x80\x80\x01", UNSUPPORTED),
        ],
        *[(b"\x80", UNSUPPORTED), (b"", UNSUPPORTED)],
    ],
)
def test_overlong_or_truncated_number_is_left_to_the_reference(number: bytes, plain: int) -> None:
    """One that is longer than it needs, or cut off, is for the reference path, in every loop."""
    data = np.frombuffer(number + b"\x01", np.uint8)
    found, behind = canonical_uvarint(data, 0, len(number))
    assert found == plain
    assert behind == (len(number) if plain >= 0 else 0)
