"""Where a log ends after a crash: is what can't be read damage, or was it never synced?

Pure. Owns the decision; `docs/explanation/reliability.md` says how it comes about and what stays undecidable.

* Below what is known to be synced everything has to be there: whatever is not is damage.
* Beyond it nobody was told of anything. Its sectors may have arrived in any order, or not at all, and a batch that
  can't be read ends the log, whatever stands behind it.
* Where nothing is known (the log of an older version, on its first start) it has to be guessed. One flipped bit
  explains all: damage. A sector that was never written, or a batch that the file ends in: never synced. Anything else:
  damage.

Reads raw header fields itself, because it must reason about headers that may be damaged.
"""

import struct
from dataclasses import dataclass
from enum import Enum, auto

from crc32c import crc32c

from quorum_node.storage.one_flipped_bit import is_crc_of_one_flipped_bit

_HEADER = struct.Struct(">qiibIhi")
"""base offset, length, leader epoch, magic, CRC, attributes, last offset delta."""
_HEADER_BYTES = 61
_LENGTH_PREFIX_BYTES = 12
_CRC_START = 21
_SECTOR_BYTES = 512
_GUESSED_BYTES = 16 << 20
"""More than this is not guessed to be unsynced where valid batches follow."""


class Verdict(Enum):
    """What a batch that can't be read is."""

    DAMAGE = auto()
    NEVER_SYNCED = auto()
    UNKNOWN = auto()


@dataclass(frozen=True, slots=True)
class KnownSynced:
    """What is known of the synced end before the log is read."""

    proven_offset: int = 0
    """Everything below was synced: by a seal, by quorum-state, by a snapshot."""
    recorded_offset: int | None = None
    """What `synced-end` says; None: nobody wrote it."""
    recorded_epoch: int = -1

    def verdict(self, offset: int, last_epoch: int) -> Verdict:
        """Of the record at `offset`, when the one before it has `last_epoch`."""
        if offset < self.proven_offset:
            return Verdict.DAMAGE
        if self.recorded_offset is None or self.is_outdated(offset, last_epoch):
            return Verdict.UNKNOWN
        return Verdict.DAMAGE if offset < self.recorded_offset else Verdict.NEVER_SYNCED

    def is_outdated(self, end_offset: int, last_epoch: int) -> bool:
        """Whether a log with this end was cut and written by somebody who does not keep `synced-end`."""
        recorded = self.recorded_offset
        return recorded is not None and end_offset < recorded and last_epoch > self.recorded_epoch

    def lacks(self, end_offset: int, last_epoch: int) -> bool:
        """Whether a log that ends there, all of it readable, is shorter than it was when it was synced."""
        recorded = self.recorded_offset
        return (
            recorded is not None
            and end_offset < recorded
            and not self.is_outdated(end_offset, last_epoch)
        )


NOTHING_KNOWN = KnownSynced()


def guess_never_synced(content: bytes, position: int) -> bool:
    """Whether the batch at `position`, which is no valid one, looks as if it was never synced."""
    rest = memoryview(content)[position:]
    if len(rest) < _HEADER_BYTES:
        return True
    if _one_bit_explains(rest):
        return False
    if _has_unwritten_sector(content, position):
        return len(rest) <= _GUESSED_BYTES or not _has_valid_batch_after(content, position)
    _, length, _, magic, _, _, _ = _HEADER.unpack_from(rest, 0)
    incomplete = magic == 2 and length > len(rest) - _LENGTH_PREFIX_BYTES
    return incomplete and not _has_valid_batch_after(content, position)


def _one_bit_explains(rest: memoryview) -> bool:
    """Whether turning one bit back makes a batch of it, whatever its base offset and epoch are."""
    _, length, _, _, crc, _, _ = _HEADER.unpack_from(rest, 0)
    if _has_crc(rest, length, crc) or _has_crc(rest, len(rest) - _LENGTH_PREFIX_BYTES, crc):
        return True  # what its CRC covers is right: the damage is before that
    if any(_has_crc(rest, length ^ (1 << bit), crc) for bit in range(31)):
        return True
    size = length - (_CRC_START - _LENGTH_PREFIX_BYTES)
    if not _fits(rest, length) or length > _GUESSED_BYTES:
        return False  # no batch is that large, and the search takes its time
    found = crc32c(rest[_CRC_START : _CRC_START + size])
    difference = found ^ crc
    return difference.bit_count() == 1 or is_crc_of_one_flipped_bit(difference, size)


def _has_crc(rest: memoryview, length: int, crc: int) -> bool:
    return _fits(rest, length) and crc32c(rest[_CRC_START : _LENGTH_PREFIX_BYTES + length]) == crc


def _fits(rest: memoryview, length: int) -> bool:
    return _HEADER_BYTES - _LENGTH_PREFIX_BYTES <= length <= len(rest) - _LENGTH_PREFIX_BYTES


def _has_unwritten_sector(content: bytes, position: int) -> bool:
    """Zeros from the batch's beginning to the end of its sector, or in all of a later sector of it."""
    following = -(-(position + 1) // _SECTOR_BYTES) * _SECTOR_BYTES
    begins_unwritten = following - position >= _LENGTH_PREFIX_BYTES
    if begins_unwritten and not any(content[position : min(following, len(content))]):
        return True
    end = len(content)
    length = int.from_bytes(content[position + 8 : position + 12], "big")
    if _HEADER_BYTES - _LENGTH_PREFIX_BYTES <= length <= end - position - _LENGTH_PREFIX_BYTES:
        end = position + _LENGTH_PREFIX_BYTES + length
    zeros = bytes(_SECTOR_BYTES)
    for start in range(following, end, _SECTOR_BYTES):
        sector = content[start : min(start + _SECTOR_BYTES, end)]
        if sector == zeros[: len(sector)]:
            return True
    return False


def _has_valid_batch_after(content: bytes, position: int) -> bool:
    """Whether a later whole batch follows in offsets: then the damage is before the tail."""
    base, *_, last_delta = _HEADER.unpack_from(content, position)
    if last_delta < 0 or not 0 <= base + last_delta + 1 < 1 << 62:
        return False
    following = struct.pack(">q", base + last_delta + 1)
    view = memoryview(content)
    found = content.find(following, position + _LENGTH_PREFIX_BYTES)
    while found >= 0:
        rest = view[found:]
        if len(rest) >= _HEADER_BYTES:
            _, length, _, magic, crc, _, _ = _HEADER.unpack_from(rest, 0)
            if magic == 2 and _has_crc(rest, length, crc):
                return True
        found = content.find(following, found + 1)
    return False
