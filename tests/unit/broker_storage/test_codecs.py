"""Compressed records: what clients write can be read, and what is written here they can read."""

from random import Random

import pytest
from crc32c import crc32c

from quorum_node.records.batches import HEADER_BYTES, CorruptBatch, Record
from quorum_node.schema.primitives import encode_varint
from quorum_node.storage.broker.batch_walk import batch_at
from quorum_node.storage.broker.codecs import (
    LZ4,
    SNAPPY,
    ZSTD,
    BadContent,
    UnknownCodec,
    deflate,
    inflate,
)
from quorum_node.storage.broker.compacted_batch import compacted
from quorum_node.storage.broker.stored_records import stored_records
from support.data_batches import data_batch

CODECS = pytest.mark.parametrize("codec", [1, 2, 3, 4], ids=["gzip", "snappy", "lz4", "zstd"])


def compressed(codec: int, *records: Record, offset: int = 0) -> bytes:
    data = data_batch(offset, records=records).data
    assert isinstance(data, bytes)
    return sealed(data[:HEADER_BYTES] + deflate(codec, data[HEADER_BYTES:]), codec)


def sealed(data: bytes, codec: int) -> bytes:
    whole = bytearray(data)
    whole[8:12] = (len(whole) - 12).to_bytes(4, "big")
    whole[22] |= codec
    whole[17:21] = crc32c(memoryview(whole)[21:]).to_bytes(4, "big")
    return bytes(whole)


@CODECS
@pytest.mark.parametrize("size", [0, 1, 70_000, 3_000_000])
def test_compressed_data_is_restored_unchanged(codec: int, size: int) -> None:
    random = Random(size)
    for data in (random.randbytes(size), b"abcd" * (size // 4)):
        assert inflate(codec, deflate(codec, data)) == data


@CODECS
def test_batch_without_some_records_keeps_its_codec(codec: int) -> None:
    records = [Record(b"%d" % each, b"v" * 100) for each in range(50)]
    data = compressed(codec, *records, offset=7)
    batch = batch_at(data, 0, 0, len(data))
    made = compacted(
        data,
        batch,
        lambda each: each.offset % 2 == 0,
        new_horizon_ms=1,
        keep_empty=False,
        is_obsolete_marker=False,
    )
    assert made is not None
    assert made[22] & 7 == codec
    assert int.from_bytes(made[17:21], "big") == crc32c(made[21:])
    assert [each.offset for each in stored_records(made)] == list(range(8, 57, 2))


def test_unframed_snappy_and_uncompressed_lz4_blocks_are_read() -> None:
    plain = b"0123456789" * 10
    bare = bytes([100, 0xF0, 99]) + plain  # one literal of 100 bytes
    assert inflate(SNAPPY, bare) == plain
    assert inflate(LZ4, deflate(LZ4, b"\x01")) == b"\x01"


@CODECS
def test_damaged_or_oversized_data_is_rejected(codec: int) -> None:
    good = deflate(codec, b"x" * 1_000_000)
    with pytest.raises(BadContent, match="more than 999999 bytes"):
        inflate(codec, good, 999_999)
    with pytest.raises(BadContent):
        inflate(codec, good[: len(good) // 2])
    with pytest.raises(BadContent):
        inflate(codec, b"\xff" * 40)
    with pytest.raises(CorruptBatch):
        list(stored_records(sealed(compressed(codec, Record(b"k", b"v"))[:-3], codec)))
    with pytest.raises(UnknownCodec):
        inflate(5, good)


@pytest.mark.parametrize("deltas", [(0, 2, 2), (1, 0, 2), (0, 1, 5), (-1, 1, 2)])
def test_record_with_the_offset_of_another_is_rejected(deltas: tuple[int, ...]) -> None:
    """Compaction would treat it as a newer record of its key, and remove later ones."""
    batch = data_batch(10, records=[Record(b"k", b"1"), Record(b"k", b"2"), Record(b"k", b"3")])
    assert isinstance(batch.data, bytes)
    assert [each.offset for each in stored_records(batch.data)] == [10, 11, 12]
    data, at = bytearray(batch.data), HEADER_BYTES
    for number, delta in enumerate(deltas):
        # Length, attributes, timestamp delta and offset delta have one byte each.
        assert data[at + 3 : at + 4] == encode_varint(number)
        data[at + 3 : at + 4] = encode_varint(delta)
        at += 1 + data[at] // 2
    with pytest.raises(CorruptBatch, match="offset delta"):
        list(stored_records(bytes(data)))


def test_lz4_header_is_accepted_by_java_clients() -> None:
    # FLG: version 1, independent blocks; the last byte is the second one of xxHash32 over FLG and BD.
    assert deflate(LZ4, b"")[:7] == bytes.fromhex("04224d18604082")
    assert deflate(ZSTD, b"")[:4] == bytes.fromhex("28b52ffd")
    assert deflate(SNAPPY, b"a" * 10)[:16] == b"\x82SNAPPY\x00\0\0\0\1\0\0\0\1"
