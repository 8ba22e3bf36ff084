"""The data source `metadata_snapshot`: the records of snapshots of a metadata log.

    spark.dataSource.register(MetadataSnapshot)
    (spark.read.format("metadata_snapshot").load("/var/lib/node/__cluster_metadata-0")
        .where("type = 'TopicRecord'").select("snapshot", "topic.name").show())

The path is a `.checkpoint` file, or a directory: then each snapshot in it is read, as a task of its own; `latest` set to
true reads the newest only. Columns are those of `metadata_log` and `snapshot`, the id (END_OFFSET-EPOCH); offsets count
from 0 within a snapshot. A snapshot that is not whole (no footer, a wrong checksum) fails the query and is named.

Owns the link between Spark and `files`; decodes nothing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.log_directory import open_log
from quorum_pipeline.files.log_rows import checked
from quorum_pipeline.files.snapshot_file import SnapshotFile, open_snapshot
from quorum_pipeline.rows.arrow import record_batch
from quorum_pipeline.rows.table import Rows, table_ddl

_ROWS_AT_ONCE = 10_000
_NO_END = (1 << 63) - 1


@dataclass(frozen=True)
class SnapshotPartition(InputPartition):
    """One task: one file."""

    file: SnapshotFile


class MetadataSnapshot(DataSource):
    """See the module."""

    @classmethod
    def name(cls) -> str:
        """For `format(...)`."""
        return "metadata_snapshot"

    def schema(self) -> str:
        """Every column."""
        return "`snapshot` string, " + table_ddl()

    def reader(self, schema: StructType) -> DataSourceReader:
        """For a batch query."""
        return SnapshotSourceReader(snapshot_files(self.options), schema)


class SnapshotSourceReader(DataSourceReader):
    """Reads files side by side."""

    def __init__(self, files: list[SnapshotFile], schema: StructType) -> None:
        self._files = files
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """A task for each file."""
        return [SnapshotPartition(file) for file in self._files]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """On an executor."""
        assert isinstance(partition, SnapshotPartition)
        file, schema = partition.file, to_arrow_schema(self._schema, timezone="UTC")
        rows = Rows(str(file.path))
        for position, batch in file.batches():
            rows.add(batch, position, 0, _NO_END)
            if len(rows) >= _ROWS_AT_ONCE:
                yield _with_id(rows, str(file.id), schema)
                rows = Rows(str(file.path))
        yield _with_id(rows, str(file.id), schema)


def snapshot_files(options: Mapping[str, str]) -> list[SnapshotFile]:
    """The files that are meant. Raises PipelineError."""
    given = {name.lower(): value for name, value in options.items()}
    unknown = sorted(given.keys() - {"path", "latest"})
    if unknown:
        raise PipelineError(f"unknown option {unknown[0]!r}; there are path and latest")
    if not given.get("path"):
        raise PipelineError(
            "the option path is missing: a snapshot, or a directory that holds some"
        )
    path = Path(given["path"].removeprefix("file://"))
    if path.is_file():
        return [open_snapshot(path)]
    log = open_log(path)
    if not log.snapshots:
        raise PipelineError(f"{log.path} holds no snapshot")
    latest = given.get("latest", "false").lower() == "true"
    wanted = log.snapshots[-1:] if latest else log.snapshots
    return [SnapshotFile(log.path / each.file_name, each) for each in wanted]


def _with_id(rows: Rows, id: str, schema: pa.Schema) -> pa.RecordBatch:
    others = pa.schema([each for each in schema if each.name != "snapshot"])
    made = record_batch(checked(rows, keep_problems=False), others)
    columns = [
        pa.array([id] * len(rows), type=each.type)
        if each.name == "snapshot"
        else made.column(each.name)
        for each in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
