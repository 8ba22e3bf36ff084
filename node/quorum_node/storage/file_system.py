"""The POSIX calls of storage, as an object that can be replaced.

Owns only the signatures of the calls. All of storage takes a `FileSystem`. A process uses `POSIX`,
which calls `os`; the simulation uses a file system in memory that loses unsynced data.
Storage relies on these guarantees only:
* Bytes and the size of a file are durable after `fsync` or `fdatasync`. Without it they may become
durable in any order.
* Names are durable after `fsync` of their directory. Without it they become durable in the order of
the operations, as in every file system with a journal. A rename is atomic.
"""

import os
from pathlib import Path
from typing import Protocol


class FileSystem(Protocol):
    """The calls. Each may raise OSError. Descriptors belong to the file system that opened them."""

    def open(self, path: Path, flags: int, mode: int = 0o640) -> int: ...

    def close(self, fd: int) -> None: ...

    def read(self, fd: int, size: int) -> bytes: ...

    def pread(self, fd: int, size: int, position: int) -> bytes: ...

    def write(self, fd: int, data: bytes | memoryview) -> int: ...

    def pwrite(self, fd: int, data: bytes | memoryview, position: int) -> int: ...

    def seek(self, fd: int, position: int) -> None:
        """Set the position, counted from the beginning of the file."""

    def ftruncate(self, fd: int, size: int) -> None: ...

    def fsync(self, fd: int) -> None: ...

    def fdatasync(self, fd: int) -> None: ...

    def fadvise_dontneed(self, fd: int) -> None:
        """Evict all clean pages of the file from the cache, so that the next read is from the disk."""

    def size_bytes(self, fd: int) -> int: ...

    def size_of(self, path: Path) -> int:
        """Size of a file by its name. Raises FileNotFoundError."""

    def modified_ms(self, fd: int) -> int:
        """When the content of an open file last changed, in milliseconds since 1970."""

    def set_modified_ms(self, fd: int, modified_ms: int) -> None:
        """Set that time."""

    def exists(self, path: Path) -> bool: ...

    def names(self, directory: Path) -> list[str]:
        """Names of files and directories, in no order."""

    def rename(self, source: Path, target: Path) -> None: ...

    def unlink(self, path: Path, *, missing_ok: bool = False) -> None: ...

    def make_directories(self, path: Path) -> None:
        """Create a directory with its parents, unless it exists."""

    def remove_directory(self, path: Path) -> None:
        """Remove an empty directory."""


class PosixFileSystem:
    """The real file system. Each call is looked up in `os` when it is made."""

    __slots__ = ()

    def open(self, path: Path, flags: int, mode: int = 0o640) -> int:
        """Open a file. The descriptor is not inherited by other programs."""
        return os.open(path, flags | os.O_CLOEXEC, mode)

    def close(self, fd: int) -> None:
        """Close a descriptor, without syncing."""
        os.close(fd)

    def read(self, fd: int, size: int) -> bytes:
        """Read from the present position."""
        return os.read(fd, size)

    def pread(self, fd: int, size: int, position: int) -> bytes:
        """Read at a position; the result may be shorter than `size`."""
        return os.pread(fd, size, position)

    def write(self, fd: int, data: bytes | memoryview) -> int:
        """Write; returns the number of bytes that were written."""
        return os.write(fd, data)

    def pwrite(self, fd: int, data: bytes | memoryview, position: int) -> int:
        """Write; returns the number of bytes that were written."""
        return os.pwrite(fd, data, position)

    def seek(self, fd: int, position: int) -> None:
        """Set the position, counted from the beginning of the file."""
        os.lseek(fd, position, os.SEEK_SET)

    def ftruncate(self, fd: int, size: int) -> None:
        """Truncate the file, or extend it with zeros."""
        os.ftruncate(fd, size)

    def fsync(self, fd: int) -> None:
        """Make a file or a directory durable."""
        os.fsync(fd)

    def fdatasync(self, fd: int) -> None:
        """Make the bytes and the size of a file durable, but not its times."""
        os.fdatasync(fd)

    def fadvise_dontneed(self, fd: int) -> None:
        """Evict all clean pages of the file from the cache."""
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)

    def size_bytes(self, fd: int) -> int:
        """Size of an open file."""
        return os.fstat(fd).st_size

    def size_of(self, path: Path) -> int:
        """Size of a file by its name."""
        return os.stat(path).st_size

    def modified_ms(self, fd: int) -> int:
        """When the content of an open file last changed, in milliseconds since 1970."""
        return os.fstat(fd).st_mtime_ns // 1_000_000

    def set_modified_ms(self, fd: int, modified_ms: int) -> None:
        """Set that time, and the time of the last access."""
        os.utime(fd, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def exists(self, path: Path) -> bool:
        """Whether the path exists; False also if a parent is missing."""
        return path.exists()

    def names(self, directory: Path) -> list[str]:
        """Names of files and directories, in no order."""
        return os.listdir(directory)

    def rename(self, source: Path, target: Path) -> None:
        """Rename a file, and replace the target if it exists."""
        os.rename(source, target)

    def unlink(self, path: Path, *, missing_ok: bool = False) -> None:
        """Remove a name."""
        path.unlink(missing_ok)

    def make_directories(self, path: Path) -> None:
        """Create a directory with its parents, unless it exists."""
        path.mkdir(parents=True, exist_ok=True)

    def remove_directory(self, path: Path) -> None:
        """Remove an empty directory."""
        path.rmdir()


POSIX: FileSystem = PosixFileSystem()
