"""The files of one backup or replica in any storage, as checks, replay and copies need them."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from quorum_node.backups.manifest import BackupError, open_regular

PARTITION = "__cluster_metadata-0"
"""The folder of the partition in a backup and in a replica's directory."""
PIECE_BYTES = 1 << 20


class BackupFiles(Protocol):
    """Read access. Every call may raise BackupError. Names are relative to the backup, such as PARTITION/NAME."""

    @property
    def place(self) -> str:
        """Location of the backup, for messages."""

    def place_of(self, name: str) -> str:
        """Location of a file, for messages."""

    def sizes(self) -> dict[str, int]:
        """Names of the files in the partition's folder, sorted, with their sizes in bytes."""

    def pieces(self, name: str) -> Iterator[bytes]:
        """The content of a file, in pieces of bounded size."""


class DirectoryFiles:
    """Files on a volume."""

    def __init__(self, path: Path) -> None:
        """`path` contains the partition's folder."""
        self._path = path

    @property
    def place(self) -> str:
        """The directory."""
        return str(self._path)

    def place_of(self, name: str) -> str:
        """The file's path."""
        return str(self._path / name)

    def sizes(self) -> dict[str, int]:
        """Sizes from the file system."""
        folder = self._path / PARTITION
        try:
            return {
                f"{PARTITION}/{each.name}": each.stat().st_size for each in sorted(folder.iterdir())
            }
        except OSError as error:
            raise BackupError(f"{folder} can't be read: {error.strerror}") from None

    def pieces(self, name: str) -> Iterator[bytes]:
        """Read from the disk: the page cache is bypassed."""
        path = self._path / name
        try:
            with open_regular(path) as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                while data := file.read(PIECE_BYTES):
                    yield data
        except OSError as error:
            raise BackupError(f"{path} can't be read: {error.strerror}") from None
