"""Scans a log segment after a crash: valid batches, then possibly an incomplete tail.

An invalid batch that was never synced, and so never acknowledged, is truncated together with
everything after it. Otherwise it is damage of possibly acknowledged records: StorageFailure, never
a truncation. `log_end` decides.
Reads raw header fields itself, because headers may be damaged.
"""

from array import array
from dataclasses import dataclass, field

from crc32c import crc32c

from quorum_node.records.batches import (
    CONTROL_FLAG,
    CRC_COVERS_FROM,
    HEADER_BYTES,
    HEADER_START,
    MAGIC,
    MIN_LENGTH,
    PREFIX_BYTES,
)
from quorum_node.storage.errors import StorageFailure
from quorum_node.storage.log_end import (
    NOTHING_KNOWN,
    KnownSynced,
    Verdict,
    guess_never_synced,
)

INDEX_INTERVAL_BYTES = 4096


@dataclass(slots=True)
class SegmentScan:
    """Valid batches of one segment."""

    end_offset: int
    valid_bytes: int = 0
    last_epoch: int = -1
    epoch_starts: list[tuple[int, int]] = field(default_factory=list)
    """(epoch, offset) wherever the epoch differs from that of the batch before."""
    control_batches: list[bytes] = field(default_factory=list)
    control_spans: list[tuple[int, int]] = field(default_factory=list)
    """(position, size in bytes) of every control batch."""
    index_offsets: "array[int]" = field(default_factory=lambda: array("q"))
    index_positions: "array[int]" = field(default_factory=lambda: array("q"))
    torn_bytes: int = 0


def scan_segment(
    content: bytes,
    base_offset: int,
    last_epoch: int,
    name: str,
    synced: KnownSynced = NOTHING_KNOWN,
) -> SegmentScan:
    """Check every batch of a segment that starts at `base_offset` after epoch `last_epoch`.

    `synced`: what is known about the synced end. Raises StorageFailure on damage; an incomplete
    tail is counted in `torn_bytes`.
    """
    scan = SegmentScan(end_offset=base_offset, last_epoch=last_epoch)
    position, size, indexed = 0, len(content), -INDEX_INTERVAL_BYTES
    view = memoryview(content)
    while position < size:
        problem = _problem_at(view, position, scan)
        if problem is not None:
            _check_never_synced(
                content, position, scan, synced, f"{name} is damaged at byte {position}: {problem}"
            )
            scan.torn_bytes = size - position
            break
        base, length, epoch, _, _, attributes, last_delta = HEADER_START.unpack_from(view, position)
        batch_bytes = PREFIX_BYTES + length
        if epoch != scan.last_epoch:
            scan.epoch_starts.append((epoch, base))
            scan.last_epoch = epoch
        if attributes & CONTROL_FLAG:
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


def _check_never_synced(
    content: bytes, position: int, scan: SegmentScan, synced: KnownSynced, problem: str
) -> None:
    """Raise StorageFailure unless the data from `position` on was never synced."""
    verdict = synced.verdict(scan.end_offset, scan.last_epoch)
    if verdict is Verdict.DAMAGE:
        raise StorageFailure(
            f"{problem}; offset {scan.end_offset} was synced, so acknowledged records may be lost"
        )
    if verdict is Verdict.UNKNOWN and not guess_never_synced(content, position):
        raise StorageFailure(problem)


def _problem_at(view: memoryview, position: int, scan: SegmentScan) -> str | None:
    """Why there is no valid batch at `position` that continues the scan, or None."""
    remaining = len(view) - position
    if remaining < HEADER_BYTES:
        return f"{remaining} bytes are too few for a batch header"
    base, length, epoch, magic, crc, _, last_delta = HEADER_START.unpack_from(view, position)
    if length < MIN_LENGTH:
        return f"batch length {length}"
    if length > remaining - PREFIX_BYTES:
        return f"batch length {length} exceeds the {remaining} bytes left"
    if magic != MAGIC:
        return f"magic {magic}"
    end = position + PREFIX_BYTES + length
    found = crc32c(view[position + CRC_COVERS_FROM : end])
    if found != crc:
        return f"CRC-32C is {found:08x}, the header says {crc:08x}"
    if base != scan.end_offset:
        return f"base offset {base} where {scan.end_offset} must follow"
    if last_delta < 0 or epoch < max(scan.last_epoch, 0):
        return f"last offset delta {last_delta}, epoch {epoch} after epoch {scan.last_epoch}"
    return None
