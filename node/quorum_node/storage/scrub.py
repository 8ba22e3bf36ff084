"""Reading again what is on the disk: bits that turned over since it was written and synced.

Owns the comparison: of a segment, whole or as far as it was synced, against the CRC-32C of what was written, or where that is
not known, against the checksums, offsets and epochs of its batches; of quorum-state against its own checksum. Everything
is read from the disk, not from the page cache, and through a descriptor of its own, as a segment's may be closed at any
time. Knows nothing of when that is done, nor of what a failure leads to. Runs on a worker thread beside appends, truncations and deletions.
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
"""Called with the number of bytes that were read; False ends the reading early."""


def _no_pause(size_bytes: int) -> bool:
    return True


def scrub(
    segments: Iterable[Segment], pause: Pause = _no_pause
) -> StorageFailure | DiskFull | None:
    """The first damage found in what these segments hold that was synced, or None.

    A segment that was deleted or cut meanwhile is passed over.
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
    """What is wrong with the first `size_bytes` of the file; None also when the reading was ended early."""
    files = segment.files
    found, read_bytes, rest = 0, 0, b""
    # Read after `synced` was: whatever is synced has its epoch in there.
    offset, epoch_starts = segment.base_offset, list(segment.epoch_starts)
    fd = files.open(segment.path, os.O_RDONLY)
    try:
        files.fadvise_dontneed(fd)
        while read_bytes < size_bytes:
            data = files.read(fd, min(PIECE_BYTES, size_bytes - read_bytes))
            if not data:
                return f"it ends after {read_bytes} bytes, and {size_bytes} were synced"
            read_bytes += len(data)
            if crc is not None:
                found = crc32c(data, found)
            else:  # it was cut since it was opened: what is left has no checksum as a whole
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
        return f"{len(rest)} bytes at its end are no whole batch" if rest else None
    if found != crc:
        return (
            f"the CRC-32C of its first {size_bytes} bytes is {found:08x}, they were written with"
            f" {crc:08x}"
        )
    return None
