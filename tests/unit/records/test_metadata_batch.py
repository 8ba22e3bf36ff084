"""Records of a whole batch are those of the reference path, also where bytes are damaged."""

import random
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quorum_node.records import metadata_batch
from quorum_node.records.batches import (
    Batch,
    CorruptBatch,
    Record,
    encode_batch,
    encode_values,
    split_batches,
)
from quorum_node.records.config_changes import config_changes
from quorum_node.records.metadata import AnyMetadata, decode_metadata, encode_metadata
from quorum_node.records.metadata_batch import decode_batch
from quorum_node.records.plain_records import record_values
from quorum_node.schema.primitives import MalformedRecord
from support.metadata_histories import histories
from support.metadata_records import config

Outcome = list[AnyMetadata] | None


def batch_of(data: bytes) -> Batch:
    return split_batches(data)[0][0]


def of_values(values: list[bytes]) -> Batch:
    return batch_of(encode_values(base_offset=7, leader_epoch=1, timestamp_ms=1, values=values))


def reference(batch: Batch) -> Outcome:
    """None: refused."""
    try:
        return [decode_metadata(value) for value in record_values(batch)]
    except (CorruptBatch, MalformedRecord):
        return None


def fast(batch: Batch) -> Outcome:
    try:
        return decode_batch(batch)
    except (CorruptBatch, MalformedRecord):
        return None


@settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
@given(histories(max_size=90).filter(bool), st.randoms(use_true_random=False))
def test_result_equals_the_reference_path(values: list[bytes], rng: random.Random) -> None:
    batch = of_values(values)
    assert decode_batch(batch) == reference(batch) is not None
    for _ in range(60):
        mangled = bytearray(batch.data)
        mangled[rng.randrange(61, len(mangled))] = rng.randrange(256)
        other = batch._replace(data=memoryview(bytes(mangled)))
        assert fast(other) == reference(other)


def test_fast_path_handles_the_records_of_logs() -> None:
    """Otherwise the test above would hold for a path that never decides anything."""
    values = [encode_metadata(config(2, "t", f"n{number}", "v" * number)) for number in range(300)]
    batch = of_values(values)
    with patch.object(metadata_batch, "record_values", side_effect=AssertionError):
        assert len(decode_batch(batch)) == len(values)


@pytest.mark.parametrize(
    "odd",
    [
        Record(b"key", encode_metadata(config(2, "t", "n", "v"))),
        Record(None, None),
        Record(None, encode_metadata(config(2, "t", "n", "v" * 20_000))),
    ],
)
def test_other_records_are_read_by_the_reference_path(odd: Record) -> None:
    plain = Record(None, encode_metadata(config(2, "t", "n", "v")))
    data = encode_batch(base_offset=0, leader_epoch=1, timestamp_ms=1, records=[plain, odd, plain])
    assert decode_batch(batch_of(data)) == reference(batch_of(data)) is not None


@pytest.mark.parametrize("value", [b"\1\x14\0\0", encode_metadata(config(2, "t", "n", "v"))])
def test_negative_length_is_not_treated_as_unsigned(value: bytes) -> None:
    batch = of_values([value])
    at = len(batch.data) - len(value) - 2
    mangled = bytearray(batch.data)
    assert mangled[at] == len(value) << 1
    mangled[at] |= 1
    other = batch._replace(data=memoryview(bytes(mangled)))
    assert fast(other) is reference(other) is config_changes(other) is None


def test_trailing_bytes_are_rejected() -> None:
    value = encode_metadata(config(2, "t", "n", "v"))
    assert decode_batch(of_values([value, value])) == reference(of_values([value, value]))
    with pytest.raises(MalformedRecord, match="1 bytes after"):
        decode_batch(of_values([value, value + b"\0"]))
    two = of_values([value, value])
    fewer = two._replace(header=two.header._replace(record_count=1))
    with pytest.raises(CorruptBatch, match="bytes after the last record"):
        decode_batch(fewer)
