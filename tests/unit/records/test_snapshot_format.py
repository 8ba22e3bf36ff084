"""The snapshot format: names, one file for one state, and damage that is always found."""

from collections.abc import Iterator
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum_node.records.batches import decode_records, encode_values, split_batches
from quorum_node.records.control import SnapshotFooter, SnapshotHeader, VotersRecord, decode_control
from quorum_node.records.identity import Endpoint, ReplicaKey, Voter
from quorum_node.records.snapshot_format import (
    BATCH_BYTES,
    CorruptSnapshot,
    SnapshotBounds,
    SnapshotReader,
    encode_snapshot,
)
from quorum_node.records.snapshot_id import SnapshotId, parse_snapshot_name

ID = SnapshotId(7_000, 12)
VOTERS = VotersRecord(
    (Voter(ReplicaKey(1, UUID(int=1)), (Endpoint("CONTROLLER", "a", 9093),)),),
    cluster_id="cluster",
    initial_voters=3,
    tombstones=(ReplicaKey(2, UUID(int=2)),),
)
BOUNDS = SnapshotBounds(1_700_000_000_000, 1, VOTERS)
VALUES = [b"value %d" % n for n in range(40)]


def read(data: bytes, piece_bytes: int = 1 << 20) -> tuple[SnapshotBounds, list[bytes]]:
    reader = SnapshotReader(ID)
    values: list[bytes] = []
    for start in range(0, len(data), piece_bytes):
        for batch in reader.feed(data[start : start + piece_bytes]):
            if not batch.header.is_control:
                values += [record.value or b"" for record in decode_records(batch)]
    return reader.finish(), values


def test_snapshot_id_survives_its_file_name() -> None:
    assert ID.file_name == "00000000000000007000-0000000012.checkpoint"
    assert parse_snapshot_name(ID.file_name) == ID
    for other in (
        "00000000000000007000.log",
        ID.file_name + ".part",
        ID.file_name + ".corrupt",
        "7000-12.checkpoint",
        "99999999999999999999-0000000012.checkpoint",
    ):
        assert parse_snapshot_name(other) is None
    assert SnapshotId(9, 2) < SnapshotId(10, 2) < SnapshotId(10, 3)


@pytest.mark.requirement("K853-08")
@given(
    values=st.lists(st.binary(max_size=300), max_size=30),
    piece_bytes=st.integers(min_value=1, max_value=400),
)
def test_written_snapshot_is_read_in_chunks_of_any_size(
    values: list[bytes], piece_bytes: int
) -> None:
    """The voter set, private fields included, comes out as it went in."""
    data = b"".join(encode_snapshot(ID, BOUNDS, values))
    assert read(data, piece_bytes) == (BOUNDS, values)


def test_layout_is_header_data_footer_with_offsets_from_zero() -> None:
    half = BATCH_BYTES // 2
    data = b"".join(encode_snapshot(ID, BOUNDS, [b"x" * half] * 5))
    batches, rest = split_batches(data)
    assert rest == 0
    spans = [(b.header.is_control, b.header.base_offset, b.header.end_offset) for b in batches]
    assert spans == [(True, 0, 3), (False, 3, 5), (False, 5, 7), (False, 7, 8), (True, 8, 9)]
    assert {b.header.leader_epoch for b in batches} == {ID.epoch}
    first = [decode_control(r) for r in decode_records(batches[0])]
    assert isinstance(first[0], SnapshotHeader)
    assert first[2] == VOTERS
    assert [decode_control(r) for r in decode_records(batches[-1])] == [SnapshotFooter()]


def test_empty_state_without_voters_is_a_valid_snapshot() -> None:
    bounds = SnapshotBounds(0)
    data = b"".join(encode_snapshot(ID, bounds, ()))
    assert read(data) == (bounds, [])


def test_every_flipped_bit_is_detected() -> None:
    data = b"".join(encode_snapshot(ID, BOUNDS, VALUES[:3]))
    for position in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            with pytest.raises(CorruptSnapshot):
                read(bytes(damaged))


def test_every_truncation_and_every_extra_byte_is_detected() -> None:
    data = b"".join(encode_snapshot(ID, BOUNDS, VALUES[:3]))
    for end in range(len(data)):
        with pytest.raises(CorruptSnapshot):
            read(data[:end])
    for extra in (b"\0", b"\0" * 600, data):
        with pytest.raises(CorruptSnapshot):
            read(data + extra)


def _wrong_layouts() -> Iterator[tuple[str, bytes]]:
    head, *middle, foot = encode_snapshot(ID, BOUNDS, VALUES)
    yield "no header", b"".join(middle) + foot
    yield "data twice", b"".join([head, *middle, *middle, foot])
    yield "data missing", head + foot
    yield "footer first", foot + head
    other = SnapshotId(ID.end_offset, ID.epoch + 1)
    yield "another epoch", b"".join(encode_snapshot(other, BOUNDS, VALUES))
    late = encode_values(base_offset=44, leader_epoch=ID.epoch, timestamp_ms=0, values=[b"x"])
    yield "data behind the footer", b"".join([head, *middle, foot, late])


@pytest.mark.parametrize("data", [pytest.param(d, id=n) for n, d in _wrong_layouts()])
def test_complete_batches_in_a_wrong_order_are_no_snapshot(data: bytes) -> None:
    with pytest.raises(CorruptSnapshot):
        read(data)


def test_length_beyond_any_batch_is_rejected_immediately() -> None:
    head = next(encode_snapshot(ID, BOUNDS, ()))
    reader = SnapshotReader(ID)
    huge = head[:8] + (1 << 30).to_bytes(4, "big") + head[12:]
    with pytest.raises(CorruptSnapshot, match="1073741824 bytes"):
        reader.feed(huge)
