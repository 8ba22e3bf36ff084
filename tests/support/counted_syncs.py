"""Syncs of files and directories, counted by thread."""

import threading
from collections import Counter

from quorum_node.storage.file_system import PosixFileSystem


class CountedSyncs(PosixFileSystem):
    """Create it on the loop's thread."""

    def __init__(self) -> None:
        self._loop_thread = threading.get_ident()
        self._lock = threading.Lock()
        self._counts = Counter[bool]()

    @property
    def in_loop(self) -> int:
        """Syncs for which the loop has waited."""
        return self._counts[True]

    @property
    def in_threads(self) -> int:
        """Syncs on other threads."""
        return self._counts[False]

    def fsync(self, fd: int) -> None:
        self._count()
        super().fsync(fd)

    def fdatasync(self, fd: int) -> None:
        self._count()
        super().fdatasync(fd)

    def _count(self) -> None:
        with self._lock:
            self._counts[threading.get_ident() == self._loop_thread] += 1
