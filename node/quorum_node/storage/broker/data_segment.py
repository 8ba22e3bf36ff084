"""One segment of a partition: the `.log` file, its indexes, and the state needed for appends and look-ups.

Owns the files of one base offset. Must not know other segments. OSErrors are handled by the log.
One thread at a time appends and truncates; reads may run concurrently.
Source: the files of a stock broker (`LogSegment`).
"""

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from quorum_node.records.batches import HEADER_BYTES, MAGIC, MIN_LENGTH, PREFIX_BYTES
from quorum_node.storage.atomic_file import read_at, sync_data, write_at
from quorum_node.storage.broker.batch_walk import (
    BrokenBatch,
    FileBatch,
    batch_at,
    walk,
)
from quorum_node.storage.broker.errors import HOW_TO_REPLACE, DamagedLog
from quorum_node.storage.broker.index_files import OffsetIndex, TimeIndex
from quorum_node.storage.broker.read_batches import ReadBatches
from quorum_node.storage.broker.transaction_index import TransactionIndex
from quorum_node.storage.file_system import FileSystem

SUFFIX = ".log"
SUFFIXES = (SUFFIX, OffsetIndex.SUFFIX, TimeIndex.SUFFIX, TransactionIndex.SUFFIX)
_HINTS = 32
_PIECE_BYTES = 4 << 20
"""Of the file, in one read: of a large read of small batches most would be dropped. Larger results are copied once more."""
_SPAN = Struct(">qi4xb6xi")
"""Base offset, length, magic, last offset delta."""
LARGEST_RELATIVE_OFFSET = (1 << 31) - 1


class Appended(NamedTuple):
    """Metadata of an appended batch."""

    size_bytes: int
    end_offset: int
    max_timestamp_ms: int


