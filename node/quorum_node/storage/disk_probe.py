"""Disk probe: a write and an fsync of one small file.

For a replica that has nothing to write: otherwise a failed disk would go unnoticed until the next
write.
"""

import os
from pathlib import Path

from quorum_node.storage.atomic_file import write_fully
from quorum_node.storage.errors import storage_errors
from quorum_node.storage.file_system import POSIX, FileSystem

FILE_NAME = "disk-probe.tmp"


def probe(directory: Path, files: FileSystem = POSIX) -> None:
    """Write and sync a small file. Blocks. Raises StorageFailure, or DiskFull (the disk itself works)."""
    path = directory / FILE_NAME
    with storage_errors(f"write and sync {path}"):
        descriptor = files.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            write_fully(descriptor, b"probe\n", files)
            files.fsync(descriptor)
        finally:
            files.close(descriptor)
