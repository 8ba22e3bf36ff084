"""The walk over the records of a batch: well-formed records pass, others are reported."""

import random

import pytest

from quorum_node.records.record_walk import renumbered, walk_records
from quorum_node.schema.primitives import MalformedRecord, encode_varint

Headers = list[tuple[bytes, bytes | None]]


def field(value: bytes | None) -> bytes:
    return encode_varint(-1) if value is None else encode_varint(len(value)) + value


def record(
    index: int,
    *,
    timestamp_delta: int = 0,
    key: bytes | None = None,
    value: bytes | None = b"v",
    headers: Headers | None = None,
) -> bytes:
    body = b"\0" + encode_varint(timestamp_delta) + encode_varint(index) + field(key) + field(value)
    body += encode_varint(len(headers or []))
    for name, content in headers or []:
        body += field(name) + field(content)
    return encode_varint(len(body)) + body


def walked(*records: bytes) -> tuple[list[int], list[int]]:
    found = walk_records(b"..." + b"".join(records), 3, len(records))
    assert found.is_in_order
    return found.timestamp_deltas_ms, found.without_key


def test_random_valid_records_pass_and_every_truncated_or_extended_batch_is_rejected() -> None:
    seeded = random.Random(7)
    sizes = (0, 1, 5, 62, 63, 64, 65, 100, 127, 128, 8_190, 8_192, 9_000, 70_000)

    def some(*, may_be_null: bool = True) -> bytes | None:
        if may_be_null and seeded.random() < 0.3:
            return None
        return seeded.randbytes(seeded.choice(sizes))

    for _ in range(60):
        count = seeded.choice((1, 2, 63, 64, 65, 200))
        deltas = [
            seeded.choice((0, -1, 1, 63, 64, -64, -65, 90_000, -(1 << 40))) for _ in range(count)
        ]
        keys = [some() for _ in range(count)]
        names = [
            [
                (seeded.randbytes(seeded.choice((0, 3, 70))), some())
                for _ in range(seeded.randrange(3))
            ]
            for _ in range(count)
        ]
        records = [
            record(
                index,
                timestamp_delta=deltas[index],
                key=keys[index],
                value=some(),
                headers=names[index],
            )
            for index in range(count)
        ]
        without = [index for index, key in enumerate(keys) if key is None]
        assert walked(*records) == (deltas, without)
        whole = b"".join(records)
        with pytest.raises(MalformedRecord):
            walk_records(whole[:-1], 0, count)
        with pytest.raises(MalformedRecord, match="1 bytes after the last record"):
            walk_records(whole + b"\0", 0, count)
        with pytest.raises(MalformedRecord, match=f"record {count}: "):
            walk_records(whole, 0, count + 1)
        if count > 1:
            with pytest.raises(MalformedRecord, match="bytes after the last record"):
                walk_records(whole, 0, count - 1)


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (record(0) + encode_varint(-4) + record(1)[1:], "record 1: the record's length disagrees"),
        (record(0) + encode_varint(6) + record(1)[1:], "record 1: the record's length disagrees"),
        (record(0) + encode_varint(9) + b"\0\0\x02\x01\0" + encode_varint(-1) + bytes(4), "-1 headers"),
        (record(0) + encode_varint(9) + b"\0\0\x02\x01\0" + encode_varint(900) + bytes(4), "900 headers"),
        (
            record(0) + encode_varint(9) + b"\0\0\x02\x01\0\x02" + encode_varint(-1) + bytes(3),
            "the key of a header has length -1",
        ),
        (record(0) + b"\x80" * 12, "more than 64 bits"),
    ],
    ids=range(6),
)  # fmt: skip
def test_malformed_record_is_reported_with_its_reason(broken: bytes, says: str) -> None:
    with pytest.raises(MalformedRecord, match=says):
        walk_records(broken, 0, 2)


@pytest.mark.parametrize("deltas", [(0, 2), (1, 0), (0, 0), (-1, 1), (0, 70)])
def test_records_out_of_order_are_renumbered(deltas: tuple[int, int]) -> None:
    def both(numbers: tuple[int, int]) -> bytes:
        first = record(numbers[0], key=b"k", timestamp_delta=-9, headers=[(b"h", None)])
        return first + record(numbers[1], value=None)

    raw = b".." + both(deltas)
    assert not walk_records(raw, 2, 2).is_in_order
    assert renumbered(raw, 2, 2) == both((0, 1))


def test_negative_lengths_are_null() -> None:
    body = b"\0\0\0" + encode_varint(-64) + encode_varint(-70) + b"\0"
    found = walk_records(encode_varint(len(body)) + body, 0, 1)
    assert found.without_key == [0]


def test_random_bytes_raise_only_the_defined_error() -> None:
    seeded = random.Random(11)
    whole = b"".join(record(index, key=b"k", value=bytes(70)) for index in range(5))
    for _ in range(20_000):
        damaged = bytearray(whole)
        for _ in range(seeded.randint(1, 4)):
            damaged[seeded.randrange(len(damaged))] = seeded.randrange(256)
        try:
            found = walk_records(bytes(damaged), 0, 5)
        except MalformedRecord:
            continue
        assert len(found.timestamp_deltas_ms) == 5
