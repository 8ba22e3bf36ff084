"""The data source `metadata_archive`: the records of an archive that `quorum-pipeline archive` wrote.

    spark.read.format("metadata_archive").load("/var/lib/archive").groupBy("type").count().show()
    spark.readStream.format("metadata_archive").load("/var/lib/archive")

Only directories with a marker are read, and each record once, even while `archive --compact` merges directories. A range
with missing or damaged files is an error. A stream follows the archive as it grows.

Columns: those of `metadata_log` without `data`. Options:

    path                     the archive, in a file system that every executor mounts
    startOffset, endOffset   first offset, and end (exclusive); by default everything
    onProblem                fail (default): a record in quarantine fails the query; keep: it is a row with a `problem`
    maxRows                  streaming: maximum number of offsets in one micro batch; 1 000 000
    failOnDataLoss, minPartitions, and names of Spark's Kafka source: as for `metadata_log`
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from quorum_pipeline.errors import PipelineError
from quorum_pipeline.spark.log_source import LogReader, LogStreamReader
from quorum_pipeline.spark.options import archive_options
from quorum_pipeline.spark.origins import LogTask
from quorum_pipeline.spark.requested_columns import requested_columns

if TYPE_CHECKING:
    import pyarrow as pa

    from quorum_pipeline.files.archive_reader import Archived, ArchiveReader
    from quorum_pipeline.files.archived_batch import BatchIdentity

_NOT_ARCHIVED = "data"


class MetadataArchive(DataSource):
    """See the module."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)`."""
        return "metadata_archive"

    def schema(self) -> str:
        """Return all columns as DDL."""
        from quorum_pipeline.rows.table import table_ddl

        return table_ddl(_NOT_ARCHIVED)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch query."""
        options = archive_options(self.options)
        return LogReader(options, schema, ArchiveOrigin(options.named_path))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of a streaming query."""
        options = archive_options(self.options)
        return LogStreamReader(options, schema, ArchiveOrigin(options.named_path))


@dataclass(frozen=True)
class ArchiveTask(LogTask):
    """Offsets of an archive. The task looks up the files when it runs: they may have been merged since it was planned."""

    root: Path
    start: int
    end: int

    def batches(self, schema: StructType, *, keep_problems: bool) -> Iterator[pa.RecordBatch]:
        """See LogTask."""
        from quorum_pipeline.files.archived_rows import archived_rows
        from quorum_pipeline.rows.table import table_columns

        columns = {name: kind for name, kind in table_columns().items() if name != _NOT_ARCHIVED}
        requested = requested_columns(schema, columns)
        return archived_rows(
            self.root, self.start, self.end, requested, keep_problems=keep_problems
        )


class ArchiveOrigin:
    """An archive, as an Origin."""

    def __init__(self, root: Path) -> None:
        self.name = f"the archive at {root}"
        self._root = root

    def bounds(self) -> tuple[int, int]:
        """See Origin. The start is that of the first directory, also if it was removed: reading it is an error then."""
        found = self._contents()
        return min(found.start, self._reader().known_end()), found.end

    def tasks(self, start: int, end: int, least: int = 1) -> Sequence[LogTask]:
        """See Origin. At least one for each directory. Raises PipelineError if the first ones were removed."""
        found = self._contents()
        if start < found.start:
            self._reader().check_beginning(found, start)
        step = -(-(end - start) // least)
        return [
            ArchiveTask(self._root, begin, min(begin + step, each.end, end))
            for each in found.ranges
            for begin in range(max(each.start, start), min(each.end, end), step)
        ]

    def batch_at(self, offset: int) -> BatchIdentity | None:
        """See Origin."""
        return self._reader().batch_of(offset)

    def stamp(self, offset: int) -> list[int] | None:
        """See Origin. A range is written once."""
        return None

    def check_end(self) -> None:
        """See Origin. Nothing to check: only valid records are archived."""

    def _contents(self) -> Archived:
        found = self._reader().contents()
        if not found.ranges:
            raise PipelineError(f"{self._root} is not an archive, or is empty")
        return found

    def _reader(self) -> ArchiveReader:
        # Imported here: Spark imports every source to find one, and this one would load Arrow.
        from quorum_pipeline.files.archive_reader import ArchiveReader
        from quorum_pipeline.files.local_files import LocalFiles

        return ArchiveReader(LocalFiles(), str(self._root))
