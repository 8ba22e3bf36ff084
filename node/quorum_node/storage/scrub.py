"""Scrubbing: reads synced data from the disk again to find flipped bits.

Owns the comparison. A segment, or its synced part, is compared with the CRC-32C of the written data
or, if that is unknown, with the checksums, offsets and epochs of its batches. quorum-state is
compared with its own checksum. Data is read from the disk, not from the page cache, through
separate descriptors, as a segment may be closed at any time. Must not know when it runs, nor the
consequences of a failure. Runs on a worker thread concurrently with appends, truncations and
deletions.
"""

import os
from collections.abc import Callable, Iterable

from crc32c import crc32c

from quorum_node.records.batches import CorruptBatch, split_batches
from quorum_node.storage.checked_read import misplaced
from quorum_node.storage.errors import DiskFull, StorageFailure, classify
from quorum_node.storage.segment import Segment

PIECE_BYTES = 256 << 10
Pause = Callable[[int], bool]
"""Called with the number of bytes that were read; False ends the scrub early."""


def _no_pause(size_bytes: int) -> bool:
    return True


def scrub(
    segments: Iterable[Segment], pause: Pause = _no_pause
) -> StorageFailure | DiskFull | None:
    """The first damage in the synced part of these segments, or None.

    Segments that were deleted or truncated meanwhile are skipped.
    """
    for segment in segments:
        synced = segment.synced
        if synced is None or synced.size_bytes == 0:
            continue
        try:
            problem = _problem_of(segment, synced.size_bytes, synced.crc, pause)
        except FileNotFoundError:
            continue
        except OSError as error:
            return classify(error, f"read {segment.path}")
        untouched = synced.cuts == segment.cuts and segment.files.exists(segment.path)
        if problem is not None and untouched:
            return StorageFailure(f"{segment.path} is damaged: {problem}")
    return None


def _problem_of(segment: Segment, size_bytes: int, crc: int | None, pause: Pause) -> str | None:
    """Why the first `size_bytes` of the file are damaged; None also if the scrub was ended early."""
    files = segment.files
    found, read_bytes, rest = 0, 0, b""
    # Read after `synced`: so it contains the epochs of all synced records.
    offset, epoch_starts = segment.base_offset, list(segment.epoch_starts)
    fd = files.open(segment.path, os.O_RDONLY)
    try:
        files.fadvise_dontneed(fd)
        while read_bytes < size_bytes:
            data = files.read(fd, min(PIECE_BYTES, size_bytes - read_bytes))
            if not data:
                return f"the file ends after {read_bytes} bytes, but {size_bytes} were synced"
            read_bytes += len(data)
            if crc is not None:
                found = crc32c(data, found)
            else:  # truncated since it was opened: there is no checksum of the remaining file
                try:
                    batches, trailing = split_batches(rest + data)
                except CorruptBatch as error:
                    return f"byte {read_bytes - len(rest + data) + error.position}: {error}"
                problem = misplaced(batches, offset, epoch_starts)
                if problem is not None:
                    return problem
                offset = batches[-1].header.end_offset if batches else offset
                rest = (rest + data)[len(rest + data) - trailing :]
            if not pause(len(data)):
                return None
    finally:
        files.close(fd)
    if crc is None:
        return f"{len(rest)} bytes at its end are not a whole batch" if rest else None
    if found != crc:
        return f"the CRC-32C of its first {size_bytes} bytes is {found:08x}, but it was written with {crc:08x}"
    return None
