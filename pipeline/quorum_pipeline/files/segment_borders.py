"""Borders of the batches of a segment, by their headers.

Owns the rule which headers are valid, and how borders far from the beginning are found without reading all headers before
them. Source: KIP-595, "Log"; the header: Kafka's message format, "Record Batch".
"""

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from quorum_node.records.batches import MIN_LENGTH, PREFIX_BYTES, SPAN
from quorum_pipeline.files.next_batch import batch_start, complete_batch, next_batch

Border = tuple[int, int]
"""Position in a segment at which a batch begins or the last one ends, and the offset there."""
CHAIN_BYTES = 8 << 20
"""Maximum size of a batch. Headers that continue each other for longer are no content of a batch that looks like headers.
Source: MAX_BATCH_SIZE_BYTES of Kafka's KafkaRaftClient; nodes of this project write shorter ones.
"""
_TIMES_CHAIN = 2
_MAGIC_AT = 16


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment file and the offset in its name. `end_offset`: that of the next segment, None for the last one."""

    path: Path
    base_offset: int
    size_bytes: int
    end_offset: int | None = None

    @property
    def start(self) -> Border:
        """Border of the first batch."""
        return 0, self.base_offset


def walked(segment: Segment, start: Border) -> Iterator[Border]:
    """Yield the end of every complete batch behind a border, from the headers alone.

    A header is valid if the next one continues from it, or if its checksum is right. Damage before another batch is skipped
    like a batch.
    """
    size_bytes = segment.size_bytes
    position, offset = start
    with _mapped(segment) as content:
        while content is not None and size_bytes - position >= SPAN.size:
            base, length, last_delta = SPAN.unpack_from(content, position)
            step = position + PREFIX_BYTES + length, base + last_delta + 1
            sane = base == offset and length >= MIN_LENGTH and last_delta >= 0
            if not sane or not (
                _continues(content, step, size_bytes)
                or complete_batch(content, position, size_bytes) == step
            ):
                found = next_batch(content, position, offset, size_bytes, segment.end_offset)
                if found is None:
                    return
                step = found
            position, offset = step
            yield step


def is_far(size_bytes: int) -> bool:
    """Whether searching for a border that far away reads fewer headers than there are up to it."""
    return size_bytes > CHAIN_BYTES


def border_before(segment: Segment, offset: int) -> Border:
    """Return a border with this offset, or one a few MiB before it; only headers near it are read.

    It is the start of the segment if that is near, or if the segment is damaged.
    """
    low, high = segment.start, segment.size_bytes
    while high - low[0] > _TIMES_CHAIN * CHAIN_BYTES:
        middle = (low[0] + high) // 2
        found = border_at(segment, middle)
        if found is None:
            return low
        if found[1] <= low[1]:
            return segment.start
        if found[1] <= offset:
            low = found
        else:
            high = middle
    return low


def border_at(segment: Segment, position: int) -> Border | None:
    """Return the first border at or behind a position; None if there is damage near it, or if it is near the end of the segment."""
    with _mapped(segment) as content:
        if content is None:
            return None
        limit = min(position + CHAIN_BYTES + _MAGIC_AT, segment.size_bytes)
        at = position
        end_offset = segment.end_offset or segment.base_offset + segment.size_bytes
        begins = batch_start(segment.base_offset, end_offset)
        while found := begins.search(content, at, limit):
            steps, whole = _chain(content, segment, found.start())
            if whole:
                return found.start(), SPAN.unpack_from(content, found.start())[0]
            if steps > 1:
                return None
            at = found.start() + 1
    return None


def _chain(content: mmap.mmap, segment: Segment, position: int) -> tuple[int, bool]:
    """Number of headers from a position on that continue each other, and whether they do so for long enough, or up to the end."""
    steps, begin, size_bytes, offset = 0, position, segment.size_bytes, -1
    while position - begin < CHAIN_BYTES:
        if position == size_bytes and steps:
            return steps, segment.end_offset in (None, offset)
        if size_bytes - position < SPAN.size:
            return steps, False
        base, length, last_delta = SPAN.unpack_from(content, position)
        if (steps and base != offset) or length < MIN_LENGTH or last_delta < 0:
            return steps, False
        position, offset = position + PREFIX_BYTES + length, base + last_delta + 1
        if position > size_bytes:
            return steps, False
        steps += 1
    return steps, True


@contextmanager
def _mapped(segment: Segment) -> Iterator[mmap.mmap | None]:
    """Map a segment to memory; None if it is too short for a header."""
    if segment.size_bytes < SPAN.size:
        yield None
        return
    with (
        segment.path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        yield content


def _continues(content: mmap.mmap, border: Border, size_bytes: int) -> bool:
    """Whether there is a header with this offset at this position."""
    position, offset = border
    return size_bytes - position >= SPAN.size and SPAN.unpack_from(content, position)[0] == offset
