"""`.txnindex` of a segment: transactions that a marker in it aborted.

Owns the file, which exists only if there are such transactions. It can be synced on any thread, also during a
rename. Source: a stock broker's `AbortedTxn`.
"""

import os
import threading
from collections.abc import Iterable
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from quorum_node.storage.atomic_file import read_file, sync_data, write_at
from quorum_node.storage.broker.errors import DamagedLog
from quorum_node.storage.file_system import FileSystem

_ENTRY = Struct(">hqqqq")
_VERSION = 0


class AbortedTransaction(NamedTuple):
    """First record, marker, and the last stable offset when the marker was written.

    `last_stable_offset`: the end of the marker if there was no other open transaction.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """Entries ascend by the offset of the marker."""

    __slots__ = ("_aborted", "_files", "_name_lock", "_unsynced", "path")
    SUFFIX = ".txnindex"

    def __init__(self, files: FileSystem, path: Path) -> None:
        self._files = files
        self.path = path
        self._aborted: list[AbortedTransaction] = []
        self._name_lock = threading.Lock()
        """Held while the file is renamed, and while `sync` opens it by its name."""
        self._unsynced = False

    @property
    def aborted(self) -> list[AbortedTransaction]:
        """All entries."""
        return self._aborted

    def rename(self, target: Path) -> None:
        """Rename the file, if it exists. Raises OSError."""
        with self._name_lock:
            if self._files.exists(self.path):
                self._files.rename(self.path, target)
            self.path = target

    def adopt(self, base_offset: int) -> bool:
        """Load the file, if it exists; False if it is inconsistent."""
        content = read_file(self.path, self._files) or b""
        if len(content) % _ENTRY.size:
            return False
        entries = list(_ENTRY.iter_unpack(content))
        if any(entry[0] > _VERSION for entry in entries):
            raise DamagedLog(f"{self.path} has an entry of a newer version than {_VERSION}")
        self._aborted = [AbortedTransaction(*entry[1:]) for entry in entries]
        return all(each.last_offset >= base_offset for each in self._aborted)

    def append(self, aborted: AbortedTransaction) -> None:
        """Add an entry. Raises OSError."""
        self._write([aborted], len(self._aborted))
        self._aborted.append(aborted)

    def replace(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Replace all entries, of a segment that is rebuilt."""
        self.cut(0)
        entries = list(aborted)
        if entries:
            self._write(entries, 0)
        self._aborted = entries

    def cut(self, end_offset: int) -> None:
        """Remove entries of a truncated segment. Raises OSError."""
        kept = [each for each in self._aborted if each.last_offset < end_offset]
        if len(kept) == len(self._aborted) and kept:
            return
        self._aborted = kept
        if self._files.exists(self.path):
            fd = self._files.open(self.path, os.O_RDWR)
            try:
                self._files.ftruncate(fd, len(kept) * _ENTRY.size)
            finally:
                self._files.close(fd)
            self._unsynced = True

    def sync(self) -> None:
        """Make all entries durable. Raises OSError."""
        if not self._unsynced:
            return
        self._unsynced = False
        with self._name_lock:
            fd = self._files.open(self.path, os.O_RDWR)
        try:
            sync_data(fd, self._files)
        finally:
            self._files.close(fd)

    def _write(self, entries: list[AbortedTransaction], number: int) -> None:
        content = b"".join(_ENTRY.pack(_VERSION, *each) for each in entries)
        fd = self._files.open(self.path, os.O_RDWR | os.O_CREAT)
        try:
            write_at(fd, content, number * _ENTRY.size, self._files)
        finally:
            self._files.close(fd)
        self._unsynced = True