class DataSegment:
    """`end_offset`: exclusive. `first_timestamp_ms`: of the first batch, -1 if it has none."""

    __slots__ = (
        "_bytes_since_entry",
        "_hints",
        "_index_interval_bytes",
        "aborted",
        "base_offset",
        "created_ms",
        "directory",
        "end_offset",
        "fd",
        "files",
        "first_timestamp_ms",
        "max_timestamp_ms",
        "max_timestamp_offset",
        "offsets",
        "path",
        "size_bytes",
        "times",
    )

    def __init__(
        self,
        files: FileSystem,
        directory: Path,
        base_offset: int,
        *,
        index_interval_bytes: int,
        now_ms: int,
        suffix: str = "",
    ) -> None:
        """Open or create the file. `suffix`: suffix of all file names."""
        self.files = files
        self.directory = directory
        self.base_offset = base_offset
        name = f"{base_offset:020d}"
        self.path = directory / f"{name}{SUFFIX}{suffix}"
        self.fd = files.open(self.path, os.O_RDWR | os.O_CREAT)
        self.offsets = OffsetIndex(
            files, directory / f"{name}{OffsetIndex.SUFFIX}{suffix}", base_offset
        )
        self.times = TimeIndex(files, directory / f"{name}{TimeIndex.SUFFIX}{suffix}", base_offset)
        self.aborted = TransactionIndex(
            files, directory / f"{name}{TransactionIndex.SUFFIX}{suffix}"
        )
        self.size_bytes = 0
        self.end_offset = base_offset
        self.max_timestamp_ms = -1
        self.max_timestamp_offset = base_offset
        self.first_timestamp_ms = -1
        self.created_ms = now_ms
        self._index_interval_bytes = index_interval_bytes
        self._bytes_since_entry = 0
        self._hints: dict[int, int] = {}
        """Position of the batch after the last read one: sequential reads need no index."""

    # -- opening

    def adopt_indexes(self) -> bool:
        """Load the index files; False if they have to be rebuilt."""
        fits = self.offsets.adopt() & self.times.adopt() & self.aborted.adopt(self.base_offset)
        last = self.offsets.last
        return fits and (last is None or self._begins_at(last[1], self.base_offset + last[0]))

    def _begins_at(self, position: int, last_offset: int) -> bool:
        """Whether a batch that ends at or before `last_offset` begins there.

        If not, the index belongs to another segment.
        """
        header = read_at(self.fd, HEADER_BYTES, position, self.files)
        if len(header) < HEADER_BYTES:
            return False
        try:
            batch = batch_at(header, 0, position, self.files.size_bytes(self.fd))
        except BrokenBatch:
            return False
        return self.base_offset <= batch.base_offset <= last_offset

    def adopt_content(self) -> None:
        """Trust the file and its indexes; check only batches after the last index entry.

        Raises DamagedLog if the last batch does not end at the end of the file.
        """
        size_bytes = self.files.size_bytes(self.fd)
        self.max_timestamp_ms, self.max_timestamp_offset = self.times.largest
        position = 0 if self.offsets.last is None else self.offsets.last[1]
        try:
            if size_bytes:
                first = next(walk(self.files, self.fd, 0, size_bytes))
                self.first_timestamp_ms = first.max_timestamp_ms
            for batch in walk(self.files, self.fd, position, size_bytes):
                self._note_timestamp(batch.max_timestamp_ms, batch.end_offset - 1)
                self.end_offset = batch.end_offset
        except BrokenBatch as error:
            raise self._damaged(error) from error
        self.size_bytes = size_bytes
        self._bytes_since_entry = size_bytes - position

    def adopt_closed(self, end_offset: int) -> None:
        """Assume that the file contains all batches below `end_offset`, where the next segment begins."""
        self.size_bytes, self.end_offset = self.files.size_bytes(self.fd), end_offset
        self.max_timestamp_ms, self.max_timestamp_offset = self.times.largest

    def clear_indexes(self) -> None:
        """Empty the indexes; `note` rebuilds them batch by batch."""
        self.offsets.clear()
        self.times.clear()
        self.aborted.cut(0)
        self.size_bytes, self.end_offset = 0, self.base_offset
        self.max_timestamp_ms, self.max_timestamp_offset = -1, self.base_offset
        self.first_timestamp_ms, self._bytes_since_entry = -1, 0

    # -- appending

    def append(self, data: bytes | memoryview, batches: Sequence[Appended]) -> None:
        """Write whole batches at the end. After an error `cut_back` has to be called."""
        write_at(self.fd, data, self.size_bytes, self.files)
        for each in batches:
            self.note(each)

    def note(self, batch: Appended) -> None:
        """Register the next batch of the file."""
        last_offset = batch.end_offset - 1
        if batch.max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms, self.max_timestamp_offset = batch.max_timestamp_ms, last_offset
        position, self.size_bytes = self.size_bytes, self.size_bytes + batch.size_bytes
        self.end_offset = batch.end_offset
        if not position:
            self.first_timestamp_ms = batch.max_timestamp_ms
        # Last, as it may fail: the batch is truncated then, and with it what is in the indexes.
        if self._bytes_since_entry > self._index_interval_bytes:
            self.offsets.add(last_offset, position)
            self.times.add(self.max_timestamp_ms, self.max_timestamp_offset)
            self._bytes_since_entry = 0
        self._bytes_since_entry += batch.size_bytes

    def cut_back(self) -> None:
        """Remove the remains of a failed append."""
        self.files.ftruncate(self.fd, self.size_bytes)

    def close_for_appends(self) -> None:
        """Complete the indexes and write them to their files; nothing more is appended."""
        self.times.add(self.max_timestamp_ms, self.max_timestamp_offset)
        self.offsets.write()
        self.times.write()

    def truncate_to(self, end_offset: int) -> None:
        """Keep the batches that end at or before `end_offset`."""
        position = self.position_of(end_offset)
        self.files.ftruncate(self.fd, position)
        self._hints = {}
        self.offsets.cut(end_offset)
        self.times.cut(end_offset)
        self.aborted.cut(end_offset)
        self.size_bytes, self.end_offset = position, self.base_offset
        self.adopt_content()

    # -- reading

    def position_of(self, offset: int) -> int:
        """Position of the first batch that ends after `offset`; the end of the file if there is none."""
        batch = self.batch_holding(offset)
        return self.size_bytes if batch is None else batch.position

    def batch_holding(self, offset: int) -> FileBatch | None:
        """The first batch that ends after `offset`."""
        for batch in self.batches(offset):
            if batch.end_offset > offset:
                return batch
        return None

    def last_end_below(self, offset: int) -> int:
        """A lower bound of the segment's end after a truncation to `offset`."""
        end_offset = self.base_offset
        for batch in self.batches(offset - 1):
            if batch.end_offset > offset:
                break
            end_offset = batch.end_offset
        return end_offset

    def batches(self, offset: int) -> Iterator[FileBatch]:
        """All batches from a position at or before the one that contains `offset`. Raises DamagedLog."""
        position = self._hints.get(offset)
        return self._walked(self.offsets.position_of(offset) if position is None else position)

    def batches_after_index(self, offset: int) -> Iterator[FileBatch]:
        """All batches from that of the last entry in the index on which ends at or before `offset`. Raises DamagedLog."""
        return self._walked(self.offsets.position_of(offset))

    def _walked(self, position: int) -> Iterator[FileBatch]:
        try:
            yield from walk(self.files, self.fd, position, self.size_bytes)
        except BrokenBatch as error:
            raise self._damaged(error) from error

    def read(
        self, start_offset: int, max_bytes: int, limit_offset: int, most_batches: int = sys.maxsize
    ) -> ReadBatches:
        """Whole batches from the first one that ends after `start_offset`, each ending by `limit_offset`.

        At least one batch, if there is any, even if it is larger than `max_bytes`; at most `most_batches`. Raises
        DamagedLog.
        """
        size_bytes, hints = self.size_bytes, self._hints
        start = hints.get(start_offset)
        if start is None:
            start = self.position_of(start_offset)
        pieces: list[bytes] = []
        position, end_offset, count, is_last = start, start_offset, 0, False
        while not is_last:
            room = max_bytes - (position - start)
            piece = self._read_piece(
                position,
                size_bytes,
                room,
                limit_offset,
                most_batches - count,
                at_least_one=not pieces,
            )
            pieces.append(piece.data)
            if piece.batch_count:
                position, end_offset = position + len(piece.data), piece.end_offset
                count += piece.batch_count
            is_last = (
                not piece.batch_count
                or room <= _PIECE_BYTES
                or position - start >= max_bytes
                or position == size_bytes
                or end_offset >= limit_offset
                or count >= most_batches
            )
        if count:
            if len(hints) >= _HINTS:
                oldest, *_ = list(hints)  # an iterator could fail with concurrent readers
                hints.pop(oldest, None)
            hints[end_offset] = position
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        return ReadBatches(data, end_offset, count)

    def _read_piece(
        self,
        start: int,
        size_bytes: int,
        max_bytes: int,
        limit_offset: int,
        most_batches: int,
        *,
        at_least_one: bool,
    ) -> ReadBatches:
        """The batches of one read from the file, of which `size_bytes` are used; the end offset is 0 if there are none."""
        most = min(max(max_bytes, HEADER_BYTES), _PIECE_BYTES, size_bytes - start)
        content = read_at(self.fd, most, start, self.files)
        index, end_offset, count, size = 0, 0, 0, len(content)
        # `batch_at` is not used: with small batches this loop is most of the cost of a read.
        while size - index >= HEADER_BYTES:
            base_offset, length, magic, last_delta = _SPAN.unpack_from(content, index)
            end, behind = index + PREFIX_BYTES + length, base_offset + last_delta + 1
            if magic != MAGIC or length < MIN_LENGTH or start + end > size_bytes:
                raise self._damaged(BrokenBatch(start + index, f"magic {magic}, length {length}"))
            if behind > limit_offset:
                break
            if end > size:
                if index or not (at_least_one or end <= max_bytes):
                    break
                content = read_at(self.fd, end, start, self.files)
            index, end_offset, count = end, behind, count + 1
            if index >= max_bytes or count >= most_batches:
                break
        data = content if index == len(content) else content[:index]
        return ReadBatches(data, end_offset, count)

    def newest_ms(self) -> int:
        """Largest timestamp of a record; if none has one, the time of the last change of the file, as in a stock broker.

        Raises OSError.
        """
        return self.max_timestamp_ms if self.max_timestamp_ms >= 0 else self.modified_ms()

    def modified_ms(self) -> int:
        """Time of the last change of the file, in milliseconds since 1970. Raises OSError."""
        return self.files.modified_ms(self.fd)

    # -- closing

    def sync(self) -> None:
        """Make the segment and its indexes durable. Raises OSError."""
        self.sync_batches()
        self.offsets.sync()
        self.times.sync()
        self.aborted.sync()

    def sync_batches(self) -> None:
        """Make its batches durable, without indexes. Raises OSError."""
        sync_data(self.fd, self.files)

    def evict(self) -> None:
        """After a failed sync: the next process reads what is on the disk.

        The kernel counts the pages that it could not write as clean, so that another sync would succeed without them.
        """
        with contextlib.suppress(OSError):
            self.files.fadvise_dontneed(self.fd)

    def close(self) -> None:
        """Close the file, without syncing."""
        if self.fd >= 0:
            self.files.close(self.fd)
            self.fd = -1

    def paths(self) -> tuple[Path, ...]:
        """Paths of all its files; the last one may not exist."""
        return self.path, self.offsets.path, self.times.path, self.aborted.path

    def rename(self, old_suffix: str, new_suffix: str) -> None:
        """Change the suffix of the file names.

        The log is renamed first, as in a stock broker: after a kill it is never without its transaction index, which may not
        exist if no transaction was aborted. Indexes without a log are removed, or follow it, when the log is opened.
        """
        target = _with_suffix(self.path, old_suffix, new_suffix)
        if self.files.exists(self.path):
            self.files.rename(self.path, target)
        self.path = target
        for index in (self.offsets, self.times, self.aborted):
            index.rename(_with_suffix(index.path, old_suffix, new_suffix))

    def _note_timestamp(self, timestamp_ms: int, last_offset: int) -> None:
        if timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms, self.max_timestamp_offset = timestamp_ms, last_offset

    def _damaged(self, error: BrokenBatch) -> DamagedLog:
        return DamagedLog(
            f"{self.path} is damaged at {error}. Nothing was truncated. {HOW_TO_REPLACE}"
        )


def _with_suffix(path: Path, old: str, new: str) -> Path:
    return path.with_name(path.name.removesuffix(old) + new)
