"""Reads the headers of the batches in a segment file, in bounded memory.

Owns the validity of a header, and the checksum of a batch in a file. Must not know the consequences
of an invalid batch.
Source: Kafka's documentation, "Record Batch".
"""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from quorum_node.records.batches import (
    CONTROL_FLAG,
    CRC_COVERS_FROM,
    HEADER_BYTES,
    MAGIC,
    PREFIX_BYTES,
    TRANSACTIONAL_FLAG,
)
from quorum_node.schema.primitives import Buffer
from quorum_node.storage.file_system import FileSystem

_HEADER = Struct(">qiibIhiqqqhii")
_PIECE_BYTES = 64 << 10
_CRC_PIECE_BYTES = 1 << 20


class FileBatch(NamedTuple):
    """The header of a batch and its position in the file."""

    position: int
    base_offset: int
    size_bytes: int
    leader_epoch: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def end_offset(self) -> int:
        """Exclusive end offset, compacted records included."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def end_position(self) -> int:
        """Position after the last byte."""
        return self.position + self.size_bytes

    @property
    def is_control(self) -> bool:
        """Whether it contains transaction markers."""
        return self.attributes & CONTROL_FLAG != 0

    @property
    def is_transactional(self) -> bool:
        """Whether it belongs to a transaction."""
        return self.attributes & TRANSACTIONAL_FLAG != 0


class BrokenBatch(Exception):
    """There is no valid batch at this position of the file."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"byte {position}: {reason}")
        self.position = position


def batch_at(buffer: Buffer, index: int, position: int, end_position: int) -> FileBatch:
    """The header at `index` of `buffer`, which is at `position` of a file that ends at `end_position`.

    Raises BrokenBatch on values that no valid batch of the present format can have.
    """
    (
        base_offset, length, epoch, magic, crc, attributes, last_delta, base_ts, max_ts,
        producer_id, producer_epoch, sequence, count,
    ) = _HEADER.unpack_from(buffer, index)  # fmt: skip
    size_bytes = length + PREFIX_BYTES
    if magic != MAGIC:
        raise BrokenBatch(position, f"magic {magic}")
    if size_bytes < HEADER_BYTES or position + size_bytes > end_position:
        raise BrokenBatch(position, f"batch length {length}")
    if base_offset < 0 or last_delta < 0 or not 0 <= count <= last_delta + 1:
        raise BrokenBatch(
            position, f"offset {base_offset}, last offset delta {last_delta}, {count} records"
        )
    return FileBatch(
        position, base_offset, size_bytes, epoch, crc, attributes, last_delta, base_ts, max_ts,
        producer_id, producer_epoch, sequence, count,
    )  # fmt: skip


def read_fully(files: FileSystem, fd: int, size: int, position: int) -> bytes:
    """As many bytes as there are, up to `size`."""
    content = files.pread(fd, size, position)
    while len(content) < size:
        more = files.pread(fd, size - len(content), position + len(content))
        if not more:
            break
        content += more
    return content


def walk(files: FileSystem, fd: int, position: int, end_position: int) -> Iterator[FileBatch]:
    """The headers of all batches in a part of a file. Raises BrokenBatch at the first invalid one."""
    piece, piece_at = b"", position
    while position < end_position:
        index = position - piece_at
        if len(piece) - index < HEADER_BYTES:
            if end_position - position < HEADER_BYTES:
                raise BrokenBatch(
                    position, f"{end_position - position} bytes are too few for a batch header"
                )
            piece = read_fully(files, fd, min(_PIECE_BYTES, end_position - position), position)
            piece_at, index = position, 0
            if len(piece) < HEADER_BYTES:
                raise BrokenBatch(position, "the file is truncated")
        batch = batch_at(piece, index, position, end_position)
        yield batch
        position = batch.end_position


def walk_checked(
    files: FileSystem, fd: int, position: int, end_position: int
) -> Iterator[FileBatch]:
    """The same, with checksums."""
    piece, piece_at = b"", position
    while position < end_position:
        index = position - piece_at
        if len(piece) - index < HEADER_BYTES:
            if end_position - position < HEADER_BYTES:
                raise BrokenBatch(
                    position, f"{end_position - position} bytes are too few for a batch header"
                )
            piece = read_fully(files, fd, min(_CRC_PIECE_BYTES, end_position - position), position)
            piece_at, index = position, 0
        if len(piece) - index < HEADER_BYTES:
            raise BrokenBatch(position, "the file is truncated")
        batch = batch_at(piece, index, position, end_position)
        if index + batch.size_bytes <= len(piece):
            view = memoryview(piece)[index + CRC_COVERS_FROM : index + batch.size_bytes]
            crc = crc32c(view)
        elif batch.size_bytes <= _CRC_PIECE_BYTES:
            piece = read_fully(files, fd, min(_CRC_PIECE_BYTES, end_position - position), position)
            piece_at = position
            crc = crc32c(memoryview(piece)[CRC_COVERS_FROM : batch.size_bytes])
        else:
            crc = _crc_of(files, fd, batch)
        if crc != batch.crc:
            raise BrokenBatch(position, f"CRC-32C is {crc:08x}, the header says {batch.crc:08x}")
        yield batch
        position = batch.end_position


def _crc_of(files: FileSystem, fd: int, batch: FileBatch) -> int:
    crc, position = 0, batch.position + CRC_COVERS_FROM
    while position < batch.end_position:
        size = min(_CRC_PIECE_BYTES, batch.end_position - position)
        piece = read_fully(files, fd, size, position)
        if not piece:
            raise BrokenBatch(batch.position, "the file is truncated")
        crc = crc32c(piece, crc)
        position += len(piece)
    return crc
