"""Durable replacement of a small file: temporary file, fsync, rename, fsync of the directory.

After `replace_file` has returned the new content survives a crash. A kill at any instant leaves
either the old or the new content, never a mixture (K595-03).
"""

import os
from pathlib import Path

from quorum_node.storage.errors import SyncFailed, storage_errors
from quorum_node.storage.file_system import POSIX, FileSystem

TEMP_SUFFIX = ".tmp"
_PIECE_BYTES = 1 << 20


def replace_file(path: Path, content: bytes, files: FileSystem = POSIX) -> None:
    """Write `content` to `path` durably. Raises StorageFailure or DiskFull."""
    temp = path.with_name(path.name + TEMP_SUFFIX)
    with storage_errors(f"replace {path}"):
        descriptor = files.open(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            write_fully(descriptor, content, files)
            sync_file(descriptor, files)
        finally:
            files.close(descriptor)
        files.rename(temp, path)
        sync_directory(path.parent, files)


def write_fully(descriptor: int, content: bytes | memoryview, files: FileSystem = POSIX) -> None:
    """Write until nothing is left. A short write is often the first sign of a full disk."""
    view = memoryview(content)
    while view:
        view = view[files.write(descriptor, view) :]


def write_at(
    descriptor: int, content: bytes | memoryview, position: int, files: FileSystem = POSIX
) -> None:
    """As `write_fully`, at a position."""
    written = files.pwrite(descriptor, content, position) if content else 0
    while written < len(content):
        rest = memoryview(content)[written:]
        written += files.pwrite(descriptor, rest, position + written)


def read_at(descriptor: int, size: int, position: int, files: FileSystem = POSIX) -> bytes:
    """Read up to `size` bytes at a position; fewer at the end of the file."""
    content = files.pread(descriptor, size, position)
    while len(content) < size:
        more = files.pread(descriptor, size - len(content), position + len(content))
        if not more:
            break
        content += more
    return content


def sync_file(descriptor: int, files: FileSystem = POSIX) -> None:
    """fsync. Raises SyncFailed."""
    try:
        files.fsync(descriptor)
    except OSError as error:
        raise SyncFailed(error.errno, error.strerror) from error


def sync_data(descriptor: int, files: FileSystem = POSIX) -> None:
    """fdatasync: bytes and size. Raises SyncFailed."""
    try:
        files.fdatasync(descriptor)
    except OSError as error:
        raise SyncFailed(error.errno, error.strerror) from error


def drop_cached(descriptor: int, files: FileSystem = POSIX) -> None:
    """Evict a file from the page cache, so that the next read is from the disk. Raises OSError,
    SyncFailed.

    After a failed sync of an earlier process the cache can have clean pages that are not on the
    disk.
    """
    sync_data(descriptor, files)  # only clean pages are evicted
    files.fadvise_dontneed(descriptor)


def sync_directory(path: Path, files: FileSystem = POSIX) -> None:
    """fsync a directory, so that names created or renamed in it are durable. Raises OSError, SyncFailed."""
    descriptor = files.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync_file(descriptor, files)
    finally:
        files.close(descriptor)


def read_file(path: Path, files: FileSystem = POSIX, *, from_disk: bool = False) -> bytes | None:
    """The content, or None if the file does not exist.

    `from_disk`: bypass the page cache. Raises StorageFailure.
    """
    with storage_errors(f"read {path}"):
        try:
            descriptor = files.open(path, os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            if from_disk:
                files.fadvise_dontneed(descriptor)
            return b"".join(iter(lambda: files.read(descriptor, _PIECE_BYTES), b""))
        finally:
            files.close(descriptor)
