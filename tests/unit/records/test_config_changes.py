"""The fast path of replay gives the result of the reference path, or none at all."""

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from quorum_node.records.batches import (
    CorruptBatch,
    Record,
    decode_records,
    encode_batch,
    encode_values,
    split_batches,
)
from quorum_node.records.config_changes import ConfigChange, config_changes
from quorum_node.records.metadata import (
    AnyMetadata,
    ConfigRecord,
    FeatureLevelRecord,
    UnknownMetadata,
    decode_metadata,
    encode_metadata,
)
from quorum_node.schema.primitives import MalformedRecord

_TEXT = st.text(max_size=200)


def config_of(kind: int, resource_name: str, name: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=kind, resource_name=resource_name, name=name, value=value)


_CONFIGS = st.builds(
    config_of, st.integers(-128, 127), _TEXT, _TEXT, st.none() | st.text(max_size=9000)
)


def batch_of(records: list[AnyMetadata]) -> bytes:
    """As a leader writes them."""
    values = [encode_metadata(record) for record in records]
    return encode_values(base_offset=70, leader_epoch=3, timestamp_ms=9, values=values)


def reference(data: bytes) -> list[ConfigChange] | None:
    """What the reference path makes of it; None when it is not configs alone, or malformed."""
    changes = []
    try:
        for record in decode_records(split_batches(data)[0][0]):
            config = decode_metadata(record.value or b"")
            if not isinstance(config, ConfigRecord) or config.tagged_fields:
                return None
            changes.append((config.resource_type, config.resource_name, config.name, config.value))
    except (CorruptBatch, MalformedRecord):
        return None
    return changes


def fast(data: bytes) -> list[ConfigChange] | None:
    """The same from the hot path."""
    return config_changes(split_batches(data)[0][0])


@given(st.lists(_CONFIGS, min_size=1, max_size=4))
def test_result_equals_the_reference_path_or_is_left_to_it(records: list[ConfigRecord]) -> None:
    data = batch_of([*records])
    assert fast(data) in (None, reference(data))


def test_fast_path_handles_the_records_of_long_logs() -> None:
    """Otherwise the test above would hold for a path that never decides anything."""
    for value_bytes in (0, 1, 50, 60, 127, 128, 256, 8000):
        records = [
            config_of(4, "", "a", "v" * value_bytes),
            *(config_of(-1, "tópic", f"name-{n}", "v" * value_bytes) for n in range(300)),
            config_of(2, "t", "b" * 126, None),
        ]
        data = batch_of([*records])
        assert fast(data) == reference(data) is not None


def test_other_records_are_left_to_the_reference_path() -> None:
    config = config_of(4, "", "a", "b")
    for other in (
        FeatureLevelRecord(name="metadata.version", feature_level=29),
        UnknownMetadata(4, 1, b"\4\1\2a\2b\0"),
        replace(config, tagged_fields=((1, b"x"),)),
    ):
        assert fast(batch_of([config, other])) is None
        assert fast(batch_of([other, config])) is None
    keyed = Record(b"key", encode_metadata(config))
    assert (
        fast(encode_batch(base_offset=0, leader_epoch=1, timestamp_ms=1, records=[keyed])) is None
    )
    null = Record(None, None)
    assert fast(encode_batch(base_offset=0, leader_epoch=1, timestamp_ms=1, records=[null])) is None


def test_records_rejected_by_the_reference_path_are_never_accepted() -> None:
    """One byte of a record is changed: a record that is still accepted has the same meaning on both paths."""
    random_ = random.Random(5)
    records = [config_of(4, "r", f"n{n}", "v" * random_.randrange(150)) for n in range(3)]
    data = batch_of([*records])
    whole = split_batches(data)[0][0]
    taken = 0
    for position in range(61, len(data)):
        for _ in range(6):
            mangled = bytearray(data)
            mangled[position] = random_.randrange(256)
            batch = whole._replace(data=memoryview(bytes(mangled)))
            found = config_changes(batch)
            if found is None:
                continue
            taken += 1
            again = [decode_metadata(record.value or b"") for record in decode_records(batch)]
            assert [config_of(*change) for change in found] == again
    assert taken > 100
