"""Durable replacement of a small file: temp file, fsync, rename, fsync of the directory.

After `replace_file` returned the new content survives a crash; killed at any instant, either the
old or the new content is there, never a mixture (K595-03).
"""

import os
from pathlib import Path

from quorum_node.storage.errors import storage_errors

TEMP_SUFFIX = ".tmp"


def replace_file(path: Path, content: bytes) -> None:
    """Write `content` to `path` durably. Raises StorageFailure or DiskFull."""
    temp = path.with_name(path.name + TEMP_SUFFIX)
    with storage_errors(f"replace {path}"):
        descriptor = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640)
        try:
            write_fully(descriptor, content)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(temp, path)
        sync_directory(path.parent)


def write_fully(descriptor: int, content: bytes | memoryview) -> None:
    """os.write until nothing is left; a short write is how a full disk first shows."""
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def sync_directory(path: Path) -> None:
    """fsync a directory, so that names created or renamed in it are durable. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_file(path: Path) -> bytes | None:
    """The content, or None when there is no such file. Raises StorageFailure."""
    with storage_errors(f"read {path}"):
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None
