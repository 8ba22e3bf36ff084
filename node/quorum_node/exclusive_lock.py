"""One process at a time: a lock on an open file or directory, which the kernel takes back however the process ends.

Owns which answers of the kernel mean that somebody else holds it, and which that there are no locks here. Must not know what
is locked, nor what is to be said about it.
"""

import errno
import fcntl

_HELD = (errno.EACCES, errno.EAGAIN)
_NO_LOCKS_HERE = (
    errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP
)  # fmt: skip
"""What file systems answer that can't lock such a thing, such as NFS for a directory."""


def try_to_lock(descriptor: int) -> bool:
    """Lock it until the descriptor is closed. False: another process holds it. Raises OSError.

    True also where the file system has no locks: nobody could be kept out there.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _HELD:
            return False
        if error.errno not in _NO_LOCKS_HERE:
            raise
    return True
