"""The ways in which the disk refuses. Raised by storage, turned into events by the driver.

A StorageFailure is final: nothing is retried after it, least of all an fsync, because the kernel
may have dropped the dirty pages it failed to write. DiskFull is not a failed disk.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager


class StorageFailure(Exception):
    """EIO, EROFS, a failed fsync, or damage found in the files. Final for this incarnation."""


class DiskFull(Exception):
    """ENOSPC or EDQUOT: nothing was appended; what was durable before still is."""


class WrongDirectory(Exception):
    """The directory is healthy but belongs to another node or cluster; nothing was written."""


_FULL = (errno.ENOSPC, errno.EDQUOT)


def classify(error: OSError, action: str) -> StorageFailure | DiskFull:
    """The storage error for an OSError met during `action` (a phrase such as 'append to X')."""
    name = errno.errorcode.get(error.errno or 0, "unknown error")
    text = f"cannot {action}: {name} ({error.strerror})"
    return DiskFull(text) if error.errno in _FULL else StorageFailure(text)


@contextmanager
def storage_errors(action: str) -> Iterator[None]:
    """Turn any OSError inside into a StorageFailure or DiskFull."""
    try:
        yield
    except OSError as error:
        raise classify(error, action) from error
