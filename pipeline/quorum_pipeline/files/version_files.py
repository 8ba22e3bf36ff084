"""Versions of rows as Parquet files, in directories that exist completely or not at all.

    offsets=START-END/TABLE/part-….parquet    the versions that begin behind a record of these offsets
    offsets=START-END/_COMPLETE               its files and numbers of rows

A directory is written under `_writing`, which readers ignore, and gets its name when it is complete. So an interrupted
run leaves no valid data, and the next run deletes its files. `spark/version_store.py` does the same in other file systems. Files have the checksum of their footer in the name. Must not
know Spark, nor how versions are computed.
"""

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from quorum_pipeline.archive.layout import (
    MARKER,
    WRITING,
    OffsetRange,
    parse_directory,
    parsed_marker,
)
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.archive_reader import ArchiveFiles
from quorum_pipeline.files.local_files import FILE, LocalFiles
from quorum_pipeline.files.sealed_file import seal, sync_directory, write_marker
from quorum_pipeline.files.table_files import ARROW_TYPES
from quorum_pipeline.rows.ddl import ddl_of
from quorum_pipeline.state.tables import STATE_TABLES, Row, StateTable, table_named
from quorum_pipeline.state.versions import Version, columns_of

_ROWS_AT_ONCE = 50_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
VERSION_COLUMNS = {"valid_from": "bigint", "valid_from_time": "timestamp", "deleted": "boolean"}
"""Columns of a version in addition to those of its table."""


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file of a table, and its number of versions."""

    table: str
    name: str
    rows: int


@dataclass(frozen=True, slots=True)
class StoredVersions:
    """A complete directory. `last`: epoch and CRC-32 of the record before `offsets.end`, None if that record was missing."""

    offsets: OffsetRange
    files: tuple[WrittenFile, ...]
    last: tuple[int, int] | None


def version_row(version: Version) -> Row:
    """Return the columns of a version; for a deleted row only those of the key."""
    table = table_named(version.table)
    row = version.row
    if row is None:
        row = dict.fromkeys(columns_of(table)) | dict(zip(table.key, version.key, strict=True))
    return {
        **row,
        "valid_from": version.valid_from,
        "valid_from_time": _time(version.time_ms),
        "deleted": version.row is None,
    }


def _time(time_ms: int) -> datetime | None:
    """Return a time; None outside of the calendar's range."""
    try:
        return _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return None


def version_schema(table: StateTable) -> pa.Schema:
    """Schema of a table's files."""
    columns = [(name, ARROW_TYPES[kind]) for name, kind in columns_of(table).items()]
    time = pa.timestamp("us", "UTC")
    return pa.schema(
        [*columns, ("valid_from", pa.int64()), ("valid_from_time", time), ("deleted", pa.bool_())]
    )


def version_ddl(table: StateTable) -> str:
    """Columns of stored versions as DDL for a Spark schema."""
    return ddl_of(columns_of(table) | VERSION_COLUMNS)


def unique_stem() -> str:
    """Begin of the name of files that a task and its repetitions write to the same directory."""
    return f"part-{uuid4()}"


def write_versions(directory: Path, versions: Iterable[Version], stem: str) -> list[WrittenFile]:
    """Write a file for each table, whose name begins with `stem`. Raises OSError, and errors of `versions`."""
    waiting: dict[str, list[Row]] = {}
    counts: dict[str, int] = {}
    with ExitStack() as opened:
        writers: dict[str, Any] = {}

        def write(name: str) -> None:
            table = table_named(name)
            schema, path = version_schema(table), _unfinished(directory, name, stem)
            if name not in writers:
                path.parent.mkdir(parents=True, exist_ok=True)
                options = {"compression": "zstd", "write_page_checksum": True}
                writers[name] = opened.enter_context(pq.ParquetWriter(path, schema, **options))
            rows = waiting.pop(name)
            counts[name] = counts.get(name, 0) + len(rows)
            writers[name].write_table(pa.Table.from_pylist(rows, schema=schema))

        for each in versions:
            rows = waiting.setdefault(each.table, [])
            rows.append(version_row(each))
            if len(rows) >= _ROWS_AT_ONCE:
                write(each.table)
        for name in list(waiting):
            write(name)
    return [
        WrittenFile(name, seal(_unfinished(directory, name, stem), stem), rows)
        for name, rows in counts.items()
    ]


def _unfinished(directory: Path, table: str, stem: str) -> Path:
    return directory / table / f".{stem}.parquet"


