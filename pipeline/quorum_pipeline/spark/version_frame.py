"""Versions of the rows of a table as a DataFrame: the values of each row over time.

    from quorum_pipeline.spark.version_frame import history_frame

    history_frame(spark, path="/var/lib/history", table="partitions").where("valid_to IS NULL").show()

`path` is a directory or URI that `quorum-pipeline versions` wrote, the URI of its Delta tables, the directory of a replica's log, or
an archive. For the latter two, executors compute the versions when the DataFrame is used; this needs a session with a context.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from quorum_pipeline.archive.layout import RECORDS
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.archive_reader import ArchiveReader
from quorum_pipeline.files.local_files import LocalFiles, file_uri, local_path
from quorum_pipeline.files.version_files import (
    VERSION_COLUMNS,
    VersionStore,
    version_ddl,
    version_row,
)
from quorum_pipeline.spark.delta_tables import DELTA, is_delta
from quorum_pipeline.spark.parquet_files import read_parquet
from quorum_pipeline.spark.stages import SparkStages
from quorum_pipeline.spark.version_store import HadoopVersionStore
from quorum_pipeline.spark.versions_job import (
    ArchiveVersions,
    LogVersions,
    VersionSource,
)
from quorum_pipeline.spark.versions_run import step_at
from quorum_pipeline.state.tables import StateTable, table_named
from quorum_pipeline.state.versions import Version, columns_of


def history_frame(
    session: SparkSession, *, path: str, table: str, version_as_of: int | None = None
) -> DataFrame:
    """Return a row for each version. `version_as_of`: of a Delta table, a commit's number. Raises PipelineError.

    Columns: those of the table; `valid_from` and `valid_to` (bigint, offsets of states, the latter exclusive and null if the
    version is still valid); `valid_from_time` and `valid_to_time` (timestamps of the records).
    """
    found = table_named(table)
    versions = version_frame(session, path=path, table=table, version_as_of=version_as_of)
    return with_ends(versions, found.key)


def version_frame(
    session: SparkSession, *, path: str, table: str, version_as_of: int | None = None
) -> DataFrame:
    """Return the versions as they are stored: a row with `deleted` true ends the version before it. Raises PipelineError."""
    found, root = table_named(table), local_path(path)
    if is_delta(session, root or path, table):
        at = {} if version_as_of is None else {"versionAsOf": version_as_of}
        uri = path if root is None else file_uri(root)
        return session.read.format(DELTA).options(**at).load(f"{uri}/{table}")
    if version_as_of is not None:
        raise PipelineError(f"{path} has no Delta table {table}, so there is no version of it")
    if root is not None and not root.is_dir():
        raise PipelineError(f"{path} is not a directory")
    store = HadoopVersionStore(session, path) if root is None else VersionStore(root)
    if store.stored():
        files, ddl = store.paths(found.name), version_ddl(found)
        return read_parquet(session, ddl, files) if files else session.createDataFrame([], ddl)
    if root is None:
        raise PipelineError(f"{path} has no versions, and is not in a mounted file system")
    return _computed(session, root, found)


def with_ends(versions: DataFrame, key: tuple[str, ...]) -> DataFrame:
    """Add to each version the offset and time of the next version of the same key."""
    of_key = Window.partitionBy(*key).orderBy("valid_from")
    ended = versions.withColumn("valid_to", sf.lead("valid_from").over(of_key))
    ended = ended.withColumn("valid_to_time", sf.lead("valid_from_time").over(of_key))
    return ended.where("NOT deleted").drop("deleted")


def _computed(session: SparkSession, root: Path, table: StateTable) -> DataFrame:
    stages = SparkStages(session.sparkContext)
    with TemporaryDirectory(prefix="quorum-pipeline-") as scratch:
        source = _source(root, Path(scratch))
        first, end = source.begin(), source.end_offset()
        step = step_at(stages, source, first.offset, end, known_ms=first.time_ms)
        step.check(step.wrong)
    rows = step.versions()
    if table.name == "voters":
        rows = stages.parallelize(list(step.voters))
    mine = rows.filter(partial(_is_of, table.name))
    names = tuple(columns_of(table) | VERSION_COLUMNS)
    return session.createDataFrame(mine.map(partial(_ordered, names)), version_ddl(table))


def _source(root: Path, scratch: Path) -> VersionSource:
    if (root / RECORDS).is_dir():
        return ArchiveVersions(ArchiveReader(LocalFiles(), str(root)), scratch)
    return LogVersions(root)


# -- on executors


def _is_of(table: str, version: Version) -> bool:
    return version.table == table


def _ordered(names: tuple[str, ...], version: Version) -> tuple[object, ...]:
    row = version_row(version)
    return tuple(row[name] for name in names)
