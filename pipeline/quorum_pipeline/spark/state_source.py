"""The data source `metadata_state`: a table of the state of a cluster at one moment.

    CREATE TEMPORARY VIEW partitions USING metadata_state
    OPTIONS (path '/var/lib/archive', table 'partitions', versionAsOf '9000000')

    spark.read.format("metadata_state").option("table", "brokers").load("/var/lib/node").show()

Options, named as in Delta:

    path            the directory of a replica's log, or an archive that every executor mounts
    bootstrap       instead of a path: controllers of a running quorum; tls and commandConfig as for `metadata_log`
    table           brokers, topics, partitions, configs, voters, acls, features or quotas
    versionAsOf     the state before the record at this offset
    timestampAsOf   the state after the last record up to this time, such as 2026-01-31T12:00:00Z

The default is the newest state. One task reads it: from an archive, only the changes since its last whole state.
`frames.state_frame` computes it on several executors. Columns: `state/tables.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from quorum_pipeline.spark.options import TableOptions, changes_options, state_options
from quorum_pipeline.spark.requested_columns import requested_columns
from quorum_pipeline.spark.table_rows import (
    CHANGE_COLUMNS,
    batches,
    change_rows,
    state_rows,
    table_ddl,
)

if TYPE_CHECKING:
    import pyarrow as pa


class MetadataState(DataSource):
    """See the module."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)`."""
        return "metadata_state"

    def schema(self) -> str:
        """Return the columns of the table as DDL."""
        return table_ddl(state_options(self.options).table)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch query."""
        return TableReader(state_options(self.options), schema)


class MetadataChanges(DataSource):
    """The data source `metadata_changes`: the changes of a table between two offsets, as rows of Delta's change feed.

    Options: `path` or `bootstrap`, and `table`, as for `metadata_state`; `startingVersion` and `endingVersion`: the states before these
    offsets are compared; or `startingTimestamp` and `endingTimestamp`: the state before the first record of this time or later, and
    that after the last record up to this time. Without an end, the newest state is the later one. `_change_type` is insert, delete,
    update_preimage or update_postimage.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)`."""
        return "metadata_changes"

    def schema(self) -> str:
        """Return the columns of the table, `_change_type` and `_commit_version` as DDL."""
        return table_ddl(changes_options(self.options).table, CHANGE_COLUMNS)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch query."""
        return TableReader(changes_options(self.options), schema)


class TableReader(DataSourceReader):
    """Reads, in one task, the state at one moment, or the changes between two."""

    def __init__(self, options: TableOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """Return the only task."""
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows, on an executor."""
        is_state = len(self._options.moments) == 1
        rows = state_rows if is_state else change_rows
        columns = self._options.table.columns | ({} if is_state else CHANGE_COLUMNS)
        yield from batches(rows(self._options), requested_columns(self._schema, columns))
