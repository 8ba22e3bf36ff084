"""Control records: bytes as shipped Kafka writes them, unknown parts kept."""

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorum_node.records.batches import DecodedRecord, Record
from quorum_node.records.control import (
    ControlRecord,
    KRaftVersion,
    LeaderChange,
    SnapshotFooter,
    SnapshotHeader,
    UnknownControl,
    VotersRecord,
    decode_control,
    encode_control,
)
from quorum_node.records.identity import Endpoint, ReplicaKey, Voter, parse_uuid, uuid_text
from quorum_node.schema.primitives import MalformedRecord

UUIDS = st.none() | st.integers(1, 2**128 - 1).map(lambda n: UUID(int=n))
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
INT16, INT32 = st.integers(-(2**15), 2**15 - 1), st.integers(-(2**31), 2**31 - 1)
TAGS = st.dictionaries(st.integers(100, 19999), st.binary(max_size=20), max_size=3).map(
    lambda fields: tuple(sorted(fields.items()))
)
KEYS = st.lists(st.builds(ReplicaKey, id=INT32, uuid=UUIDS), max_size=4).map(tuple)
ENDPOINTS = st.builds(
    Endpoint, name=TEXT, host=TEXT, port=st.integers(0, 65535), tagged_fields=TAGS
)
VOTERS = st.builds(
    Voter,
    key=st.builds(ReplicaKey, id=INT32, uuid=UUIDS),
    endpoints=st.lists(ENDPOINTS, max_size=3).map(tuple),
    min_kraft_version=INT16,
    max_kraft_version=INT16,
    tagged_fields=TAGS,
)
CONTROL: st.SearchStrategy[ControlRecord] = st.one_of(
    st.builds(
        LeaderChange,
        leader_id=INT32,
        voters=KEYS,
        granting_voters=KEYS,
        tagged_fields=TAGS,
    ),
    st.builds(KRaftVersion, level=INT16, tagged_fields=TAGS),
    st.builds(
        VotersRecord,
        voters=st.lists(VOTERS, max_size=4, unique_by=lambda voter: voter.key).map(tuple),
        cluster_id=st.none() | TEXT,
        initial_voters=st.none() | st.integers(1, 7),
        tagged_fields=TAGS,
    ),
    st.builds(
        SnapshotHeader, last_contained_log_timestamp_ms=st.integers(0, 2**60), tagged_fields=TAGS
    ),
    st.builds(SnapshotFooter, tagged_fields=TAGS),
)


def found(record: Record) -> DecodedRecord:
    """The record as it would come out of a batch."""
    return DecodedRecord(0, 0, record.key, record.value)


@given(CONTROL)
def test_control_records_survive_a_round_trip_with_unknown_tagged_fields(
    record: ControlRecord,
) -> None:
    assert decode_control(found(encode_control(record))) == record


def test_leader_change_is_encoded_in_both_versions() -> None:
    """Version 0 is what shipped Kafka reads; a reader without our tagged field sees the ids."""
    bare = LeaderChange(1, (ReplicaKey(1), ReplicaKey(2)), (ReplicaKey(1),))
    encoded = encode_control(bare)
    assert encoded.key == b"\0\0\0\x02"
    assert encoded.value == bytes.fromhex(
        "0000 00000001 03 00000001 00 00000002 00 02 00000001 00 00"
    )
    named = LeaderChange(1, (ReplicaKey(1, UUID(int=7)),), ())
    assert encode_control(named).value == bytes.fromhex(
        "0000 00000001 02 00000001 01 a09c01 10" + "00" * 15 + "07 01 00"
    )
    version_1 = bytes.fromhex("0001 00000001 02 00000001" + "00" * 15 + "07 00 01 00")
    assert decode_control(DecodedRecord(0, 0, encoded.key, version_1)) == named


def test_bytes_of_a_voters_record() -> None:
    voter = Voter(ReplicaKey(1, UUID(int=5)), (Endpoint("CONTROLLER", "h", 9093),))
    encoded = encode_control(VotersRecord((voter,), cluster_id="c"))
    assert encoded.key == b"\0\0\0\x06"
    assert encoded.value is not None
    assert encoded.value.hex(" ") == (
        "00 00 02 00 00 00 01 "
        + "00 " * 15
        + "05 02 0b 43 4f 4e 54 52 4f 4c 4c 45 52 02 68 23 85 00 "
        "00 00 00 01 00 00 01 a0 9c 01 02 02 63"
    )


def test_tombstones_are_part_of_the_voters_record() -> None:
    record = VotersRecord((), tombstones=(ReplicaKey(3, UUID(int=7)), ReplicaKey(4, UUID(int=8))))
    encoded = encode_control(record)
    assert encoded.value is not None
    assert encoded.value.hex(" ") == (
        "00 00 01 01 a2 9c 01 29 03 00 00 00 03 "
        + "00 " * 15
        + "07 00 00 00 04 "
        + "00 " * 15
        + "08"
    )
    assert decode_control(DecodedRecord(0, 0, encoded.key, encoded.value)) == record


def test_voters_record_with_a_duplicate_voter_is_rejected() -> None:
    """The core keeps voters by key, and a leader that sends such a record must not end its followers."""
    voter = Voter(ReplicaKey(1, UUID(int=7)), (Endpoint("CONTROLLER", "h", 9093),))
    record = encode_control(VotersRecord((voter, replace(voter, endpoints=()))))
    with pytest.raises(MalformedRecord, match="a voter twice"):
        decode_control(DecodedRecord(0, 0, record.key, record.value))


def test_newer_types_and_versions_are_kept_unparsed() -> None:
    control = UnknownControl(9, b"\0\0\0\x09", b"later")
    assert decode_control(found(encode_control(control))) == control
    newer_voters = UnknownControl(6, b"\0\0\0\x06", b"\0\x01later")
    assert decode_control(found(encode_control(newer_voters))) == newer_voters


@settings(max_examples=500)
@given(st.binary(max_size=120), st.sampled_from([2, 3, 4, 5, 6]), st.booleans())
def test_random_bytes_are_rejected(data: bytes, kind: int, framed: bool) -> None:
    version = b"\0\0" if framed else b""
    try:
        decode_control(DecodedRecord(0, 0, b"\0\0\0" + bytes((kind,)), version + data))
    except MalformedRecord:
        pass


@given(CONTROL)
def test_every_strict_prefix_is_rejected(control: ControlRecord) -> None:
    record = encode_control(control)
    assert record.value is not None
    for size in range(len(record.value)):
        with pytest.raises(MalformedRecord):
            decode_control(DecodedRecord(0, 0, record.key, record.value[:size]))


def test_uuid_text_format() -> None:
    assert uuid_text(UUID(int=1)) == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert uuid_text(None) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert parse_uuid("AAAAAAAAAAAAAAAAAAAAAQ") == UUID(int=1)
    for wrong in (
        "",
        "A" * 21,
        "A" * 23,
        "A" * 21 + "B",
        "A" * 21 + "/",
        "é" * 22,
        "A" * 20 + "Q=",
    ):
        with pytest.raises(ValueError, match="not a UUID"):
            parse_uuid(wrong)


def test_zero_uuid_is_unknown() -> None:
    assert ReplicaKey(1) != ReplicaKey(1, UUID(int=5))
    assert str(ReplicaKey(3)) == "(3, ?)"
