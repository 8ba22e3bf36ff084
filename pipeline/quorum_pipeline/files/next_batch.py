"""Finds the next trustworthy batch after damage.

Length and offset of a damaged batch can't be trusted, so the following bytes are searched for a batch with a correct
checksum. Since the checksum does not cover the first offset, the batch after it must continue from it, too.
"""

import mmap
import re

from quorum_node.records.batches import (
    HEADER_BYTES,
    PREFIX_BYTES,
    SPAN,
    CorruptBatch,
    split_batches,
)

_LOW_BITS = 16
"""The offset may be in the next block of 2^16 in any case: batches may also be missing without a byte in their place."""
_OFFSET_BYTES = 8
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
    end of the log. The work is proportional to the number of bytes: a checksum is calculated only where the next header continues.
    """
    # A record takes more than one byte.
    known = offset + end_position - position if end_offset is None else end_offset
    last = max(known, ((offset >> _LOW_BITS) + 2) << _LOW_BITS) - 1
    begins = batch_start(offset, last)
    begin, limit = position, min(end_position, len(content))
    while found := begins.search(content, begin, limit):
        at = found.start()
        if at + HEADER_BYTES > limit:
            return None
        begin = at + 1
        base, length, last_delta = SPAN.unpack_from(content, at)
        if not offset <= base <= last:
            continue
        end = at + PREFIX_BYTES + length, base + last_delta + 1
        if end[0] < end_position:
            goes_on = int.from_bytes(content[end[0] : end[0] + _OFFSET_BYTES], "big") == end[1]
        else:
            goes_on = at > position if end_offset is None else end[1] == end_offset
        if goes_on and complete_batch(content, at, end_position) == end:
            return at, base
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


def batch_start(first: int, last: int) -> re.Pattern[bytes]:
    """Pattern of a batch's start: first offset (about from `first` to `last`: their common bytes, and the next one), length, epoch and
    magic.
    """
    low, high = (each.to_bytes(_OFFSET_BYTES, "big") for each in (first, last))
    same = next((n for n in range(_OFFSET_BYTES) if low[n] != high[n]), _OFFSET_BYTES)
    offset = re.escape(low[:same])
    if same < _OFFSET_BYTES:
        offset += b"[%b-%b]" % (re.escape(low[same:][:1]), re.escape(high[same:][:1]))
        offset += b".{%d}" % (_OFFSET_BYTES - same - 1)
    # Of a length of less than 64 MiB the first byte is below 4.
    return re.compile(offset + rb"[\x00-\x03].{7}\x02", re.DOTALL)
