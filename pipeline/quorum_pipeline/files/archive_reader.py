"""Reads the content of an archive, wherever it is.

`archive/layout.py` decides what counts. Must not know Spark: subclasses read archives elsewhere, like
`spark/archive.py`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from quorum_pipeline.archive.layout import (
    MARKER,
    RECORDS,
    SNAPSHOTS,
    Marker,
    OffsetRange,
    parse_directory,
    parse_marker,
    tiles,
)
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.archived_batch import BatchIdentity, archived_batch
from quorum_pipeline.files.archived_records import read_records
from quorum_pipeline.files.local_files import StoredFile
from quorum_pipeline.files.snapshot_file import SnapshotFile, open_snapshot
from quorum_pipeline.state.log_columns import LogColumns


class ArchiveFiles(Protocol):
    """Small files of an archive, by URI or path. Every call may raise PipelineError, OSError."""

    def local_path(self, directory: str) -> Path | None:
        """Where it lies for everybody who mounts it; None on any other kind of file system."""

    def list(self, directory: str) -> list[str]:
        """Names in a directory, sorted; empty if there is none."""

    def stored(self, directory: str) -> tuple[StoredFile, ...]:
        """Files in a directory, sorted by name; empty if there is none."""

    def read(self, file: str) -> str | None:
        """Its text, None if there is no such file."""

    def fetch(self, file: str, scratch: Path) -> Path:
        """The file, on this machine: itself, or a copy in a directory."""


@dataclass(frozen=True, slots=True)
class Archived:
    """What an archive holds: offsets from `start` on and below `end`."""

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

    def contents(self) -> Archived:
        """The current content."""
        ranges, _ = self._tiles()
        quarantined = sum(self.marker(each).quarantined for each in ranges)
        if not ranges:
            return Archived(0, 0, (), 0)
        return Archived(ranges[0].start, ranges[-1].end, tuple(ranges), quarantined)

    def ranges(self) -> list[OffsetRange]:
        """The ranges that count, in order and contiguous."""
        return self._tiles()[0]

    def snapshot(self, scratch: Path) -> SnapshotFile | None:
        """The snapshot before the first record, copied to a directory if necessary; None if the log began at 0
        without one.
        """
        directory = f"{self._uri}/{SNAPSHOTS}"
        names = self._files.list(directory)
        return (
            open_snapshot(self._files.fetch(f"{directory}/{names[-1]}", scratch)) if names else None
        )

    def log_columns(self, end_offset: int | None, parallel_stages: int = 1) -> Iterator[LogColumns]:
        """All records below an offset, in order, those of one task at a time. `parallel_stages`: files that are read at a
        time.

        Raises PipelineError, also if there are none, or some are in quarantine.
        """
        found = self.contents()
        self.check_complete(found, end_offset)
        limit = found.end if end_offset is None else end_offset
        for each in found.ranges:
            if each.start < limit:
                try:
                    for columns in self._counted(each, parallel_stages):
                        yield columns if each.end <= limit else columns.before_offset(limit)
                except PipelineError as error:
                    raise PipelineError(
                        f"offsets {each.start} to {each.end} of {self._uri} can't be read: {error}"
                    ) from None

    def _counted(self, range: OffsetRange, parallel_stages: int) -> Iterator[LogColumns]:
        """The columns of a range. Raises PipelineError at its end if they are not as many as its marker says."""
        found, expected = 0, self.marker(range).rows
        for columns in self._columns_of(range, parallel_stages):
            found += len(columns)
            yield columns
        if found != expected:
            raise PipelineError(
                f"there are {found} records, and the marker says {expected}: files were removed, added or replaced"
            )

    def check_complete(self, found: Archived, end_offset: int | None) -> None:
        """Raises PipelineError if there are not all records below an offset (None: the end)."""
        if found.quarantined:
            raise PipelineError(
                f"{found.quarantined} records of {self._uri} are in quarantine: no state can be computed without them"
            )
        self._check_there(found, found.end if end_offset is None else end_offset)

    def check_beginning(self, found: Archived, known_end: int) -> None:
        """Raises PipelineError if records are missing behind what is known before the first one: that up to an offset."""
        if known_end < found.start:
            raise PipelineError(
                f"{self._uri} lacks offsets {known_end} to {found.start} but has later ones: directories were removed"
            )

    def batch_of(self, offset: int) -> BatchIdentity | None:
        """That of an archived record; None if it is not there, or in quarantine."""
        for each in self.contents().ranges:
            if each.start <= offset < each.end:
                return self._batch_in(each, offset)
        return None

    def _batch_in(self, range: OffsetRange, offset: int) -> BatchIdentity | None:
        assert self._local is not None, "the archive is in the local file system"
        return archived_batch(self._local / RECORDS / range.directory, offset)

    def place_of(self, offset: int) -> str:
        """The directory that a record is in."""
        found = (each for each in self.contents().ranges if each.start <= offset < each.end)
        return next((self._directory(RECORDS, each) for each in found), self._uri)

    def _columns_of(self, range: OffsetRange, parallel_stages: int) -> Iterator[LogColumns]:
        assert self._local is not None, "the archive is in the local file system"
        return read_records(self._local / RECORDS / range.directory, parallel_stages)

    def _check_there(self, found: Archived, end_offset: int) -> None:
        if not found.start <= end_offset <= found.end:
            raise PipelineError(
                f"the archive at {self._uri} has offsets {found.start} to {found.end}, not {end_offset}"
            )
        if not found.ranges:
            raise self._empty()

    def _empty(self) -> PipelineError:
        return PipelineError(f"{self._uri} is not an archive, or is empty")

    def _tiles(self) -> tuple[list[OffsetRange], list[OffsetRange]]:
        names = self._files.list(f"{self._uri}/{RECORDS}")
        ranges = [each for each in map(parse_directory, names) if each is not None]
        complete = [r for r in ranges if MARKER in self._files.list(self._directory(RECORDS, r))]
        counting, others = tiles(complete)
        end = counting[-1].end if counting else 0
        behind = min((each.start for each in others if each.start >= end), default=end)
        if behind > end:
            raise PipelineError(
                f"{self._uri} lacks offsets {end} to {behind} but has later ones: directories were removed"
            )
        return counting, others

    def marker(self, range: OffsetRange) -> Marker:
        """What the marker of a range says. Raises PipelineError."""
        path = f"{self._directory(RECORDS, range)}/{MARKER}"
        try:
            return parse_marker(self._files.read(path) or "")
        except ValueError:
            raise PipelineError(f"{path} is damaged") from None

    def _directory(self, table: str, range: OffsetRange) -> str:
        return f"{self._uri}/{table}/{range.directory}"
