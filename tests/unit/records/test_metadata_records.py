"""Metadata records: bytes as shipped Kafka writes them, all versions, unknown parts kept, damage refused."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quorum_node.records.metadata import (
    LATEST_LEVEL,
    LOST,
    LOWEST_LEVEL,
    RECORDS_BY_TYPE,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    MetadataMessage,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
    UnknownMetadata,
    decode_metadata,
    encode_metadata,
    record_type_name,
    record_version,
)
from quorum_node.schema.encoder import FieldNotInVersion
from quorum_node.schema.primitives import MalformedRecord
from support.metadata_records import config
from support.wire_messages import messages

VERSIONS = [
    (kind, version)
    for kind in RECORDS_BY_TYPE.values()
    for version in range(kind.HIGHEST_VERSION + 1)
]
TAGS = st.dictionaries(st.integers(100, 19999), st.binary(max_size=20), max_size=3).map(
    lambda found: tuple(sorted(found.items()))
)
ENTIRE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def written(draw: st.DrawFn) -> tuple[MetadataMessage, int]:
    kind, version = draw(st.sampled_from(VERSIONS))
    record = draw(messages(kind, version))
    assert isinstance(record, kind)
    return replace(record, tagged_fields=draw(TAGS)), version


RECORDS = st.composite(written)()


@pytest.mark.requirement("K631-04")
@ENTIRE
@given(RECORDS)
def test_every_version_survives_a_round_trip_with_unknown_tagged_fields(
    found: tuple[MetadataMessage, int],
) -> None:
    record, version = found
    data = encode_metadata(record, version)
    assert data[1:3] == bytes((record.RECORD_TYPE, version))
    assert decode_metadata(data) == record
    assert encode_metadata(decode_metadata(data), version) == data


@ENTIRE
@given(RECORDS)
def test_every_strict_prefix_is_rejected(found: tuple[MetadataMessage, int]) -> None:
    data = encode_metadata(*found)
    for size in range(len(data)):
        with pytest.raises(MalformedRecord):
            decode_metadata(data[:size])
    with pytest.raises(MalformedRecord):
        decode_metadata(data + b"\0")


@settings(max_examples=500)
@given(st.binary(max_size=120), st.sampled_from(VERSIONS), st.booleans())
def test_random_bytes_are_rejected(
    data: bytes, kind: tuple[type[MetadataMessage], int], framed: bool
) -> None:
    head = bytes((1, kind[0].RECORD_TYPE, kind[1])) if framed else b""
    try:
        decode_metadata(head + data)
    except MalformedRecord:
        pass


@ENTIRE
@given(RECORDS, st.data())
def test_flipped_bytes_are_rejected_or_decoded(
    found: tuple[MetadataMessage, int], data: Any
) -> None:
    whole = bytearray(encode_metadata(*found))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode_metadata(bytes(whole))
    except MalformedRecord:
        pass


def test_bytes_of_a_config_record() -> None:
    data = encode_metadata(config(2, "", "retention.ms", "9"))
    assert data == b"\x01\x04\x00\x02\x01\x0dretention.ms\x029\x00"


def test_bytes_of_a_partition_record_in_its_versions() -> None:
    record = PartitionRecord(
        partition_id=7, topic_id=UUID(int=9), replicas=(1, 2), isr=(1,), leader=1,
        leader_epoch=3, partition_epoch=4,
    )  # fmt: skip
    head = "00000007" + "0" * 31 + "9" + "03" + "0000000100000002" + "02" + "00000001" + "0101"
    epochs = "00000001" + "00000003" + "00000004"
    assert encode_metadata(record, 0).hex() == "010300" + head + epochs + "00"
    placed = replace(record, directories=(LOST, UUID(int=5)))
    directories = "03" + "0" * 31 + "2" + "0" * 31 + "5"
    assert encode_metadata(placed, 1).hex() == "010301" + head + epochs + directories + "00"
    electable = replace(placed, eligible_leader_replicas=(2,))
    tail = "01" + "01" + "05" + "02" + "00000002"
    assert encode_metadata(electable, 2).hex() == "010302" + head + epochs + directories + tail


NUMBERS = st.lists(st.integers(-(1 << 31), (1 << 31) - 1), max_size=140).map(tuple)
FEW = NUMBERS.map(lambda found: found[:9])


def compact(numbers: tuple[int, ...]) -> bytes:
    """An array of int32 as in the protocol guide, encoded independently."""
    size = len(numbers) + 1
    length = bytes((size,)) if size < 0x80 else bytes((size & 0x7F | 0x80, size >> 7))
    return length + b"".join(number.to_bytes(4, "big", signed=True) for number in numbers)


@given(FEW | NUMBERS, FEW | NUMBERS, FEW, FEW, FEW.map(lambda found: (*found, 1)))
def test_arrays_of_any_length_follow_the_protocol(
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    removing: tuple[int, ...],
    adding: tuple[int, ...],
    electable: tuple[int, ...],
) -> None:
    directories = tuple(UUID(int=1 << number) for number in range(len(replicas) % 9))
    record = PartitionRecord(
        partition_id=7, topic_id=UUID(int=9), replicas=replicas, isr=isr, removing_replicas=removing,
        adding_replicas=adding, leader=-1, leader_epoch=3, partition_epoch=4, directories=directories,
        eligible_leader_replicas=electable,
    )  # fmt: skip
    written = (
        bytes.fromhex("010302" + "00000007" + "0" * 31 + "9")
        + b"".join(map(compact, (replicas, isr, removing, adding)))
        + bytes.fromhex("ffffffff" + "00000003" + "00000004")
        + bytes((len(directories) + 1,))
        + b"".join(each.bytes for each in directories)
        + bytes((1, 1, len(compact(electable))))
        + compact(electable)
    )
    for _ in range(2):  # from nothing, and from what is kept of the first time
        assert encode_metadata(record, 2) == written
    assert decode_metadata(written) == record


@pytest.mark.requirement("K631-04")
def test_version_without_a_field_rejects_its_value() -> None:
    change = PartitionChangeRecord(partition_id=0, topic_id=UUID(int=9), directories=(LOST,))
    with pytest.raises(FieldNotInVersion):
        encode_metadata(change, 0)
    with pytest.raises(ValueError, match="has no version 3"):
        encode_metadata(change, 3)


@pytest.mark.requirement("K631-04")
def test_newer_types_and_versions_are_kept_unparsed() -> None:
    for newer in (b"\x01\x04\x01\x02", b"\x01\x63\x00?", b"\x01\x81\x02\x00abc"):
        record = decode_metadata(newer)
        assert isinstance(record, UnknownMetadata)
        assert encode_metadata(record) == newer
    unknown = UnknownMetadata(17, 4, b"payload")
    assert decode_metadata(encode_metadata(unknown)) == unknown


def test_defaults_are_those_of_kafka() -> None:
    change = PartitionChangeRecord(partition_id=1, topic_id=UUID(int=9))
    assert encode_metadata(change, 2) == b"\x01\x05\x02" + b"\0\0\0\1" + UUID(int=9).bytes + b"\0"
    assert (change.leader, change.leader_recovery_state, change.isr) == (-2, -1, None)
    begin = encode_metadata(BeginTransactionRecord(name="n"))
    assert begin == b"\x01\x17\x00\x01\x00\x02\x02n"


@pytest.mark.requirement("K631-13")
def test_metadata_version_selects_the_record_version() -> None:
    """Levels and versions as stock Kafka 4.3 pairs them."""
    expected = {
        RegisterBrokerRecord: {7: 1, 8: 2, 16: 2, 17: 3, 29: 3, 30: 4},
        PartitionRecord: {7: 0, 16: 0, 17: 1, 22: 1, 23: 2, 30: 2},
        PartitionChangeRecord: {7: 0, 16: 0, 17: 1, 22: 1, 23: 2, 30: 2},
        BrokerRegistrationChangeRecord: {7: 1, 16: 1, 17: 2, 29: 2, 30: 3},
        TopicRecord: {7: 0, 30: 0},
        RegisterControllerRecord: {15: 0, 30: 0},
    }
    for kind, levels in expected.items():
        assert {level: record_version(kind, level) for level in levels} == levels
    for kind in RECORDS_BY_TYPE.values():
        assert record_version(kind, LATEST_LEVEL) == kind.HIGHEST_VERSION
        assert 0 <= record_version(kind, LOWEST_LEVEL) <= kind.HIGHEST_VERSION


def test_record_type_names() -> None:
    assert record_type_name(3) == "PartitionRecord"
    assert record_type_name(99) == "type 99"


def test_committed_record_may_contain_a_longer_string_than_a_request() -> None:
    """A log that has one must stay readable: the limit of 32767 bytes is one of requests."""
    record = config(2, "t", "k", "v" * 100_000)
    assert decode_metadata(encode_metadata(record, 0)) == record
