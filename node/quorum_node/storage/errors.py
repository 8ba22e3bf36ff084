"""The ways in which the disk refuses. Raised by storage, turned into events by the driver.

A StorageFailure is final: nothing is retried after it, least of all an fsync, because the kernel
may have dropped the dirty pages it failed to write. DiskFull is not a failed disk, but a sync that met it
is as little retried: the process ends, and what was not synced counts as lost.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType


class StorageFailure(Exception):
    """EIO, EROFS, a failed fsync, or damage found in the files. Final for this incarnation."""


class DiskFull(Exception):
    """ENOSPC or EDQUOT: nothing was appended; what was durable before still is."""

    def __init__(self, message: str, *, at_sync: bool = False) -> None:
        super().__init__(message)
        self.at_sync = at_sync
        """A sync met it: what it was to make durable may be on no disk although it can be read. Whoever
        catches this to go on without what was written must not go on then: the process ends."""


class WrongDirectory(Exception):
    """The directory is healthy but belongs to another node or cluster; nothing was written."""


class SyncFailed(OSError):
    """What a failed fsync or fdatasync raises inside storage; `errno` is the sync's."""


_FULL = (errno.ENOSPC, errno.EDQUOT)


def classify(error: OSError, action: str) -> StorageFailure | DiskFull:
    """The storage error for an OSError met during `action` (a phrase such as 'append to X')."""
    name = errno.errorcode.get(error.errno or 0, "unknown error")
    text = f"cannot {action}: {name} ({error.strerror})"
    if error.errno in _FULL:
        return DiskFull(text, at_sync=isinstance(error, SyncFailed))
    return StorageFailure(text)


def check_syncs(failure: StorageFailure | DiskFull | None) -> None:
    """Raise what a sync before may have failed with: the kernel reports an error to one sync of a file, so success of another proves nothing."""
    if isinstance(failure, StorageFailure) or (failure is not None and failure.at_sync):
        raise again(failure)


def again(error: StorageFailure | DiskFull) -> StorageFailure | DiskFull:
    """An error of the same kind, to raise another time."""
    if isinstance(error, DiskFull):
        return DiskFull(str(error), at_sync=error.at_sync)
    return StorageFailure(str(error))


class storage_errors:  # noqa: N801 - used like a function
    """`with storage_errors("replace X")`: turns any OSError inside into a StorageFailure or DiskFull.

    A class, as every save of quorum-state passes here: a generator costs several times as much.
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
    """Go on when the disk is full, and what is written inside can be written later. A failed sync is no such case."""
    try:
        yield
    except DiskFull as error:
        if error.at_sync:
            raise
