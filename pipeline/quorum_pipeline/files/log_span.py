"""Reads a span of a segment: complete, verified batches, and damage between them.

Owns the definition of damage. An incomplete batch at the very end of a log is being written or was interrupted by a
crash, which is not damage. Everything else is reported with file, byte and offset.
"""

import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from quorum_node.records.batches import PREFIX_BYTES, Batch, CorruptBatch, split_batches
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.log_directory import LogDirectory, LogSpan, open_log
from quorum_pipeline.files.next_batch import next_batch

PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Damage:
    """An unreadable part: its place, first offset, end offset (None if unknown), and the reason."""

    path: str
    position: int
    offset: int
    end_offset: int | None
    reason: str

    def __str__(self) -> str:
        return (
            f"{self.path} is damaged at byte {self.position}, offset {self.offset}: {self.reason}"
        )


@dataclass(frozen=True, slots=True)
class PlacedBatch:
    """A batch and its position in the file."""

    batch: Batch
    position: int


def read_span(span: LogSpan) -> Iterator[PlacedBatch | Damage]:
    """Yield the batches in order, with Damage in place of missing ones. Raises OSError."""
    position, offset = span.position, span.base_offset
    with Path(span.path).open("rb") as file:
        while position < span.end_position:
            batches, problem = _split(_complete_piece(file, position, span.end_position))
            for batch in batches:
                header = batch.header
                if header.base_offset != offset:
                    problem = f"offset {header.base_offset} where {offset} is expected"
                    break
                yield PlacedBatch(batch, position)
                position += header.size_bytes
                offset = header.end_offset
            if batches and problem is None:
                continue
            following = _following(file, span, position, offset)
            if following is not None:
                reason = problem or "its length is wrong"
                yield Damage(span.path, position, offset, following[1], reason)
                position, offset = following
                continue
            if not span.is_last or (problem is not None and any(_rest(file, span, position))):
                reason = problem or "it ends in the middle of a batch"
                yield Damage(span.path, position, offset, span.end_offset, reason)
            return
        goes_on = os.fstat(file.fileno()).st_size > span.end_position
    if span.end_offset is not None and offset != span.end_offset:
        reason = f"the segment ends although offset {span.end_offset} is expected"
        if goes_on:
            reason = f"offset {span.end_offset} where {offset} is expected"
        yield Damage(span.path, position, offset, span.end_offset, reason)


def damaged_tail(log: LogDirectory) -> Damage | None:
    """Return damage behind the last complete batch; a batch that is being written is not damage. Raises PipelineError, OSError."""
    if not log.segments:
        return None
    damage = next((each for each in read_span(log.tail) if isinstance(each, Damage)), None)
    return damage or lost_records(log)


def lost_records(log: LogDirectory) -> Damage | None:
    """Return the missing records if the log ends below the offset up to which its node synced it. Raises PipelineError, OSError."""
    if not _ends_too_early(log):
        return None
    # The node lowers its record before it truncates: the log may have been truncated after the record was read.
    again = open_log(log.path)
    if again.recorded is None or not _ends_too_early(again):
        return None
    tail = again.tail
    reason = (
        f"the log ends here, but its node has synced it up to offset {again.recorded.end_offset}"
    )
    return Damage(tail.path, tail.position, tail.base_offset, again.recorded.end_offset, reason)


def check_end(log: LogDirectory) -> None:
    """Raises PipelineError if the log ends below the offset up to which its node synced it; OSError."""
    if (damage := lost_records(log)) is not None:
        raise PipelineError(str(damage))


def _ends_too_early(log: LogDirectory) -> bool:
    return (
        bool(log.segments)
        and log.recorded is not None
        and log.end_offset() < log.recorded.end_offset
    )


def _complete_piece(file: BinaryIO, position: int, end_position: int) -> bytes:
    """Read a piece; more than that if its first batch is longer and complete."""
    data = _read(file, position, min(PIECE_BYTES, end_position - position))
    if len(data) >= PREFIX_BYTES:
        size = _batch_bytes(data)
        if len(data) < size <= end_position - position:
            return _read(file, position, size)
    return data


def _split(data: bytes) -> tuple[list[Batch], str | None]:
    """Return the batches before the first damage, and the reason of the damage."""
    try:
        return split_batches(data)[0], None
    except CorruptBatch as error:
        return split_batches(data[: error.position])[0], error.reason


def _following(file: BinaryIO, span: LogSpan, position: int, offset: int) -> tuple[int, int] | None:
    """Position and offset of the next batch behind damage."""
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return next_batch(content, position, offset, span.end_position, span.end_offset)


def _batch_bytes(data: bytes) -> int:
    return PREFIX_BYTES + int.from_bytes(data[8:12], "big", signed=True)


def _rest(file: BinaryIO, span: LogSpan, position: int) -> bytes:
    return _read(file, position, span.end_position - position)


def _read(file: BinaryIO, position: int, size: int) -> bytes:
    file.seek(position)
    return file.read(size)
