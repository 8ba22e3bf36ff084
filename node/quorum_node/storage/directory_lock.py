"""One process at a time on a data directory.

The lock is on the directory itself: no file has to be created, which a full disk would refuse. The kernel takes it
back when the process ends, however it ends.
"""

import os
from pathlib import Path

from quorum_node.exclusive_lock import try_to_lock
from quorum_node.storage.errors import WrongDirectory, storage_errors


def lock_directory(path: Path) -> int:
    """Lock it until the process ends, or the descriptor that is returned is closed; it is made if need be.

    Raises WrongDirectory when another process holds it, StorageFailure, DiskFull.
    """
    with storage_errors(f"open {path}"):
        path.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with storage_errors(f"lock {path}"):
            free = try_to_lock(descriptor)
        if not free:
            raise WrongDirectory(f"another process runs on {path}: stop it first")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
