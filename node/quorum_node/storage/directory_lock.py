"""One process at a time on a data directory.

The lock is on the directory itself: no file has to be created, which a full disk would refuse. The kernel takes it
back when the process ends, however it ends.
"""

import errno
import fcntl
import os
from pathlib import Path

from quorum_node.storage.errors import WrongDirectory, storage_errors

_NO_LOCKS_HERE = (errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.EOPNOTSUPP)
"""What file systems answer that can't lock a directory, such as NFS."""


def lock_directory(path: Path) -> int:
    """Lock it until the process ends, or the descriptor that is returned is closed; it is made if need be.

    Raises WrongDirectory when another process holds it, StorageFailure, DiskFull.
    """
    with storage_errors(f"open {path}"):
        path.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with storage_errors(f"lock {path}"):
            _lock(descriptor, path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise WrongDirectory(f"another process runs on {path}: stop it first") from error
    except OSError as error:
        if error.errno not in _NO_LOCKS_HERE:
            raise
