"""Compression codecs of record batches: gzip, snappy, lz4, zstd, in the framing of Kafka's clients.

Owns the framing: snappy in frames of snappy-java (some clients write it raw), lz4 in frames of
independent blocks, the only form that Java clients read. The decompressed size is limited. Must not
know batches.
Source: Kafka's documentation, "Record Batch" (compression); the LZ4 Frame Format Description 1.6;
snappy-java's SnappyOutputStream.
"""

from collections.abc import Callable
from struct import Struct

import cramjam

NONE, GZIP, SNAPPY, LZ4, ZSTD = 0, 1, 2, 3, 4
MOST_BYTES = 128 << 20
"""Limit of the decompressed size of a batch: far above any that a producer may send."""
_GZIP_LEVEL, _ZSTD_LEVEL = 6, 3
_FIRST_BYTES = 64 << 10
_IS_TOO_SMALL = "failed to write whole buffer"
_SNAPPY_MAGIC = b"\x82SNAPPY\x00"
_SNAPPY_HEADER = _SNAPPY_MAGIC + b"\0\0\0\1\0\0\0\1"
_SNAPPY_BLOCK_BYTES = 32 << 10
_SNAPPY_SIZE = Struct(">I")
_LZ4_HEADER = bytes.fromhex("04224d18604082")
"""Version 1, independent blocks of at most 64 KiB, no checksums; the last byte is the header's own checksum."""
_LZ4_BLOCK_BYTES = 64 << 10
_LZ4_SIZE = Struct("<I")
_LZ4_IS_PLAIN = 1 << 31


class UnknownCodec(Exception):
    """Kafka has no codec with this number."""


class BadContent(Exception):
    """The content can't be decompressed."""


class ContentTooLarge(BadContent):
    """The decompressed size exceeds the limit."""


def inflate(codec: int, data: bytes, most_bytes: int = MOST_BYTES) -> bytes:
    """Decompress. Raises UnknownCodec, BadContent, ContentTooLarge."""
    if codec == SNAPPY:
        return _inflate_snappy(data, most_bytes)
    into = _INTO.get(codec)
    if into is None:
        raise UnknownCodec(f"codec {codec}")
    return _grown(into, data, most_bytes)


def deflate(codec: int, data: bytes, level: int | None = None) -> bytes:
    """Compress. `level`: of gzip and zstd, None is the default of a stock broker. Raises UnknownCodec."""
    if codec == GZIP:
        return bytes(cramjam.gzip.compress(data, level=_GZIP_LEVEL if level is None else level))
    if codec == SNAPPY:
        return _SNAPPY_HEADER + b"".join(
            _SNAPPY_SIZE.pack(len(block)) + block
            for block in (
                bytes(cramjam.snappy.compress_raw(each))
                for each in _pieces(data, _SNAPPY_BLOCK_BYTES)
            )
        )
    if codec == LZ4:
        blocks = b"".join(_lz4_block(each) for each in _pieces(data, _LZ4_BLOCK_BYTES))
        return _LZ4_HEADER + blocks + _LZ4_SIZE.pack(0)
    if codec == ZSTD:
        return bytes(cramjam.zstd.compress(data, level=_ZSTD_LEVEL if level is None else level))
    raise UnknownCodec(f"codec {codec}")


def _grown(into: Callable[[bytes, bytearray], int], data: bytes, most_bytes: int) -> bytes:
    size = min(max(_FIRST_BYTES, 4 * len(data)), most_bytes)
    while True:
        room = bytearray(size)
        try:
            return bytes(memoryview(room)[: into(data, room)])
        except cramjam.DecompressionError as error:
            if _IS_TOO_SMALL not in str(error):
                raise BadContent(str(error)) from None
        if size >= most_bytes:
            raise ContentTooLarge(f"decompresses to more than {most_bytes} bytes")
        size = min(8 * size, most_bytes)


def _inflate_snappy(data: bytes, most_bytes: int) -> bytes:
    blocks = [data]
    if data.startswith(_SNAPPY_MAGIC):
        blocks, at = [], len(_SNAPPY_HEADER)
        while at < len(data):
            end = at + _SNAPPY_SIZE.size
            if end > len(data):
                raise BadContent("a snappy-java frame is truncated")
            at, end = end, end + _SNAPPY_SIZE.unpack_from(data, at)[0]
            if end > len(data):
                raise BadContent("a snappy-java frame is truncated")
            blocks.append(data[at:end])
            at = end
    found, size = [], 0
    for block in blocks:
        try:
            size += cramjam.snappy.decompress_raw_len(block)
            if size > most_bytes:
                raise ContentTooLarge(f"decompresses to more than {most_bytes} bytes")
            found.append(bytes(cramjam.snappy.decompress_raw(block)))
        except cramjam.DecompressionError as error:
            raise BadContent(str(error)) from None
    return b"".join(found)


def _lz4_block(data: bytes) -> bytes:
    block = bytes(cramjam.lz4.compress_block(data, store_size=False))
    if len(block) >= len(data):
        return _LZ4_SIZE.pack(len(data) | _LZ4_IS_PLAIN) + data
    return _LZ4_SIZE.pack(len(block)) + block


def _pieces(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


_INTO: dict[int, Callable[[bytes, bytearray], int]] = {
    GZIP: cramjam.gzip.decompress_into,
    LZ4: cramjam.lz4.decompress_into,
    ZSTD: cramjam.zstd.decompress_into,
}
