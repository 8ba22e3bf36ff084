"""`synced-end`: the offset up to which the log is known to be on the disk (Kafka's recovery point,
exact and with a checksum).

Owns the file and the order of its writes. Must not know the content of the log, nor who uses the
offset.

Three slots, 4096 bytes apart, so that no write affects two of them:
magic "SyE1", flags, epoch of the last record, sequence, end offset, CRC-32C    32 bytes, big-endian

The valid slot with the highest sequence counts. After every successful sync of the log its end is
written to a slot without a sync, so it is exact when the process ends, however it ends. `settle`
syncs the file occasionally, outside of commits: after a power failure the end is an older, lower
one. The last synced slot is never overwritten, so a torn write loses nothing durable.

A second entry, 512 bytes after the start of a slot, stores the offset below which all records are
known to be committed, at most about a second old:
magic "CmE1", committed end offset, CRC-32C    16 bytes, big-endian
The node does not use it. It tells later readers of the directory which records at the log's end may
still be replaced. It only grows, so the highest valid entry counts. Older versions ignore it.

The file must never claim more than the disk has:
* `raise_to` is called after the log and its file names were synced.
* `lower_to` is durable before the log is truncated, and leaves no slot that claims more.
* A sync of the log that began before the truncation was completed proves nothing (`generation`).
"""

import os
import struct
import threading
from dataclasses import dataclass, replace
from pathlib import Path

from crc32c import crc32c

from quorum_node.storage.atomic_file import read_file, replace_file, sync_data
from quorum_node.storage.errors import StorageFailure
from quorum_node.storage.file_system import POSIX, FileSystem

FILE_NAME = "synced-end"
SLOT_SPACING_BYTES = 4096
_SLOTS = 3
_MAGIC = b"SyE1"
_BODY = struct.Struct(">4sB3xiQq")
_CRC = struct.Struct(">I")
_SLOT_BYTES = _BODY.size + _CRC.size
_FAILED = 1
_COMMITTED_AT = 512
"""In a separate sector: a torn write does not affect the entry of the synced end."""
_COMMITTED_MAGIC = b"CmE1"
_COMMITTED_BODY = struct.Struct(">4sq")
_COMMITTED_BYTES = _COMMITTED_BODY.size + _CRC.size


@dataclass(frozen=True, slots=True)
class RecordedEnd:
    """Content of the file. `failed`: a sync failed, so nothing beyond the offset counts."""

    end_offset: int
    epoch: int
    """Epoch of the last record before `end_offset`; -1: there is none."""
    failed: bool = False
    sequence: int = 0
    slot: int = 0
    committed_end: int = 0
    """All records below this offset are committed; 0: nothing is known. Never beyond `end_offset`."""


def read_synced_end(directory: Path, files: FileSystem = POSIX) -> RecordedEnd | None:
    """Read the file; None if it does not exist: the directory is new, or of an older version.

    Raises StorageFailure on damage.
    """
    path = directory / FILE_NAME
    content = read_file(path, files)
    if content is None:
        return None
    slots = [_decode(content, number) for number in range(_SLOTS)]
    if len(content) != _SLOTS * SLOT_SPACING_BYTES or not any(slots):
        raise StorageFailure(
            f"{path} is damaged: it has no valid entry, so it is unknown which part of the log was synced"
        )
    newest = max((slot for slot in slots if slot is not None), key=lambda slot: slot.sequence)
    committed = max(_decode_committed(content, number) for number in range(_SLOTS))
    return replace(newest, committed_end=min(committed, newest.end_offset))


def forget_synced_end(directory: Path, files: FileSystem = POSIX) -> None:
    """Remove the file: the log was written by software that does not maintain it. Raises OSError."""
    files.unlink(directory / FILE_NAME, missing_ok=True)


