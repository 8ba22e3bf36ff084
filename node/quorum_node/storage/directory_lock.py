"""Locks a data directory for one process.

The lock is on the directory itself, so no file has to be created, which would fail on a full disk.
The kernel releases it when the process ends, however it ends.
"""

import os
from pathlib import Path

from quorum_node.exclusive_lock import try_to_lock
from quorum_node.storage.errors import WrongDirectory, storage_errors


def lock_directory(path: Path) -> int:
    """Lock the directory until the process ends or the returned descriptor is closed. It is created
    if necessary.

    Raises WrongDirectory if another process holds the lock, StorageFailure, DiskFull.
    """
    with storage_errors(f"open {path}"):
        path.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with storage_errors(f"lock {path}"):
            free = try_to_lock(descriptor)
        if not free:
            raise WrongDirectory(f"another process uses {path}: stop it first")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
