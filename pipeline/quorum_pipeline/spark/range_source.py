"""The data source `metadata_log_ranges`: one row per micro batch, with its range of offsets of a metadata log.

Options and stream offsets are those of `metadata_log`. It is for queries that read records on the executor that writes
them: such rows need not pass through the JVM.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from quorum_pipeline.spark.log_source import LogStreamReader, MetadataLog
from quorum_pipeline.spark.options import log_options

if TYPE_CHECKING:
    import pyarrow as pa


class MetadataLogRanges(MetadataLog):
    """See the module."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)`."""
        return "metadata_log_ranges"

    def schema(self) -> str:
        """Return the columns as DDL: first offset, and end (exclusive)."""
        return "start bigint, end bigint"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of a streaming query."""
        return _RangeStreamReader(log_options(self.options), schema)


@dataclass(frozen=True)
class _Range(InputPartition):
    start: int
    end: int


class _RangeStreamReader(LogStreamReader):
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return [_Range(int(start["offset"]), int(end["offset"]))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        assert isinstance(partition, _Range)
        yield pa.record_batch({"start": [partition.start], "end": [partition.end]})
