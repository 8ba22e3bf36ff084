"""The data source `metadata_snapshot`: the records of snapshots of a metadata log.

    spark.dataSource.register(MetadataSnapshot)
    (spark.read.format("metadata_snapshot").load("/var/lib/node/__cluster_metadata-0")
        .where("type = 'TopicRecord'").select("snapshot", "topic.name").show())

    spark.read.format("metadata_snapshot").option("bootstrap", "controller-0:9093").load().count()

The path is a `.checkpoint` file, or a directory: then each snapshot in it is read, as a task of its own; `latest` set
to
true reads the newest only. `bootstrap` instead of a path names controllers of a running quorum: the newest snapshot of
whoever
leads is fetched and checked before anything of it is given out; `tls` or `commandConfig` beside it as of
`metadata_log`. Columns are those of `metadata_log` and `snapshot`, the id (END_OFFSET-EPOCH); offsets count
from 0 within a snapshot. A snapshot that is not whole (no footer, a wrong checksum) fails the query and is named.

Owns the link between Spark, `files` and `live`; decodes nothing. Every session registers it, so what it needs is
imported when it reads.
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
from quorum_pipeline.spark.asked_columns import asked_columns
from quorum_pipeline.spark.options import check_credentials, controllers_in, path_in

if TYPE_CHECKING:
    import pyarrow as pa

    from quorum_pipeline.files.snapshot_file import SnapshotFile
    from quorum_pipeline.rows.gathering import Gathering

_NO_END = (1 << 63) - 1


class SnapshotTask(InputPartition):
    """One task: one snapshot."""

    def opened(self) -> AbstractContextManager[tuple[str, SnapshotFile]]:
        """Where it is from, and the file, for as long as the context is. Raises PipelineError."""
        raise NotImplementedError


@dataclass(frozen=True)
class FileTask(SnapshotTask):
    """A file."""

    file: SnapshotFile

    @contextmanager
    def opened(self) -> Iterator[tuple[str, SnapshotFile]]:
        """See SnapshotTask."""
        yield str(self.file.path), self.file


@dataclass(frozen=True)
class FetchSnapshotTask(SnapshotTask):
    """The newest one of a running quorum."""

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
        """For `format(...)`."""
        return "metadata_snapshot"

    def schema(self) -> str:
        """Every column."""
        from quorum_pipeline.rows.table import table_ddl

        return "`snapshot` string, " + table_ddl()

    def reader(self, schema: StructType) -> DataSourceReader:
        """For a batch query."""
        return SnapshotSourceReader(snapshot_tasks(self.options), schema)


class SnapshotSourceReader(DataSourceReader):
    """Reads files side by side."""

    def __init__(self, tasks: list[InputPartition], schema: StructType) -> None:
        self._tasks = tasks
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """One for each snapshot."""
        return self._tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """On an executor."""
        from quorum_pipeline.rows.gathering import Gathering
        from quorum_pipeline.rows.table import table_columns

        assert isinstance(partition, SnapshotTask)
        schema = asked_columns(self._schema, {"snapshot": "string", **table_columns()})
        with partition.opened() as (source, file):
            rows = Gathering(source)
            for position, batch in file.batches():
                rows.add(batch, position, 0, _NO_END)
                if rows.is_enough:
                    yield from _with_id(rows, str(file.id), schema)
            yield from _with_id(rows, str(file.id), schema)


def snapshot_tasks(options: Mapping[str, str]) -> list[InputPartition]:
    """One for each snapshot that is meant. Raises PipelineError."""
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
