"""The data source `metadata_snapshot`: the records of snapshots of a metadata log.

    spark.dataSource.register(MetadataSnapshot)
    (spark.read.format("metadata_snapshot").load("/var/lib/node/__cluster_metadata-0")
        .where("type = 'TopicRecord'").select("snapshot", "topic.name").show())

    spark.read.format("metadata_snapshot").option("bootstrap", "controller-0:9093").load().count()

The path is a `.checkpoint` file, or a directory: then each snapshot in it is read by a separate task; `latest` set to
true reads only the newest. `bootstrap` instead of a path names controllers of a running quorum: the leader's newest
snapshot is fetched and verified before any of its records is returned; `tls` and `commandConfig` are as for
`metadata_log`. Columns are those of `metadata_log` and `snapshot`, the id (END_OFFSET-EPOCH); offsets count
from 0 within a snapshot. An incomplete snapshot (no footer, a wrong checksum) fails the query with an error that names it.

Owns the link between Spark, `files` and `live`; decodes nothing. Every session registers the source, so its
dependencies are imported only when it reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from quorum_pipeline.errors import PipelineError
from quorum_pipeline.live.controllers import Controllers
from quorum_pipeline.spark.options import check_credentials, controllers_in, path_in
from quorum_pipeline.spark.requested_columns import requested_columns

if TYPE_CHECKING:
    import pyarrow as pa

    from quorum_pipeline.files.snapshot_file import SnapshotFile
    from quorum_pipeline.rows.gathering import Gathering

_NO_END = (1 << 63) - 1


class SnapshotTask(InputPartition):
    """A task that reads one snapshot."""

    def opened(self) -> AbstractContextManager[tuple[str, SnapshotFile]]:
        """Open a context with the name of the source, and the file. Raises PipelineError."""
        raise NotImplementedError


@dataclass(frozen=True)
class FileTask(SnapshotTask):
    """A task that reads a local file."""

    file: SnapshotFile

    @contextmanager
    def opened(self) -> Iterator[tuple[str, SnapshotFile]]:
        """See SnapshotTask."""
        yield str(self.file.path), self.file


@dataclass(frozen=True)
class FetchSnapshotTask(SnapshotTask):
    """A task that fetches the newest snapshot of a running quorum."""

    controllers: Controllers

    @contextmanager
    def opened(self) -> Iterator[tuple[str, SnapshotFile]]:
        """See SnapshotTask."""
        from quorum_pipeline.live.snapshots import download_snapshot

        with (
            closing(self.controllers.open()) as quorum,
            TemporaryDirectory(prefix="quorum-pipeline-") as scratch,
        ):
            file = download_snapshot(quorum, Path(scratch))
            yield quorum.leader, file


class MetadataSnapshot(DataSource):
    """See the module."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)`."""
        return "metadata_snapshot"

    def schema(self) -> str:
        """Return all columns as DDL."""
        from quorum_pipeline.rows.table import table_ddl

        return "`snapshot` string, " + table_ddl()

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch query."""
        return SnapshotSourceReader(snapshot_tasks(self.options), schema)


class SnapshotSourceReader(DataSourceReader):
    """Reads snapshots in parallel."""

    def __init__(self, tasks: list[InputPartition], schema: StructType) -> None:
        self._tasks = tasks
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """Return one task per snapshot."""
        return self._tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one snapshot, on an executor."""
        from quorum_pipeline.rows.gathering import Gathering
        from quorum_pipeline.rows.table import table_columns

        assert isinstance(partition, SnapshotTask)
        schema = requested_columns(self._schema, {"snapshot": "string", **table_columns()})
        with partition.opened() as (source, file):
            rows = Gathering(source)
            for position, batch in file.batches():
                rows.add(batch, position, 0, _NO_END)
                if rows.is_enough:
                    yield from _with_id(rows, str(file.id), schema)
            yield from _with_id(rows, str(file.id), schema)


def snapshot_tasks(options: Mapping[str, str]) -> list[InputPartition]:
    """Return one task for each snapshot that the options name. Raises PipelineError."""
    given = {name.lower(): value for name, value in options.items()}
    unknown = sorted(given.keys() - {"path", "latest", "bootstrap", "tls", "commandconfig"})
    if unknown:
        raise PipelineError(
            f"unknown option {unknown[0]!r}; there are path, latest, bootstrap, tls and commandConfig"
        )
    if bool(given.get("path")) == bool(given.get("bootstrap")):
        raise PipelineError(
            "specify either the path of a snapshot, or of a directory with snapshots, or bootstrap: host:port"
            " of controllers"
        )
    if given.get("bootstrap"):
        return [FetchSnapshotTask(controllers_in(given))]
    latest = given.get("latest", "false").lower()
    if latest not in ("true", "false"):
        raise PipelineError(f"latest is {latest!r}; it is true or false")
    check_credentials(given)
    return [FileTask(file) for file in _files(path_in(given), latest=latest == "true")]


def _files(path: Path, *, latest: bool) -> list[SnapshotFile]:
    from quorum_pipeline.files.log_directory import open_log
    from quorum_pipeline.files.snapshot_file import SnapshotFile, open_snapshot

    if path.is_file():
        return [open_snapshot(path)]
    log = open_log(path)
    if not log.snapshots:
        raise PipelineError(f"{log.path} contains no snapshot")
    wanted = log.snapshots[-1:] if latest else log.snapshots
    return [SnapshotFile(log.path / each.file_name, each) for each in wanted]


def _with_id(gathered: Gathering, id: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    from quorum_pipeline.files.log_rows import checked
    from quorum_pipeline.rows.arrow import record_batch

    others = pa.schema([each for each in schema if each.name != "snapshot"])
    for rows in checked(gathered.take(), keep_problems=False):
        made = record_batch(rows, others)
        columns = [
            pa.array([id] * len(rows), type=each.type)
            if each.name == "snapshot"
            else made.column(each.name)
            for each in schema
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
