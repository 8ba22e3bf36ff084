"""Versions of rows in a file system that executors do not mount: an object store, HDFS, any Hadoop URI.

Like `files/version_files.py`, but a directory counts once it has its marker, which is written after the rename: an object store
renames by copying file after file.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from quorum_pipeline.archive.layout import (
    MARKER,
    WRITING,
    OffsetRange,
    marker_text,
    parse_directory,
)
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.version_files import (
    StoredVersions,
    StoredVersionsReader,
    WrittenFile,
    marker_of,
    unique_stem,
    write_versions,
)
from quorum_pipeline.spark.hadoop_files import HadoopFiles
from quorum_pipeline.spark.stored_files import FileStore, file_row
from quorum_pipeline.state.tables import STATE_TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from quorum_pipeline.spark.versions_job import Step

_FILES = "files"


class HadoopVersionStore(StoredVersionsReader):
    """Like `VersionStore`, for any URI. Every call may also raise Spark's errors."""

    _files: HadoopFiles

    def __init__(self, session: SparkSession, uri: str) -> None:
        super().__init__(HadoopFiles(session.sparkContext), uri.rstrip("/"))
        self._store = FileStore(session, self._files)

    def write(self, offsets: OffsetRange, step: Step) -> list[WrittenFile]:
        """Write versions to an empty directory, which does not count yet. Files of an interrupted run are deleted."""
        self._files.delete(f"{self._uri}/{WRITING}")
        for each in map(parse_directory, self._files.list(self._uri)):
            if each is not None and not self._counts(each):
                self._files.delete(f"{self._uri}/{each.directory}")
        context = self._store.session.sparkContext
        made, files = step.make()
        with TemporaryDirectory(prefix="quorum-pipeline-") as scratch:
            of_voters = write_versions(Path(scratch), step.voters, unique_stem())
            rows = [file_row(Path(scratch), each.table, each.name) for each in of_voters]
        made = made.union(context.parallelize(rows, 1)) if rows else made
        directory = self._unfinished(offsets)
        targets = {each.name: f"{directory}/{each.name}" for each in STATE_TABLES}
        self._store.write(made, f"{self._uri}/{WRITING}/{_FILES}", targets)
        return files + of_voters

    def complete(self, found: StoredVersions) -> None:
        """Make the directory valid."""
        final = f"{self._uri}/{found.offsets.directory}"
        if self._files.list(final):
            raise PipelineError(f"{final} exists already")
        if found.files:
            self._files.rename(self._unfinished(found.offsets), final)
        self._files.write(f"{final}/{MARKER}", marker_text(marker_of(found)))
        self._files.delete(f"{self._uri}/{WRITING}")

    def _counts(self, offsets: OffsetRange) -> bool:
        return MARKER in self._files.list(f"{self._uri}/{offsets.directory}")

    def _unfinished(self, offsets: OffsetRange) -> str:
        return f"{self._uri}/{WRITING}/{offsets.directory}"
