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
    """Every call may raise OSError. Descriptors belong to the file system that opened them."""

    def open(self, path: Path, flags: int, mode: int = 0o640) -> int: ...

    def close(self, fd: int) -> None: ...

    def read(self, fd: int, size: int) -> bytes: ...

    def pread(self, fd: int, size: int, position: int) -> bytes: ...

    def write(self, fd: int, data: bytes | memoryview) -> int: ...

    def pwrite(self, fd: int, data: bytes | memoryview, position: int) -> int: ...

    def seek(self, fd: int, position: int) -> None:
        """From the beginning of the file."""

    def ftruncate(self, fd: int, size: int) -> None: ...

    def fsync(self, fd: int) -> None: ...

    def fdatasync(self, fd: int) -> None: ...

    def fadvise_dontneed(self, fd: int) -> None:
        """Evict all clean pages of the file from the cache: the next read is from the disk."""

    def size_bytes(self, fd: int) -> int: ...

    def size_of(self, path: Path) -> int:
        """Raises FileNotFoundError."""

    def exists(self, path: Path) -> bool: ...

    def names(self, directory: Path) -> list[str]:
        """In no order."""

    def rename(self, source: Path, target: Path) -> None: ...

    def unlink(self, path: Path, *, missing_ok: bool = False) -> None: ...

    def make_directories(self, path: Path) -> None:
        """With its parents; nothing happens when it is there."""

    def remove_directory(self, path: Path) -> None:
        """An empty one."""


class PosixFileSystem:
    """The real one. Each call is looked up in `os` when it is made."""

    __slots__ = ()

    def open(self, path: Path, flags: int, mode: int = 0o640) -> int:
        """A descriptor; it is not inherited by other programs."""
        return os.open(path, flags | os.O_CLOEXEC, mode)

    def close(self, fd: int) -> None:
        """Without syncing."""
        os.close(fd)

    def read(self, fd: int, size: int) -> bytes:
        """From where the last one ended."""
        return os.read(fd, size)

    def pread(self, fd: int, size: int, position: int) -> bytes:
        """May be shorter than asked for."""
        return os.pread(fd, size, position)

    def write(self, fd: int, data: bytes | memoryview) -> int:
        """How many bytes were taken."""
        return os.write(fd, data)

    def pwrite(self, fd: int, data: bytes | memoryview, position: int) -> int:
        """How many bytes were taken."""
        return os.pwrite(fd, data, position)

    def seek(self, fd: int, position: int) -> None:
        """From the beginning of the file."""
        os.lseek(fd, position, os.SEEK_SET)

    def ftruncate(self, fd: int, size: int) -> None:
        """Cut, or fill up with zeros."""
        os.ftruncate(fd, size)

    def fsync(self, fd: int) -> None:
        """Of a file or a directory."""
        os.fsync(fd)

    def fdatasync(self, fd: int) -> None:
        """Bytes and size; no times."""
        os.fdatasync(fd)

    def fadvise_dontneed(self, fd: int) -> None:
        """All of the file."""
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)

    def size_bytes(self, fd: int) -> int:
        """Of an open file."""
        return os.fstat(fd).st_size

    def size_of(self, path: Path) -> int:
        """Of a file by its name."""
        return os.stat(path).st_size

    def exists(self, path: Path) -> bool:
        """False also where a parent is missing."""
        return path.exists()

    def names(self, directory: Path) -> list[str]:
        """Of files and directories."""
        return os.listdir(directory)

    def rename(self, source: Path, target: Path) -> None:
        """Replaces the target."""
        os.rename(source, target)

    def unlink(self, path: Path, *, missing_ok: bool = False) -> None:
        """Remove a name."""
        path.unlink(missing_ok)

    def make_directories(self, path: Path) -> None:
        """With parents."""
        path.mkdir(parents=True, exist_ok=True)

    def remove_directory(self, path: Path) -> None:
        """An empty one."""
        path.rmdir()


POSIX: FileSystem = PosixFileSystem()
