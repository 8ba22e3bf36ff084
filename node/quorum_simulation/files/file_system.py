"""The file system of a simulated machine: `quorum_node.storage` runs on it unchanged.

Owns descriptors, the content after a power failure or the end of a process, and how calls fail. Must not know the
purpose of files. Directories are durable as soon as they are made.
"""

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from quorum_simulation.files.folder import Folder
from quorum_simulation.files.stored_file import StoredFile, Torn, torn_tail

Image = dict[str, dict[str, bytes]]
"""Durable content by directory and name."""


class PowerLost(BaseException):
    """The power failed during or between calls. Not an `Exception`, so that no handler catches it."""


@dataclass(slots=True)
class _Opened:
    file: StoredFile
    position: int = 0


class SimulatedFiles:
    """`FileSystem` of `quorum_node.storage.file_system`.

    `shuffled`: unsynced sectors arrive in any order, instead of from the first one on.
    """

    def __init__(self, random: Random, *, shuffled: bool = False) -> None:
        self.random = random
        self.shuffled = shuffled
        self.torn: Torn = self._torn
        """The remains of unsynced appends, unless they are `shuffled`."""
        self.broken = False
        """Whether every call fails with EIO, permanently."""
        self.full = False
        """Whether nothing more can be written."""
        self.full_at_sync = False
        """Whether syncs fail because the disk is full, although writes do not."""
        self.failing_sync: int | None = None
        """The error of the next sync; the one after it works."""
        self.clock_ms: Callable[[], int] = lambda: 0
        """Time of day, for the times of files."""
        self.calls_left: int | None = None
        """Number of further changing calls until the power fails."""
        self.refused = False
        """Whether any call has failed with EIO."""
        self._folders: dict[str, Folder] = {}
        self._opened: dict[int, _Opened | Folder] = {}
        self._next_fd = 3

    # -- the calls

    def open(self, path: Path, flags: int, mode: int = 0o640) -> int:
        """Open a file, created with O_CREAT and truncated with O_TRUNC, or a directory."""
        self._check()
        opened: _Opened | Folder
        if flags & os.O_DIRECTORY:
            opened = self._folder(str(path))
        else:
            folder, name = self._place(path)
            file = folder.files.get(name)
            if file is None:
                if not flags & os.O_CREAT:
                    raise FileNotFoundError(errno.ENOENT, "simulated ENOENT", str(path))
                self._about_to_change()
                file = StoredFile()
                file.modified_ms = self.clock_ms()
                folder.link(name, file)
            elif flags & os.O_TRUNC and file.content:
                self._about_to_change()
                file.cut(0)
                file.modified_ms = self.clock_ms()
            opened = _Opened(file)
        self._next_fd += 1
        self._opened[self._next_fd] = opened
        return self._next_fd

    def close(self, fd: int) -> None:
        """Close without a sync."""
        self._opened.pop(fd, None)

    def read(self, fd: int, size: int) -> bytes:
        """Read from the end of the last read."""
        self._check()
        opened = self._file(fd)
        data = bytes(opened.file.content[opened.position : opened.position + size])
        opened.position += len(data)
        return data

    def pread(self, fd: int, size: int, position: int) -> bytes:
        """Read from the page cache."""
        self._check()
        return bytes(self._file(fd).file.content[position : position + size])

    def write(self, fd: int, data: bytes | memoryview) -> int:
        """Write at the end of the last write."""
        opened = self._file(fd)
        written = self.pwrite(fd, data, opened.position)
        opened.position += written
        return written

    def pwrite(self, fd: int, data: bytes | memoryview, position: int) -> int:
        """Write everything, unless the disk is full or the power fails."""
        self._check()
        file = self._file(fd).file
        if self.full:
            raise OSError(errno.ENOSPC, "simulated ENOSPC")
        self._about_to_change(lambda: file.write(data[: len(data) // 2], position))
        file.write(data, position)
        file.modified_ms = self.clock_ms()
        return len(data)

    def seek(self, fd: int, position: int) -> None:
        """Set the position, from the start of the file."""
        self._file(fd).position = position

    def ftruncate(self, fd: int, size: int) -> None:
        """Truncate, or extend with zeros."""
        self._check()
        file = self._file(fd).file
        if size != len(file.content):
            self._about_to_change()
            file.cut(size)
            file.modified_ms = self.clock_ms()

    def fsync(self, fd: int) -> None:
        """Sync a file or a directory."""
        self._check()
        self._about_to_change()
        opened = self._opened[fd]
        failing, self.failing_sync = self.failing_sync, None
        if failing is None and self.full_at_sync and _is_dirty(opened):
            failing = errno.ENOSPC
        if failing is None:
            (opened if isinstance(opened, Folder) else opened.file).sync()
            return
        if isinstance(opened, _Opened):
            opened.file.fail_sync(self.random, shuffled=self.shuffled, torn=self.torn)
        raise OSError(failing, f"simulated {errno.errorcode[failing]}")

    def fdatasync(self, fd: int) -> None:
        """Sync content and size."""
        self.fsync(fd)

    def fadvise_dontneed(self, fd: int) -> None:
        """Drop clean pages; dirty ones stay."""
        self._check()
        self._file(fd).file.drop_clean_pages()

    def size_bytes(self, fd: int) -> int:
        """Size of an open file."""
        return len(self._file(fd).file.content)

    def size_of(self, path: Path) -> int:
        """Size of a file by its path."""
        self._check()
        folder, name = self._place(path)
        if name not in folder.files:
            raise FileNotFoundError(errno.ENOENT, "simulated ENOENT", str(path))
        return len(folder.files[name].content)

    def modified_ms(self, fd: int) -> int:
        """Time of the last write or truncation. It survives a power failure."""
        return self._file(fd).file.modified_ms

    def set_modified_ms(self, fd: int, modified_ms: int) -> None:
        """Set that time."""
        self._check()
        self._about_to_change()
        self._file(fd).file.modified_ms = modified_ms

    def exists(self, path: Path) -> bool:
        """Whether a file or a directory exists."""
        parent, _, name = str(path).rpartition("/")
        folder = self._folders.get(parent)
        return str(path) in self._folders or (folder is not None and name in folder.files)

    def names(self, directory: Path) -> list[str]:
        """Names of files and directories."""
        self._check()
        within = f"{directory}/"
        inner = [path for path in self._folders if path.startswith(within)]
        folders = [path.removeprefix(within) for path in inner]
        return [*self._folder(str(directory)).files, *(each for each in folders if "/" not in each)]

    def rename(self, source: Path, target: Path) -> None:
        """Rename within one directory."""
        self._check()
        folder, name = self._place(source)
        if name not in folder.files:
            raise FileNotFoundError(errno.ENOENT, "simulated ENOENT", str(source))
        other, new_name = self._place(target)
        assert other is folder, f"{source} to {target}: another directory"
        self._about_to_change()
        folder.rename(name, new_name)

    def unlink(self, path: Path, *, missing_ok: bool = False) -> None:
        """Remove a name."""
        self._check()
        folder, name = self._place(path)
        if name in folder.files:
            self._about_to_change()
            folder.unlink(name)
        elif not missing_ok:
            raise FileNotFoundError(errno.ENOENT, "simulated ENOENT", str(path))

    def make_directories(self, path: Path) -> None:
        """Create a directory with its parents."""
        self._check()
        for each in (*reversed(path.parents), path):
            if str(each) not in self._folders:
                self._folders[str(each)] = Folder()

    def remove_directory(self, path: Path) -> None:
        """Remove an empty directory; durable at once."""
        self._check()
        if self._folder(str(path)).files:
            raise OSError(errno.ENOTEMPTY, "simulated ENOTEMPTY", str(path))
        self._about_to_change()
        del self._folders[str(path)]

    # -- what happens to the machine

    def end_process(self) -> None:
        """End the process: its descriptors are closed, its writes stay in the page cache."""
        self._opened.clear()
        self.calls_left = None
        for folder in self._folders.values():
            for file in folder.files.values():
                file.abandon_sync()

    def lose_power(self) -> None:
        """A power failure, and the machine is back."""
        self.end_process()
        for folder in self._folders.values():
            folder.lose_power(self.random)
            for file in folder.files.values():
                file.lose_power(self.random, shuffled=self.shuffled, torn=self.torn)

    def image(self) -> Image:
        """Return a copy of all durable content."""
        return {
            path: {name: file.on_disk() for name, file in folder.durable_files().items()}
            for path, folder in self._folders.items()
        }

    def restore(self, image: Image) -> None:
        """Restore an older state of the disk. No process may be running."""
        assert not self._opened, "a process uses the disk"
        self._folders = {path: Folder() for path in image}
        for path, files in image.items():
            for name, content in files.items():
                self._folders[path].link(name, StoredFile(content))
            self._folders[path].sync()

    # -- for invariants and faults, which also look at what is broken

    def file(self, path: Path) -> StoredFile | None:
        """The file with this path as processes see it; None if it does not exist."""
        parent, _, name = str(path).rpartition("/")
        folder = self._folders.get(parent)
        return None if folder is None else folder.files.get(name)

    def durable_content(self, path: Path) -> bytes | None:
        """Content of a file after any power failure; None if not even its name is durable."""
        parent, _, name = str(path).rpartition("/")
        folder = self._folders.get(parent)
        file = None if folder is None else folder.durable_files().get(name)
        return None if file is None else file.on_disk()

    def safe_bytes(self, path: Path) -> int:
        """Number of bytes of a file that remain unchanged after any failure."""
        parent, _, name = str(path).rpartition("/")
        folder = self._folders.get(parent)
        if folder is None or name not in folder.files or not folder.is_durable(name):
            return 0
        return folder.files[name].safe_bytes()

    def begin_sync(self, fd: int) -> None:
        """Begin a sync of this file; it ends when the process calls `fsync`."""
        self._file(fd).file.begin_sync()

    # -- inside

    def _torn(self, content: bytearray, durable: int) -> bytes:
        return bytes(content[:durable]) + torn_tail(content, b"", durable, self.random)

    def _check(self) -> None:
        if self.broken:
            self.refused = True
            raise OSError(errno.EIO, "simulated EIO")

    def _about_to_change(self, half_of_it: object = None) -> None:
        if self.calls_left is None:
            return
        self.calls_left -= 1
        if self.calls_left < 0:
            if callable(half_of_it) and self.random.random() < 0.5:
                half_of_it()
            raise PowerLost

    def _folder(self, path: str) -> Folder:
        if path not in self._folders:
            raise FileNotFoundError(errno.ENOENT, "simulated ENOENT", path)
        return self._folders[path]

    def _place(self, path: Path) -> tuple[Folder, str]:
        parent, _, name = str(path).rpartition("/")
        return self._folder(parent), name

    def _file(self, fd: int) -> _Opened:
        opened = self._opened.get(fd)
        if not isinstance(opened, _Opened):
            raise OSError(errno.EBADF, "simulated EBADF")
        return opened


def _is_dirty(opened: _Opened | Folder) -> bool:
    if isinstance(opened, Folder):
        return False
    return opened.file.clean_bytes < len(opened.file.content)