class SyncedEnd:
    """The open file. `raise_to` and `note_failure` may run on another thread than the other methods."""

    def __init__(
        self,
        directory: Path,
        end_offset: int,
        epoch: int,
        found: RecordedEnd | None = None,
        files: FileSystem = POSIX,
    ) -> None:
        """Write a synced end durably, whatever was `found` in the file.

        Raises StorageFailure, DiskFull or OSError. An existing file needs no more space.
        """
        self._files = files
        self._path = directory / FILE_NAME
        self._lock = threading.Lock()
        self._settling = threading.Lock()
        self._pending = False
        self._being_cut = False
        self.generation = 0
        """Generation of the log's content below its end: each truncation starts a new one."""
        self.end_offset, self._epoch = end_offset, epoch
        self._committed_end = found.committed_end if found is not None else 0
        if found is None:
            entries = [_encode(sequence, end_offset, epoch) for sequence in range(_SLOTS, 0, -1)]
            content = b"".join(entry.ljust(SLOT_SPACING_BYTES, b"\0") for entry in entries)
            replace_file(self._path, content, files)
            self._sequence, self._durable, self._writing = _SLOTS, 0, 1
            self._fd = files.open(self._path, os.O_RDWR)
            return
        self._sequence, self._durable = found.sequence, found.slot
        self._writing = _next(found.slot)
        self._fd = files.open(self._path, os.O_RDWR)
        self._write_to_all()

    @property
    def pending(self) -> bool:
        """Whether `settle` has something to write."""
        return self._pending

    def raise_to(self, end_offset: int, epoch: int, generation: int) -> None:
        """Everything below the offset is synced, in that generation of the log. Raises OSError."""
        with self._lock:
            if self._being_cut or generation != self.generation:
                return
            if end_offset > self.end_offset:
                self.end_offset, self._epoch = end_offset, epoch
                self._write(self._writing)

    def lower_to(self, end_offset: int, epoch: int) -> None:
        """The log is about to be truncated there; `cut_is_done` follows. Durable when it returns.

        Raises OSError, SyncFailed.
        """
        with self._settling:
            with self._lock:
                self._being_cut = True
                if end_offset >= self.end_offset:
                    return
                self.end_offset, self._epoch = end_offset, epoch
            self._write_to_all()

    def cut_is_done(self) -> None:
        """The truncation is completed; a sync that begins now is valid for the new generation."""
        with self._lock:
            self._being_cut = False
            self.generation += 1

    def note_failure(self) -> None:
        """A sync of the log failed: data beyond the end must not count as synced later. Raises OSError.

        Not synced itself: if the page cache is lost, so is the data that the note refers to.
        """
        with self._lock:
            self._write(self._writing, _FAILED)

    def settle(self, committed_end: int = 0) -> None:
        """Make the known end durable, and the offset below which all records are committed.

        Raises OSError, SyncFailed.
        """
        with self._settling:
            with self._lock:
                committed_end = min(committed_end, self.end_offset)
                if not self._pending and committed_end <= self._committed_end:
                    return
                if not self._pending:
                    self._write(self._writing)
                self._write_committed(self._writing, committed_end)
                syncing, self._pending = self._writing, False
                self._writing = _next(syncing)  # the third slot: the second was synced before
            sync_data(self._fd, self._files)
            with self._lock:
                self._durable = syncing

    def close(self) -> None:
        """Close the file, without syncing."""
        self._files.close(self._fd)

    def _write_to_all(self) -> None:
        """Write all slots with the same content; one is durable when it returns."""
        with self._lock:
            self._write(self._writing)
        sync_data(self._fd, self._files)
        with self._lock:
            self._durable = self._writing
            for slot in range(_SLOTS):
                if slot != self._durable:
                    self._write(slot)
            self._writing = _next(self._durable)

    def _write(self, slot: int, flags: int = 0) -> None:
        self._sequence += 1
        self._pending = True
        data = _encode(self._sequence, self.end_offset, self._epoch, flags)
        self._write_at(slot * SLOT_SPACING_BYTES, data)

    def _write_committed(self, slot: int, committed_end: int) -> None:
        self._committed_end = max(committed_end, self._committed_end)
        body = _COMMITTED_BODY.pack(_COMMITTED_MAGIC, self._committed_end)
        data = body + _CRC.pack(crc32c(body))
        self._write_at(slot * SLOT_SPACING_BYTES + _COMMITTED_AT, data)

    def _write_at(self, position: int, data: bytes) -> None:
        written = self._files.pwrite(self._fd, data, position)
        # a short write within one page of an existing file does not happen on a working disk
        if written != len(data):
            raise OSError(5, f"{written} of {len(data)} bytes written")


def _next(slot: int) -> int:
    return (slot + 1) % _SLOTS


def _encode(sequence: int, end_offset: int, epoch: int, flags: int = 0) -> bytes:
    body = _BODY.pack(_MAGIC, flags, epoch, sequence, end_offset)
    return body + _CRC.pack(crc32c(body))


def _decode(content: bytes, slot: int) -> RecordedEnd | None:
    start = slot * SLOT_SPACING_BYTES
    data = content[start : start + _SLOT_BYTES]
    if len(data) < _SLOT_BYTES:
        return None
    magic, flags, epoch, sequence, end_offset = _BODY.unpack_from(data)
    if magic != _MAGIC or crc32c(data[: _BODY.size]) != _CRC.unpack_from(data, _BODY.size)[0]:
        return None
    return RecordedEnd(end_offset, epoch, bool(flags & _FAILED), sequence, slot)


def _decode_committed(content: bytes, slot: int) -> int:
    """The committed end in a slot; 0 without a valid entry."""
    start = slot * SLOT_SPACING_BYTES + _COMMITTED_AT
    data = content[start : start + _COMMITTED_BYTES]
    magic, committed_end = _COMMITTED_BODY.unpack_from(data)
    valid = crc32c(data[: _COMMITTED_BODY.size]) == _CRC.unpack_from(data, _COMMITTED_BODY.size)[0]
    return max(committed_end, 0) if valid and magic == _COMMITTED_MAGIC else 0
