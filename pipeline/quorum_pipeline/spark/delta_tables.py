"""Versions of rows as Delta tables, one for each table, kept equal to the Parquet files of a directory.

    URI/TABLE/_delta_log    all versions of the table; each commit has those of whole steps, and says which: offsets=START-END

The Parquet files remain what a run continues from. A table gets the stored versions that begin after its last one, in one
commit: a commit is complete or absent, and has whole steps, so none is missing and none is there twice, whenever a run ends.
Needs the classes of Delta Lake in Spark; no Python package of it. Source: Delta Lake, "Table batch reads and writes".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from quorum_pipeline.archive.layout import OffsetRange
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.version_files import StoredVersions, StoredVersionsReader, version_ddl
from quorum_pipeline.spark.hadoop_files import HadoopFiles
from quorum_pipeline.spark.parquet_files import read_parquet
from quorum_pipeline.spark.reason import SparkError, reason_of
from quorum_pipeline.state.tables import STATE_TABLES, StateTable

DELTA = "delta"
_LOG = "_delta_log"
_ROWS_OF_A_FILE = 200_000
_NO_CLASSES = ("[DATA_SOURCE_NOT_FOUND]", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
"""What Spark's errors name if its class path lacks the format, or the catalog of the settings."""


def is_delta(session: SparkSession, root: Path | str, table: str) -> bool:
    """Return whether there is a Delta table: in a mounted directory, or at a URI. Raises PipelineError."""
    if isinstance(root, Path):
        return (root / table / _LOG).is_dir()
    return _LOG in HadoopFiles(session.sparkContext).list(f"{root}/{table}")


@dataclass
class DeltaTables:
    """Delta tables below `uri`, of any file system that Spark has. Only one process may add to them. Errors: PipelineError."""

    session: SparkSession
    uri: str
    _ends: dict[str, int] = field(default_factory=dict)
    """For each table the offset up to which it has all versions; -1: it is empty."""

    def check(self, store: StoredVersionsReader) -> None:
        """Create the tables that do not exist. Raises PipelineError without Delta, or if they do not continue with `store`."""
        try:
            stored = store.stored()
            for table in STATE_TABLES:
                self._begin(table, store, stored)
        except SparkError as error:
            raise self._reason(error) from None

    def add(self, store: StoredVersionsReader) -> int:
        """Append what `store` has and the tables do not; return the number of versions. To be called after `check`."""
        stored, added = store.stored(), 0
        try:
            for table in STATE_TABLES:
                new = [each for each in stored if each.offsets.end > self._ends[table.name]]
                if new:
                    added += self._append(table, store, new)
                    self._ends[table.name] = new[-1].offsets.end
        except SparkError as error:
            raise self._reason(error) from None
        return added

    def _begin(
        self, table: StateTable, store: StoredVersionsReader, stored: list[StoredVersions]
    ) -> None:
        path = self._path(table)
        try:
            found = self.session.read.format(DELTA).load(path)
        except PySparkException as error:
            if error.getCondition() not in ("PATH_NOT_FOUND", "DELTA_TABLE_NOT_FOUND"):
                raise
            empty = self.session.createDataFrame([], version_ddl(table))
            empty.write.format(DELTA).mode("append").save(path)
            self._ends[table.name] = -1
            return
        end = found.agg(sf.max("valid_from")).collect()[0][0]
        self._ends[table.name] = -1 if end is None else end
        if end is not None and not self._has(
            table, store, stored, found.where(f"valid_from = {end}")
        ):
            raise PipelineError(
                f"{path} has versions up to offset {end} that are not those of {store.name}: it is of another history. Use an"
                " empty directory or URI"
            )

    def _has(
        self,
        table: StateTable,
        store: StoredVersionsReader,
        stored: list[StoredVersions],
        last: DataFrame,
    ) -> bool:
        """Return whether the last versions of a Delta table are stored."""
        end = self._ends[table.name]
        near = [each for each in stored if each.offsets.start <= end <= each.offsets.end]
        versions = self._stored(table, store, near)
        if versions is None:
            return False
        same = versions.where(f"valid_from = {end}").select(last.columns)
        return bool(last.exceptAll(same).isEmpty() and same.exceptAll(last).isEmpty())

    def _append(
        self, table: StateTable, store: StoredVersionsReader, new: list[StoredVersions]
    ) -> int:
        end = self._ends[table.name]
        versions = self._stored(table, store, new)
        if versions is None:
            return 0
        versions = versions.where(f"valid_from > {end}")
        count = versions.count()
        if not count:
            return 0
        offsets = OffsetRange(new[0].offsets.start, new[-1].offsets.end)
        options = {"userMetadata": offsets.directory, "mergeSchema": "true"}
        files = max(1, min(count // _ROWS_OF_A_FILE, self.session.sparkContext.defaultParallelism))
        versions.coalesce(files).write.format(DELTA).mode("append").options(**options).save(
            self._path(table)
        )
        return count

    def _stored(
        self, table: StateTable, store: StoredVersionsReader, of: list[StoredVersions]
    ) -> DataFrame | None:
        paths = store.paths(table.name, of)
        if not paths:
            return None
        return read_parquet(self.session, version_ddl(table), paths)

    def _path(self, table: StateTable) -> str:
        return f"{self.uri}/{table.name}"

    def _reason(self, error: PySparkException | Py4JJavaError) -> PipelineError:
        if any(each in str(error) for each in _NO_CLASSES):
            spark = ".".join(self.session.version.split(".")[:2])
            return PipelineError(
                f"{self.uri}: Spark has no classes of Delta Lake: add the release for Spark {spark} with "
                "spark.jars.packages, see docs/how-to/history-tables.md"
            )
        return PipelineError(f"{self.uri}: {reason_of(error)}")
