"""What a log segment on disk holds after a crash: whole batches, then perhaps a torn tail.

The one place that decides between "cut off" and "damaged":

* the last batch is incomplete, or its end is zeros (space allocated, bytes never written):
  it was never fsynced, so nobody was told of it, and it is cut off;
* anything else that is wrong (CRC of a whole batch, an offset that does not follow, a length that
  hides later batches) is damage of something that may have been acknowledged: StorageFailure,
  never truncated away.

Reads raw header fields itself, because it must reason about headers that may be damaged.
"""

import struct
from array import array
from dataclasses import dataclass, field

from crc32c import crc32c

from quorum_node.storage.errors import StorageFailure

_HEADER = struct.Struct(">qiibIhi")
"""base offset, length, leader epoch, magic, CRC, attributes, last offset delta."""

HEADER_BYTES = 61
LENGTH_PREFIX_BYTES = 12
_CRC_START = 21
CONTROL_BIT = 0x20
_SECTOR_BYTES = 512
INDEX_INTERVAL_BYTES = 4096


@dataclass(slots=True)
class SegmentScan:
    """Whole batches of one segment."""

    end_offset: int
    valid_bytes: int = 0
    last_epoch: int = -1
    epoch_starts: list[tuple[int, int]] = field(default_factory=list)
    """(epoch, offset) wherever the epoch differs from the batch before."""
    control_batches: list[bytes] = field(default_factory=list)
    control_spans: list[tuple[int, int]] = field(default_factory=list)
    """(position, size in bytes) of every control batch."""
    index_offsets: "array[int]" = field(default_factory=lambda: array("q"))
    index_positions: "array[int]" = field(default_factory=lambda: array("q"))
    torn_bytes: int = 0


def scan_segment(content: bytes, base_offset: int, last_epoch: int, name: str) -> SegmentScan:
    """Check every batch of a segment that starts at `base_offset` after epoch `last_epoch`.

    Raises StorageFailure on damage; a torn tail is reported in `torn_bytes`.
    """
    scan = SegmentScan(end_offset=base_offset, last_epoch=last_epoch)
    position, size, indexed = 0, len(content), -INDEX_INTERVAL_BYTES
    view = memoryview(content)
    while position < size:
        problem = _problem_at(view, position, scan)
        if problem is not None:
            if not _is_torn(content, position):
                raise StorageFailure(f"{name} is damaged at byte {position}: {problem}")
            scan.torn_bytes = size - position
            break
        base, length, epoch, _, _, attributes, last_delta = _HEADER.unpack_from(view, position)
        batch_bytes = LENGTH_PREFIX_BYTES + length
        if epoch != scan.last_epoch:
            scan.epoch_starts.append((epoch, base))
            scan.last_epoch = epoch
        if attributes & CONTROL_BIT:
            scan.control_batches.append(content[position : position + batch_bytes])
            scan.control_spans.append((position, batch_bytes))
        if position - indexed >= INDEX_INTERVAL_BYTES:
            scan.index_offsets.append(base)
            scan.index_positions.append(position)
            indexed = position
        scan.end_offset = base + last_delta + 1
        position += batch_bytes
        scan.valid_bytes = position
    return scan


def _problem_at(view: memoryview, position: int, scan: SegmentScan) -> str | None:
    """Why there is no whole, valid batch at `position` that follows the scan, or None."""
    remaining = len(view) - position
    if remaining < HEADER_BYTES:
        return f"{remaining} bytes are no batch header"
    base, length, epoch, magic, crc, _, last_delta = _HEADER.unpack_from(view, position)
    if length < HEADER_BYTES - LENGTH_PREFIX_BYTES:
        return f"batch length {length}"
    if length > remaining - LENGTH_PREFIX_BYTES:
        return f"batch length {length} exceeds the {remaining} bytes left"
    if magic != 2:
        return f"magic {magic}"
    end = position + LENGTH_PREFIX_BYTES + length
    found = crc32c(view[position + _CRC_START : end])
    if found != crc:
        return f"CRC-32C is {found:08x}, the header says {crc:08x}"
    if base != scan.end_offset:
        return f"base offset {base} where {scan.end_offset} must follow"
    if last_delta < 0 or epoch < max(scan.last_epoch, 0):
        return f"last offset delta {last_delta}, epoch {epoch} after epoch {scan.last_epoch}"
    return None


def _is_torn(content: bytes, position: int) -> bool:
    """Whether what stands at `position` up to the end can be an append that was never synced."""
    rest = memoryview(content)[position:]
    if len(rest) < HEADER_BYTES:
        return True
    _, length, _, magic, crc, _, last_delta = _HEADER.unpack_from(rest, 0)
    if _ends_in_unwritten_sectors(content, position):
        return not _has_valid_batch_after(content, position, last_delta)
    incomplete = magic == 2 and length > len(rest) - LENGTH_PREFIX_BYTES
    if not incomplete or crc32c(rest[_CRC_START:]) == crc:
        return False  # all bytes of the batch are there: only its length was damaged
    return not _has_valid_batch_after(content, position, last_delta)


def _ends_in_unwritten_sectors(content: bytes, position: int) -> bool:
    """Zeros from within the batch at `position`, from a sector boundary on, to the end of file."""
    data_end = len(content.rstrip(b"\0"))
    if data_end <= position:
        return True
    unwritten_from = -(-data_end // _SECTOR_BYTES) * _SECTOR_BYTES
    return unwritten_from < len(content)


def _has_valid_batch_after(content: bytes, position: int, last_delta: int) -> bool:
    """Whether a later whole batch proves that the damage is before the tail."""
    base = struct.unpack_from(">q", content, position)[0]
    if last_delta < 0 or not 0 <= base + last_delta + 1 < 1 << 62:
        return False
    following = struct.pack(">q", base + last_delta + 1)
    found = content.find(following, position + LENGTH_PREFIX_BYTES)
    while found >= 0:
        probe = SegmentScan(end_offset=base + last_delta + 1)
        if _problem_at(memoryview(content), found, probe) is None:
            return True
        found = content.find(following, found + 1)
    return False
