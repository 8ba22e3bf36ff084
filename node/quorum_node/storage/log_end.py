"""Decides after a crash whether an unreadable part of the log is damage, or was never synced.

Pure. Owns the decision; `docs/explanation/durability.md` explains its reasons and limits.
* Below the known synced end everything has to exist: anything unreadable is damage.
* Beyond it nothing was acknowledged. Sectors may have been written in any order, or not at all. An
unreadable batch ends the log, whatever follows it.
* Without a known synced end (the log of an older version, at its first start) a heuristic decides.
If a single flipped bit explains the state, it is damage. If a sector was never written, or the file
ends within the batch, it was never synced. Anything else is damage.
Reads raw header fields itself, because headers may be damaged.
"""

from dataclasses import dataclass
from enum import Enum, auto

from crc32c import crc32c

from quorum_node.records.batches import (
    CRC_COVERS_FROM,
    HEADER_BYTES,
    HEADER_START,
    MAGIC,
    MIN_LENGTH,
    PREFIX_BYTES,
)
from quorum_node.storage.one_flipped_bit import is_crc_of_one_flipped_bit

_SECTOR_BYTES = 512
_GUESSED_BYTES = 16 << 20
"""Up to this size data is assumed to be unsynced although valid batches follow."""


class Verdict(Enum):
    """Classification of an unreadable batch."""

    DAMAGE = auto()
    NEVER_SYNCED = auto()
    UNKNOWN = auto()


@dataclass(frozen=True, slots=True)
class KnownSynced:
    """What is known about the synced end before the log is read."""

    proven_offset: int = 0
    """Everything below it was synced, by a seal, quorum-state, or a snapshot."""
    recorded_offset: int | None = None
    """Content of `synced-end`; None: the file does not exist."""
    recorded_epoch: int = -1

    def verdict(self, offset: int, last_epoch: int) -> Verdict:
        """For the record at `offset`, when the record before it has `last_epoch`."""
        if offset < self.proven_offset:
            return Verdict.DAMAGE
        if self.recorded_offset is None or self.is_outdated(offset, last_epoch):
            return Verdict.UNKNOWN
        return Verdict.DAMAGE if offset < self.recorded_offset else Verdict.NEVER_SYNCED

    def is_outdated(self, end_offset: int, last_epoch: int) -> bool:
        """Whether a log with this end was truncated and written by software that does not maintain
        `synced-end`.
        """
        recorded = self.recorded_offset
        return recorded is not None and end_offset < recorded and last_epoch > self.recorded_epoch

    def lacks(self, end_offset: int, last_epoch: int) -> bool:
        """Whether a fully readable log with this end is shorter than its synced end."""
        recorded = self.recorded_offset
        return (
            recorded is not None
            and end_offset < recorded
            and not self.is_outdated(end_offset, last_epoch)
        )


NOTHING_KNOWN = KnownSynced()


def guess_never_synced(content: bytes, position: int) -> bool:
    """Whether the invalid batch at `position` looks as if it was never synced."""
    rest = memoryview(content)[position:]
    if len(rest) < HEADER_BYTES:
        return True
    if _one_bit_explains(rest):
        return False
    if _has_unwritten_sector(content, position):
        return len(rest) <= _GUESSED_BYTES or not _has_valid_batch_after(content, position)
    _, length, _, magic, _, _, _ = HEADER_START.unpack_from(rest, 0)
    incomplete = magic == MAGIC and length > len(rest) - PREFIX_BYTES
    return incomplete and not _has_valid_batch_after(content, position)


def _one_bit_explains(rest: memoryview) -> bool:
    """Whether reverting a single bit makes it valid, whatever its base offset and epoch are."""
    _, length, _, _, crc, _, _ = HEADER_START.unpack_from(rest, 0)
    if _has_crc(rest, length, crc) or _has_crc(rest, len(rest) - PREFIX_BYTES, crc):
        return True  # the content covered by the CRC is intact: the damage is before it
    if any(_has_crc(rest, length ^ (1 << bit), crc) for bit in range(31)):
        return True
    size = length - (CRC_COVERS_FROM - PREFIX_BYTES)
    if not _fits(rest, length) or length > _GUESSED_BYTES:
        return False  # no batch is that large, and the search is slow
    found = crc32c(rest[CRC_COVERS_FROM : CRC_COVERS_FROM + size])
    difference = found ^ crc
    return difference.bit_count() == 1 or is_crc_of_one_flipped_bit(difference, size)


def _has_crc(rest: memoryview, length: int, crc: int) -> bool:
    return _fits(rest, length) and crc32c(rest[CRC_COVERS_FROM : PREFIX_BYTES + length]) == crc


def _fits(rest: memoryview, length: int) -> bool:
    return MIN_LENGTH <= length <= len(rest) - PREFIX_BYTES


def _has_unwritten_sector(content: bytes, position: int) -> bool:
    """Zeros from the batch's start to the end of its sector, or in all of a later sector of it."""
    following = -(-(position + 1) // _SECTOR_BYTES) * _SECTOR_BYTES
    begins_unwritten = following - position >= PREFIX_BYTES
    if begins_unwritten and not any(content[position : min(following, len(content))]):
        return True
    end = len(content)
    length = int.from_bytes(content[position + 8 : position + 12], "big")
    if MIN_LENGTH <= length <= end - position - PREFIX_BYTES:
        end = position + PREFIX_BYTES + length
    zeros = bytes(_SECTOR_BYTES)
    for start in range(following, end, _SECTOR_BYTES):
        sector = content[start : min(start + _SECTOR_BYTES, end)]
        if sector == zeros[: len(sector)]:
            return True
    return False


def _has_valid_batch_after(content: bytes, position: int) -> bool:
    """Whether a later valid batch continues the offsets: then the damage is not in the tail."""
    base, *_, last_delta = HEADER_START.unpack_from(content, position)
    if last_delta < 0 or not 0 <= base + last_delta + 1 < 1 << 62:
        return False
    following = (base + last_delta + 1).to_bytes(8, "big")
    view = memoryview(content)
    found = content.find(following, position + PREFIX_BYTES)
    while found >= 0:
        rest = view[found:]
        if len(rest) >= HEADER_BYTES:
            _, length, _, magic, crc, _, _ = HEADER_START.unpack_from(rest, 0)
            if magic == MAGIC and _has_crc(rest, length, crc):
                return True
        found = content.find(following, found + 1)
    return False
