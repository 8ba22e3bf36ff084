"""Finds the next trustworthy batch after damage.

Length and offset of a damaged batch can't be trusted, so the following bytes are searched for a batch with a correct
checksum. Since the checksum does not cover the first offset, the batch after it must continue from it, too.
"""

import mmap
import re

from quorum_node.records.batches import HEADER_BYTES, PREFIX_BYTES, CorruptBatch, split_batches

_LOW_BITS = 16
_MAX_BYTES = 64 << 20
"""Maximum length of a batch."""


def next_batch(
    content: mmap.mmap | bytes,
    position: int,
    offset: int,
    end_position: int,
    end_offset: int | None,
) -> tuple[int, int] | None:
    """Find a batch from `position` on without offsets below `offset`; return its position and first offset.

    If it is at `position` itself, offsets are missing before it. `end_offset`: the first offset after `end_position`; None at the
    end of the log.
    """
    begins = _beginning(offset)
    at = position
    while found := begins.search(content, at, end_position):
        at = found.start() + 1
        base = int.from_bytes(content[at - 1 : at + 7], "big")
        end = complete_batch(content, at - 1, end_position)
        if base < offset or end is None:
            continue
        if end[0] < end_position:
            goes_on = int.from_bytes(content[end[0] : end[0] + 8], "big") == end[1]
        else:
            goes_on = at - 1 > position if end_offset is None else end[1] == end_offset
        if goes_on:
            return at - 1, base
    return None


def complete_batch(
    content: mmap.mmap | bytes, position: int, end_position: int
) -> tuple[int, int] | None:
    """Return position and offset behind the batch at `position`; None if it is incomplete or its checksum is wrong."""
    length = int.from_bytes(content[position + 8 : position + PREFIX_BYTES], "big", signed=True)
    end = position + PREFIX_BYTES + length
    if not position + HEADER_BYTES <= end <= min(end_position, position + _MAX_BYTES):
        return None
    try:
        batches, _ = split_batches(content[position:end])
    except CorruptBatch:
        return None
    # None: the file was truncated.
    return (end, batches[0].header.end_offset) if batches else None


def _beginning(offset: int) -> re.Pattern[bytes]:
    """Pattern of a batch's start: first offset (in this or the next block of 2^16), length, epoch and magic."""
    high = offset >> _LOW_BITS
    blocks = b"|".join(re.escape((high + n).to_bytes(6, "big")) for n in (0, 1))
    return re.compile(b"(?:" + blocks + rb").{2}[\x00-\x03].{7}\x02", re.DOTALL)