class StoredVersionsReader:
    """Versions in a directory of any file system, by a path or URI. Every call may raise PipelineError, OSError."""

    _scheme = ""
    """In front of names of files for Spark."""

    def __init__(self, files: ArchiveFiles, uri: str) -> None:
        self._files, self._uri = files, uri

    @property
    def name(self) -> str:
        """Path or URI of the directory."""
        return self._uri

    def stored(self) -> list[StoredVersions]:
        """The complete directories, in order and contiguous."""
        names = self._files.list(self._uri)
        ranges = [found for found in map(parse_directory, names) if found and self._counts(found)]
        for earlier, later in pairwise(ranges):
            if earlier.end != later.start:
                raise PipelineError(
                    f"{self._uri} has offsets up to {earlier.end}, and the next ones from {later.start}: directories "
                    "were removed or added. Restore them from a copy, or write the versions into an empty directory"
                )
        return [self._stored(each) for each in ranges]

    def paths(self, table: str, of: Iterable[StoredVersions] | None = None) -> list[str]:
        """The files of a table, as Spark finds them; only those of some directories with `of`."""
        return [
            f"{self._scheme}{self._uri}/{each.offsets.directory}/{table}/{file.name}"
            for each in (self.stored() if of is None else of)
            for file in each.files
            if file.table == table
        ]

    def _counts(self, offsets: OffsetRange) -> bool:
        """Whether a directory counts. In a mounted file system each one does."""
        return True

    def _stored(self, offsets: OffsetRange) -> StoredVersions:
        marker = f"{self._uri}/{offsets.directory}/{MARKER}"
        try:
            document = parsed_marker(self._files.read(marker) or "")
            files = tuple(WrittenFile(*each) for each in document["files"])
            last = (
                None
                if document["last"] is None
                else (int(document["last"][0]), int(document["last"][1]))
            )
        except (ValueError, KeyError, TypeError):
            raise PipelineError(
                f"{marker} is damaged or missing: restore the file from a copy of the directory"
            ) from None
        return StoredVersions(offsets, files, last)


def marker_of(found: StoredVersions) -> dict[str, Any]:
    """Return the content of the marker of a directory."""
    return {
        "files": [[each.table, each.name, each.rows] for each in found.files],
        "last": found.last,
    }


class VersionStep(Protocol):
    """Versions that are to be written."""

    def write(self, directory: Path) -> list[WrittenFile]:
        """Write them to a mounted directory; return the files. Raises PipelineError, OSError, and Spark's errors."""


class VersionStore(StoredVersionsReader):
    """A directory of a mounted file system, to which versions are added."""

    _scheme = FILE

    def __init__(self, root: Path) -> None:
        super().__init__(LocalFiles(), str(root.absolute()))
        self.root = root

    def write(self, offsets: OffsetRange, step: VersionStep) -> list[WrittenFile]:
        """Write versions to an empty directory, which does not count yet."""
        return step.write(self.begin(offsets))

    def begin(self, offsets: OffsetRange) -> Path:
        """Create an empty directory for executors to write to. Files of an interrupted run are deleted."""
        shutil.rmtree(self.root / WRITING, ignore_errors=True)
        directory = self.root / WRITING / offsets.directory
        directory.mkdir(parents=True)
        return directory

    def complete(self, found: StoredVersions) -> None:
        """Make the directory valid, and delete files of lost attempts."""
        directory = self.root / WRITING / found.offsets.directory
        names = {(each.table, each.name) for each in found.files}
        for table, name in sorted(names):
            if not (directory / table / name).is_file():
                raise PipelineError(
                    f"an executor wrote {directory / table / name}, which the driver can't see: all executors and the "
                    "driver have to mount this file system"
                )
        for path in directory.glob("*/*"):
            if (path.parent.name, path.name) not in names:
                path.unlink()
        write_marker(directory, marker_of(found))
        final = self.root / found.offsets.directory
        if final.exists():
            raise PipelineError(f"{final} exists already")
        for each in {path.parent for path in directory.glob("*/*")} | {directory}:
            sync_directory(each)
        os.rename(directory, final)
        sync_directory(self.root)
        shutil.rmtree(self.root / WRITING, ignore_errors=True)


def counts_of(found: Iterable[StoredVersions]) -> Iterator[tuple[str, int]]:
    """Yield each table with its number of versions."""
    files = [file for each in found for file in each.files]
    for table in STATE_TABLES:
        yield table.name, sum(each.rows for each in files if each.table == table.name)
