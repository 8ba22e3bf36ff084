"""Writes one local snapshot into a temporary file; its rename completes it.

Owns the unfinished file. Must not know when a snapshot is due or its content.
A kill at any instant leaves either no snapshot of that id or a complete one: content, fsync,
rename, fsync of the directory. Unfinished files are removed at the next start. Runs on a worker
thread.
"""

import os
from collections.abc import Callable
from pathlib import Path

from crc32c import crc32c

from quorum_node.records.snapshot_format import SnapshotReader
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.storage.atomic_file import sync_data, sync_directory, sync_file, write_fully
from quorum_node.storage.errors import storage_errors
from quorum_node.storage.file_system import POSIX, FileSystem

WRITING_SUFFIX = ".writing"
_WRITE_BACK_BYTES = 4 << 20
"""Written to the disk in parts, so that the last sync does not delay syncs of the log."""


class SnapshotWriter:
    """`append` raw batches in order, then `freeze` or `abort`. Raises StorageFailure or DiskFull."""

    def __init__(
        self,
        directory: Path,
        id: SnapshotId,
        frozen: Callable[[SnapshotId, int, int], None],
        files: FileSystem = POSIX,
    ) -> None:
        self._files = files
        self.id = id
        self.size_bytes = 0
        self._checksum = 0
        self._frozen = frozen
        self._check = SnapshotReader(id)
        self._path = directory / (id.file_name + WRITING_SUFFIX)
        self._unsynced_bytes = 0
        self._fd = -1
        with storage_errors(f"create {self._path}"):
            self._fd = files.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)

    def append(self, data: bytes) -> None:
        """Append whole batches that continue the ones before. Raises CorruptSnapshot if they don't: a bug."""
        self._check.feed(data)
        with storage_errors(f"write {self._path}"):
            write_fully(self._fd, data, self._files)
            self.size_bytes += len(data)
            self._checksum = crc32c(data, self._checksum)
            self._unsynced_bytes += len(data)
            if self._unsynced_bytes >= _WRITE_BACK_BYTES:
                sync_data(self._fd, self._files)
                self._unsynced_bytes = 0

    def freeze(self) -> None:
        """Make it durable and complete it by the rename."""
        self._check.finish()
        final = self._path.with_name(self.id.file_name)
        with storage_errors(f"finish {self._path}"):
            sync_file(self._fd, self._files)
            self._close()
            self._files.rename(self._path, final)
            sync_directory(final.parent, self._files)
        self._frozen(self.id, self.size_bytes, self._checksum)

    def abort(self) -> None:
        """Remove the file; if that fails it is removed at the next start."""
        self._close()
        try:
            self._files.unlink(self._path, missing_ok=True)
        except OSError:
            return

    def _close(self) -> None:
        if self._fd >= 0:
            self._files.close(self._fd)
            self._fd = -1
