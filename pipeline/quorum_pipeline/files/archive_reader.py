"""Reads the content of an archive, wherever it is.

`archive/layout.py` decides what counts. Must not know Spark: subclasses read archives elsewhere, like
`spark/archive.py`.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pyarrow.parquet as pq

from quorum_node.records.snapshot_id import parse_snapshot_name
from quorum_pipeline.archive.damage import REMOVED, damaged
from quorum_pipeline.archive.layout import (
    MARKER,
    MERGED,
    RECORDS,
    SNAPSHOTS,
    STATES,
    Marker,
    OffsetRange,
    parse_directory,
    parse_marker,
    parse_state,
    tiles,
)
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.archived_batch import BatchIdentity, archived_batch
from quorum_pipeline.files.archived_records import FileGroup, groups_by_footer
from quorum_pipeline.files.fetched import ArchiveTask, Fetched
from quorum_pipeline.files.local_files import StoredFile
from quorum_pipeline.files.sealed_file import is_parquet, read_footer
from quorum_pipeline.files.snapshot_file import SnapshotFile, open_snapshot
from quorum_pipeline.redaction import redacted

_TRIES = 5
"""Number of reads of the content: each further one means that a merge was completed since the last one."""
_FOOTERS_AT_ONCE = 8
"""Number of concurrent reads of footers: waiting for an object store takes longer than the work."""


class ArchiveFiles(Protocol):
    """Small files of an archive, by URI or path. Every call may raise PipelineError, OSError."""

    def local_path(self, directory: str) -> Path | None:
        """The path in a mounted file system; None for other file systems."""

    def list(self, directory: str) -> list[str]:
        """Names in a directory, sorted; empty if there is none."""

    def stored(self, directory: str) -> tuple[StoredFile, ...]:
        """Files in a directory, sorted by name; empty if there is none."""

    def read(self, file: str) -> str | None:
        """Text of a file; None if it does not exist."""

    def tail(self, file: str, size_bytes: int) -> bytes:
        """The end of a file, or all of it if it is shorter."""

    def fetch(self, file: str, scratch: Path) -> Path:
        """Path of the file on this machine: itself, or a copy in `scratch`."""


class DirectoryGone(PipelineError):
    """A directory that was complete is being deleted, or was: it was merged into another one, or it was a state that is not kept."""

    def __init__(self, directory: str) -> None:
        super().__init__(f"{directory} was deleted while it was read: run the command again")


@dataclass(frozen=True, slots=True)
class Archived:
    """Content of an archive: offsets from `start` on and below `end`."""

    start: int
    end: int
    ranges: tuple[OffsetRange, ...]
    quarantined: int


class ArchiveReader:
    """An archive at a URI. Every call may raise PipelineError, OSError."""

    def __init__(self, files: ArchiveFiles, uri: str) -> None:
        self._files = files
        self._uri = uri.rstrip("/")
        self._local = files.local_path(self._uri)
        self._known: dict[OffsetRange, Marker] | None = None

    @contextmanager
    def remembering(self) -> Iterator[None]:
        """Read the marker of each range only once in the context. Only for the only writer, as a range may be deleted by another.
        Otherwise a writer that follows a log would read all of them after each range.
        """
        self._known = {}
        try:
            yield
        finally:
            self._known = None

    @property
    def uri(self) -> str:
        """URI of the archive."""
        return self._uri

    @property
    def name(self) -> str:
        """Place of the archive, as it is shown: without credentials."""
        return redacted(self._local or self._uri)

    @property
    def mounted(self) -> Path | None:
        """Path of the archive in a mounted file system; None if only Hadoop can read it."""
        return self._local

    def task(
        self, task: ArchiveTask, files: Iterable[str], texts: Iterable[tuple[str, str]] = ()
    ) -> Any:
        """Prepare a task with paths relative to the archive for an executor. `files`, and `texts` with their names: all files
        that it reads.
        """
        if self._local is not None:
            return task.under(self._local)
        return Fetched(task, self._uri, tuple(files), tuple(texts))

    def names(self, directory: str) -> list[str]:
        """Sorted names in a directory, which is relative to the archive; empty if it does not exist."""
        return self._files.list(f"{self._uri}/{directory}")

    def stored(self, directory: str) -> tuple[StoredFile, ...]:
        """Files in a directory, which is relative to the archive; empty if there is none."""
        return self._files.stored(f"{self._uri}/{directory}")

    def text(self, file: str) -> str | None:
        """Text of a small file, which is relative to the archive; None if it does not exist."""
        return self._files.read(f"{self._uri}/{file}")

    def parquet_names(self, directory: str) -> list[str]:
        """Names of the Parquet files in a directory, which is relative to the archive."""
        return [each for each in self.names(directory) if is_parquet(each)]

    def parquet_files(self, directory: str) -> list[str]:
        """The same files, relative to the archive."""
        return [f"{directory}/{name}" for name in self.parquet_names(directory)]

    def size_bytes(self) -> int:
        """Size of the archived records."""
        kept = (self.stored(f"{RECORDS}/{each}") for each in self.names(RECORDS))
        return sum(each.size_bytes for files in kept for each in files if is_parquet(each.name))

    def footer(self, file: str) -> pq.FileMetaData:
        """Footer of a Parquet file, which is relative to the archive; only the end of the file is read."""
        path = f"{self._uri}/{file}"
        return read_footer(path, partial(self._files.tail, path))

    def groups(self, range: OffsetRange) -> list[FileGroup]:
        """The files of a range's records in order, grouped where their offsets overlap. Only footers are read."""
        directory = f"{RECORDS}/{range.directory}"
        files = self.parquet_files(directory)
        with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
            found = list(zip(files, pool.map(self.footer, files), strict=True))
        return groups_by_footer(f"{self._uri}/{directory}", range, self.marker(range).rows, found)

    def contents(self) -> Archived:
        """The current content."""
        ranges, quarantined = self._settled(self._quarantined)
        if not ranges:
            return Archived(0, 0, (), 0)
        return Archived(ranges[0].start, ranges[-1].end, tuple(ranges), quarantined)

    def ranges(self) -> list[OffsetRange]:
        """The valid ranges, in order and contiguous."""
        return self._settled(lambda ranges: 0)[0]

    def are_readable(self, ranges: Iterable[OffsetRange]) -> bool:
        """Whether these ranges, which were valid, can still be read where they were, or where a mounted archive keeps merged ones."""
        missing = set(ranges) - set(self.ranges())
        merged = f"{RECORDS}/{MERGED}"
        return all(MARKER in self.names(f"{merged}/{each.directory}") for each in missing)

    def _quarantined(self, ranges: list[OffsetRange]) -> int:
        return sum(self.marker(each).quarantined for each in ranges)

    def _settled(self, count: Callable[[list[OffsetRange]], int]) -> tuple[list[OffsetRange], int]:
        """The valid ranges, and a number that is counted in them; both again if ranges were merged meanwhile."""
        for _ in range(_TRIES - 1):
            names = self._range_names()
            try:
                ranges, obsolete = self._tiles(names)
                found = count(ranges)
            except DirectoryGone:
                continue
            except PipelineError:
                if names == self._range_names():
                    raise
                continue
            # A range without a marker was deleted since it was listed, or is incomplete.
            all_are_there = len(ranges) + len(obsolete) == len(_parsed(names))
            if all_are_there or names == self._range_names():
                return ranges, found
        ranges, _ = self._tiles()
        return ranges, count(ranges)

    def snapshot(self, scratch: Path) -> SnapshotFile | None:
        """The snapshot before the first record, copied to a directory if necessary; None if the log began at 0
        without one.
        """
        directory = f"{self._uri}/{SNAPSHOTS}"
        names = self._files.list(directory)
        return (
            open_snapshot(self._files.fetch(f"{directory}/{names[-1]}", scratch)) if names else None
        )

    def known_end(self) -> int:
        """End offset of the snapshot before the first record, by its name; 0 without one."""
        names = self._files.list(f"{self._uri}/{SNAPSHOTS}")
        known = parse_snapshot_name(names[-1]) if names else None
        return 0 if known is None else known.end_offset

    def check_complete(self, found: Archived, end_offset: int | None) -> None:
        """Raise PipelineError unless all records below an offset exist (None: the end)."""
        if found.quarantined:
            raise PipelineError(
                f"{found.quarantined} records of {self._uri} are in quarantine: no state can be computed without them. Use"
                " the log of another replica (--log) or --bootstrap"
            )
        self._check_there(found, found.end if end_offset is None else end_offset)

    def check_beginning(self, found: Archived, known_end: int) -> None:
        """Raise PipelineError if records are missing between `known_end` and the first archived record."""
        if known_end < found.start:
            raise PipelineError(
                f"{self._uri} lacks offsets {known_end} to {found.start} but has later ones: {REMOVED}"
            )

    def check_new(self, snapshot: str | None) -> None:
        """Raise PipelineError if an archive without records has a whole state, or a snapshot behind the one that is to be stored
        (`snapshot`: its name): they are of other records, and would be taken for the state before those to come.
        """
        states = [
            f"{STATES}/{name}" for name in self.names(STATES) if parse_state(name) is not None
        ]
        of_removed = [each for each in states if MARKER in self.names(each)]
        last = self.names(SNAPSHOTS)[-1:]
        if last and (snapshot is None or last[0] > snapshot):
            of_removed.append(f"{SNAPSHOTS}/{last[0]}")
        if of_removed:
            raise PipelineError(
                f"{self._uri} has no records, but {of_removed[0]} of earlier ones: {REMOVED}"
            )

    def batch_of(self, offset: int) -> BatchIdentity | None:
        """Identity of an archived record's batch; None if the record is missing or in quarantine."""
        for each in self.contents().ranges:
            if each.start <= offset < each.end:
                return self._batch_in(each, offset)
        return None

    def _batch_in(self, range: OffsetRange, offset: int) -> BatchIdentity | None:
        assert self._local is not None, "the archive is in the local file system"
        return archived_batch(self._local / RECORDS / range.directory, offset)

    def place_of(self, offset: int) -> str:
        """Name of the directory that contains a record."""
        found = (each for each in self.contents().ranges if each.start <= offset < each.end)
        return next((self._directory(RECORDS, each) for each in found), self._uri)

    def _check_there(self, found: Archived, end_offset: int) -> None:
        if not found.start <= end_offset <= found.end:
            raise PipelineError(
                f"the archive at {self._uri} has offsets {found.start} to {found.end}, not {end_offset}"
            )
        if not found.ranges:
            raise self._empty()

    def _empty(self) -> PipelineError:
        return PipelineError(f"{self._uri} is not an archive, or is empty")

    def _range_names(self) -> list[str]:
        return self._files.list(f"{self._uri}/{RECORDS}")

    def _tiles(self, names: list[str] | None = None) -> tuple[list[OffsetRange], list[OffsetRange]]:
        ranges = _parsed(self._range_names() if names is None else names)
        complete = [each for each in ranges if self._is_complete(each)]
        counting, others = tiles(complete)
        end = counting[-1].end if counting else 0
        behind = min((each.start for each in others if each.start >= end), default=end)
        if behind > end:
            raise PipelineError(
                f"{self._uri} lacks offsets {end} to {behind} but has later ones: {REMOVED}"
            )
        return counting, others

    def _is_complete(self, range: OffsetRange) -> bool:
        is_known = self._known is not None and range in self._known
        return is_known or MARKER in self._files.list(self._directory(RECORDS, range))

    def marker(self, range: OffsetRange) -> Marker:
        """Marker of a range. Raises PipelineError; DirectoryGone if the range is not complete any more."""
        if self._known is not None and range in self._known:
            return self._known[range]
        directory = self._directory(RECORDS, range)
        path = f"{directory}/{MARKER}"
        text = self._files.read(path)
        if text is None:
            raise DirectoryGone(directory)
        try:
            found = parse_marker(text)
        except ValueError:
            raise PipelineError(damaged(path)) from None
        if self._known is not None:
            self._known[range] = found
        return found

    def _directory(self, table: str, range: OffsetRange) -> str:
        return f"{self._uri}/{table}/{range.directory}"


def _parsed(names: Iterable[str]) -> list[OffsetRange]:
    return [each for each in map(parse_directory, names) if each is not None]
