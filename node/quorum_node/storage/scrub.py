"""Reading what was not read at open: every sealed segment against the checksum of its seal.

Owns the comparison and its pace. Knows nothing of what a failure leads to. Runs on a worker thread, once.
"""

import os
from collections.abc import Callable, Iterable

from crc32c import crc32c

from quorum_node.storage.errors import DiskFull, StorageFailure, classify
from quorum_node.storage.segment import Segment

_PIECE_BYTES = 1 << 20


def scrub(
    segments: Iterable[Segment], pause: Callable[[], bool] = lambda: True
) -> StorageFailure | DiskFull | None:
    """The first damage found, or None. `pause` is called between pieces; False ends it early.

    A segment that was deleted meanwhile, or cut, is passed over: its seal went first.
    """
    for segment in segments:
        expected = segment.sealed_crc
        try:
            found = _crc_of(segment, pause)
        except FileNotFoundError:
            continue
        except OSError as error:
            return classify(error, f"read {segment.path}")
        if found is None:
            return None
        untouched = segment.closed and segment.sealed_crc == expected
        if found != expected and untouched and segment.files.exists(segment.path):
            return StorageFailure(
                f"{segment.path} is damaged: the CRC-32C of all of it is {found:08x}, it was sealed"
                f" with {expected or 0:08x}"
            )
    return None


def _crc_of(segment: Segment, pause: Callable[[], bool]) -> int | None:
    """Through a descriptor of its own: the segment's may be closed at any time."""
    crc = 0
    files = segment.files
    fd = files.open(segment.path, os.O_RDONLY)
    try:
        while data := files.read(fd, _PIECE_BYTES):
            crc = crc32c(data, crc)
            if not pause():
                return None
    finally:
        files.close(fd)
    return crc
