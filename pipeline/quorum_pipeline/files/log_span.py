"""Reading a span of a segment: whole, checked batches, and what is damaged between them.

Owns the reading and the decision what damage is. What is not whole at the very end of a log is being written, or was cut
off by a crash: not damage. Everything else is told with file, byte and offset.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from quorum_node.records.batches import PREFIX_BYTES, Batch, CorruptBatch, split_batches
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.log_directory import LogSpan

PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Damage:
    """What can't be read: where, from which offset on, why."""

    path: str
    position: int
    offset: int
    reason: str

    def __str__(self) -> str:
        return (
            f"{self.path} is damaged at byte {self.position}, offset {self.offset}: {self.reason}"
        )


@dataclass(frozen=True, slots=True)
class PlacedBatch:
    """A batch, and where in its file it begins."""

    batch: Batch
    position: int


def read_span(span: LogSpan) -> Iterator[PlacedBatch | Damage]:
    """The batches in order; Damage stands where some are missing. Raises OSError."""
    position, offset = span.position, span.base_offset
    with Path(span.path).open("rb") as file:
        while position < span.end_position:
            data = _whole_piece(file, position, span.end_position)
            batches, problem = _split(data)
            for batch in batches:
                header = batch.header
                if header.base_offset != offset:
                    reason = f"offset {header.base_offset} where {offset} must follow"
                    yield Damage(span.path, position, offset, reason)
                yield PlacedBatch(batch, position)
                position += header.size_bytes
                offset = header.end_offset
            if batches and problem is None:
                continue
            if span.is_last and (problem is None or not any(_rest(file, span, position))):
                return
            reason = problem or "it ends in the middle of a batch"
            yield Damage(span.path, position, offset, reason)
            following = _following(file, position, span.end_position)
            if following is None:
                return
            position, offset = following
    if span.end_offset is not None and offset != span.end_offset:
        reason = f"the segment ends, and offset {span.end_offset} follows elsewhere"
        yield Damage(span.path, position, offset, reason)


def read_whole(span: LogSpan) -> Iterator[PlacedBatch]:
    """Every batch. Raises PipelineError on damage, OSError."""
    for found in read_span(span):
        if isinstance(found, Damage):
            raise PipelineError(str(found))
        yield found


def _whole_piece(file: BinaryIO, position: int, end_position: int) -> bytes:
    """A piece; more of it if its first batch is longer, and all of that is there."""
    data = _read(file, position, min(PIECE_BYTES, end_position - position))
    if len(data) >= PREFIX_BYTES:
        size = _batch_bytes(data)
        if len(data) < size <= end_position - position:
            return _read(file, position, size)
    return data


def _split(data: bytes) -> tuple[list[Batch], str | None]:
    """The batches before the first damage, and what is wrong there."""
    try:
        return split_batches(data)[0], None
    except CorruptBatch as error:
        return split_batches(data[: error.position])[0], error.reason


def _following(file: BinaryIO, position: int, end_position: int) -> tuple[int, int] | None:
    """Position and offset of the next batch, if the damaged one tells its length and a whole one stands behind it."""
    prefix = _read(file, position, PREFIX_BYTES)
    if len(prefix) < PREFIX_BYTES:
        return None
    after = position + _batch_bytes(prefix)
    if not position < after < end_position:
        return None
    batches, _ = _split(_whole_piece(file, after, end_position))
    return (after, batches[0].header.base_offset) if batches else None


def _batch_bytes(data: bytes) -> int:
    return PREFIX_BYTES + int.from_bytes(data[8:12], "big", signed=True)


def _rest(file: BinaryIO, span: LogSpan, position: int) -> bytes:
    return _read(file, position, span.end_position - position)


def _read(file: BinaryIO, position: int, size: int) -> bytes:
    file.seek(position)
    return file.read(size)
