"""A lock that one process at a time can hold on an open file or directory.

The kernel releases the lock when the process ends, however it ends. Owns which errors of the kernel
mean "locked by another process" and which mean "locks are not supported". Must not know what is
locked.
"""

import errno
import fcntl

_HELD = (errno.EACCES, errno.EAGAIN)
_NO_LOCKS_HERE = (
    errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP
)  # fmt: skip
"""Errors of file systems that can't lock the object, such as NFS for a directory."""


def try_to_lock(descriptor: int) -> bool:
    """Lock it until the descriptor is closed. False: another process holds the lock. Raises
    OSError.

    Also returns True where the file system has no locks; exclusion is impossible there.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _HELD:
            return False
        if error.errno not in _NO_LOCKS_HERE:
            raise
    return True
