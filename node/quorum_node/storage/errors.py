"""Storage errors. Raised by storage, turned into events by the driver.

A StorageFailure is final: nothing is retried after it, in particular no fsync, because the kernel
may have dropped the dirty pages that it failed to write. DiskFull does not mean a failed disk. But
if a sync met it, it is not retried either: the process ends, and unsynced data counts as lost.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType


class StorageFailure(Exception):
    """EIO, EROFS, a failed fsync, or damage found in the files. Final for this incarnation."""


class OutOfResources(StorageFailure):
    """EMFILE, ENFILE or ENOMEM: the process or its host lacks descriptors or memory, and the disk did not fail.

    As final as any StorageFailure: nothing is retried or acknowledged, and the process ends. But the next process uses the
    same directory under the same identity, so no failure latch is written, and no log directory counts as failed.
    """


class DiskFull(Exception):
    """ENOSPC or EDQUOT: nothing was appended; earlier durable data is intact."""

    def __init__(self, message: str, *, at_sync: bool = False) -> None:
        super().__init__(message)
        self.at_sync = at_sync
        """A sync failed: its data may not be on the disk, although it can be read.

        Code that catches this error to continue without the written data must not continue then:
        the process has to end.
        """


class WrongDirectory(Exception):
    """The directory is intact but belongs to another node or cluster. Nothing was written."""


class SyncFailed(OSError):
    """Raised inside storage for a failed fsync or fdatasync; `errno` is that of the sync."""


_FULL = (errno.ENOSPC, errno.EDQUOT)
_LACKING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def classify(error: OSError, action: str) -> StorageFailure | DiskFull:
    """The storage error for an OSError during `action` (a phrase such as 'append to X').

    A failed sync is a failed disk unless the disk is full: whatever its errno, unsynced pages may be lost.
    """
    name = errno.errorcode.get(error.errno or 0, "unknown error")
    text = f"cannot {action}: {name} ({error.strerror})"
    if error.errno in _FULL:
        return DiskFull(text, at_sync=isinstance(error, SyncFailed))
    if error.errno in _LACKING and not isinstance(error, SyncFailed):
        return OutOfResources(text)
    return StorageFailure(text)


def check_syncs(failure: StorageFailure | DiskFull | None) -> None:
    """Raise the error of an earlier sync.

    The kernel reports an error to only one sync of a file, so the success of another one proves
    nothing.
    """
    if isinstance(failure, StorageFailure) or (failure is not None and failure.at_sync):
        raise again(failure)


def again(error: StorageFailure | DiskFull) -> StorageFailure | DiskFull:
    """A new error of the same kind, to be raised again."""
    if isinstance(error, DiskFull):
        return DiskFull(str(error), at_sync=error.at_sync)
    kind = OutOfResources if isinstance(error, OutOfResources) else StorageFailure
    return kind(str(error))


class storage_errors:  # noqa: N801 - used like a function
    """`with storage_errors("replace X")`: turns any OSError inside into a StorageFailure or DiskFull.

    A class, as every save of quorum-state uses it: a generator is several times slower.
    """

    __slots__ = ("_action",)

    def __init__(self, action: str) -> None:
        self._action = action

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: object, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, OSError):
            raise classify(error, self._action) from error


@contextmanager
def unless_full() -> Iterator[None]:
    """Ignore a full disk, where the data inside can be written later. A failed sync is still raised."""
    try:
        yield
    except DiskFull as error:
        if error.at_sync:
            raise
