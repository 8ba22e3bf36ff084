"""Reads the headers of the batches in a segment file, in bounded memory.

Owns the validity of a header, and the checksum of a batch in a file. Must not know the consequences
of an invalid batch.
Source: Kafka's documentation, "Record Batch".
"""

from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c

from quorum_node.records.batches import (
    CONTROL_FLAG,
    CRC_COVERS_FROM,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    PREFIX_BYTES,
    TRANSACTIONAL_FLAG,
)
from quorum_node.schema.primitives import Buffer
from quorum_node.storage.atomic_file import read_at
from quorum_node.storage.file_system import FileSystem

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
    ) = HEADER.unpack_from(buffer, index)  # fmt: skip
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


def walk(
    files: FileSystem, fd: int, position: int, end_position: int, *, checked: bool = False
) -> Iterator[FileBatch]:
    """The headers of all batches in a part of a file. Raises BrokenBatch at the first invalid one.

    `checked`: a batch with a wrong checksum is invalid, too.
    """
    piece, piece_at = b"", position
    most = _CRC_PIECE_BYTES if checked else _PIECE_BYTES
    while position < end_position:
        index = position - piece_at
        if len(piece) - index < HEADER_BYTES:
            if end_position - position < HEADER_BYTES:
                raise BrokenBatch(
                    position, f"{end_position - position} bytes are too few for a batch header"
                )
            piece = read_at(fd, min(most, end_position - position), position, files)
            piece_at, index = position, 0
            if len(piece) < HEADER_BYTES:
                raise BrokenBatch(position, "the file is truncated")
        batch = batch_at(piece, index, position, end_position)
        if checked:
            if index + batch.size_bytes > len(piece) and batch.size_bytes <= most:
                piece = read_at(fd, min(most, end_position - position), position, files)
                piece_at, index = position, 0
            _check(files, fd, batch, memoryview(piece)[index : index + batch.size_bytes])
        yield batch
        position = batch.end_position


def _check(files: FileSystem, fd: int, batch: FileBatch, found: memoryview) -> None:
    """Compare the checksum. `found`: the bytes of the batch, or the first ones of a large batch."""
    is_whole = batch.size_bytes <= _CRC_PIECE_BYTES
    crc = crc32c(found[CRC_COVERS_FROM:]) if is_whole else _crc_of(files, fd, batch)
    if crc != batch.crc:
        reason = f"CRC-32C is {crc:08x}, the header says {batch.crc:08x}"
        raise BrokenBatch(batch.position, reason)


def _crc_of(files: FileSystem, fd: int, batch: FileBatch) -> int:
    crc, position = 0, batch.position + CRC_COVERS_FROM
    while position < batch.end_position:
        size = min(_CRC_PIECE_BYTES, batch.end_position - position)
        piece = read_at(fd, size, position, files)
        if not piece:
            raise BrokenBatch(batch.position, "the file is truncated")
        crc = crc32c(piece, crc)
        position += len(piece)
    return crc
