"""A file system whose writes and syncs fail from a moment on."""

import os

from quorum_node.storage.file_system import PosixFileSystem


class FailingFiles(PosixFileSystem):
    """Every write and sync fails with `error`, once it is set."""

    error: int | None = None

    def _check(self) -> None:
        if self.error is not None:
            raise OSError(self.error, os.strerror(self.error))

    def write(self, fd: int, data: bytes | memoryview) -> int:
        """See `FileSystem`."""
        self._check()
        return super().write(fd, data)

    def pwrite(self, fd: int, data: bytes | memoryview, position: int) -> int:
        """See `FileSystem`."""
        self._check()
        return super().pwrite(fd, data, position)

    def fsync(self, fd: int) -> None:
        """See `FileSystem`."""
        self._check()
        super().fsync(fd)

    def fdatasync(self, fd: int) -> None:
        """See `FileSystem`."""
        self._check()
        super().fdatasync(fd)
