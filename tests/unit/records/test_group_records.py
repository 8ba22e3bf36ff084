"""Records of `__consumer_offsets`: bytes that a stock 4.3.1 coordinator writes, and ours."""

import pytest

from quorum_node.records.batches import Record
from quorum_node.records.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    GroupRecord,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    OffsetRecord,
    OtherGroupRecord,
    group_record,
    offset_record,
    read_group_record,
)
from quorum_node.schema.schema import MalformedMessage

OFFSET_KEY = OffsetCommitKey(group="g", topic="t", partition=3)
KEY_BYTES = bytes.fromhex("000100016700017400000003")
GROUP_KEY = GroupMetadataKey(group="g")
GROUP_KEY_BYTES = bytes.fromhex("0002000167")


def read(record: Record) -> object:
    assert record.key is not None
    return read_group_record(record.key, record.value)


def test_offset_is_written_in_the_version_of_stock_coordinators() -> None:
    value = OffsetCommitValue(offset=7, leader_epoch=2, metadata="m", commit_timestamp_ms=9)
    made = offset_record(OFFSET_KEY, value)
    assert made.key == KEY_BYTES
    # Version 4: offset, epoch, compact text, time, no tagged field.
    assert made.value == bytes.fromhex("0004000000000000000700000002026d000000000000000900")
    assert read(made) == OffsetRecord(OFFSET_KEY, value)


def test_offset_with_its_own_expiry_keeps_it() -> None:
    value = OffsetCommitValue(offset=7, metadata="", commit_timestamp_ms=9, expire_timestamp_ms=11)
    made = offset_record(OFFSET_KEY, value)
    assert made.value == bytes.fromhex("0001000000000000000700000000000000000009000000000000000b")
    assert read(made) == OffsetRecord(OFFSET_KEY, value)


def test_older_versions_and_newer_tagged_fields_are_read() -> None:
    oldest = bytes.fromhex("0000000000000000000700000000000000000009")
    found = read(Record(bytes.fromhex("0000") + KEY_BYTES[2:], oldest))
    assert isinstance(found, OffsetRecord)
    assert found.value == OffsetCommitValue(offset=7, metadata="", commit_timestamp_ms=9)
    newer = bytes.fromhex("0005000000000000000700000002026d0000000000000009016301ff")
    found = read(Record(KEY_BYTES, newer))
    assert isinstance(found, OffsetRecord)
    assert found.value is not None
    assert found.value.offset == 7


def test_group_is_written_in_the_version_of_stock_coordinators() -> None:
    member = MemberMetadata(
        member_id="m",
        group_instance_id="i",
        client_id="c",
        client_host="/h",
        rebalance_timeout_ms=5,
        session_timeout_ms=6,
        subscription=b"s",
        assignment=b"a",
    )
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=4,
        protocol="range",
        leader="m",
        current_state_timestamp_ms=8,
        members=(member,),
    )
    made = group_record(GROUP_KEY, value)
    assert made.key == GROUP_KEY_BYTES
    assert made.value == bytes.fromhex(
        "00030008636f6e73756d657200000004000572616e676500016d0000000000000008"
        "0000000100016d00016900016300022f68000000050000000600000001730000000161"
    )  # fmt: skip
    assert read(made) == GroupRecord(GROUP_KEY, value)


def test_tombstones_have_no_value() -> None:
    assert offset_record(OFFSET_KEY, None) == Record(KEY_BYTES, None)
    assert group_record(GROUP_KEY, None) == Record(GROUP_KEY_BYTES, None)
    assert read(Record(GROUP_KEY_BYTES, None)) == GroupRecord(GROUP_KEY, None)


@pytest.mark.parametrize("kind", [3, 5, 8, 17])
def test_other_group_types_are_distinguished(kind: int) -> None:
    key = kind.to_bytes(2, "big") + bytes.fromhex("00016700016d")
    assert read(Record(key, b"\0\0rest")) == OtherGroupRecord("g", kind, False)
    assert read(Record(key, None)) == OtherGroupRecord("g", kind, True)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", None),
        (b"\0", None),
        (b"\0\1", b""),
        (KEY_BYTES[:-1], None),
        (KEY_BYTES + b"x", None),
        (KEY_BYTES, b"\0"),
        (KEY_BYTES, b"\0\4\0"),
        (KEY_BYTES, b"\xff\xff"),
        (b"\0\3\0\5g", None),
        (b"\xff\xff\0\1g", None),
    ],
)
def test_invalid_record_is_rejected(key: bytes, value: bytes | None) -> None:
    with pytest.raises(MalformedMessage):
        read_group_record(key, value)
