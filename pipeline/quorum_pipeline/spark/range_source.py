"""The data source `metadata_log_ranges`: not the records of a metadata log, but which offsets of it a micro batch has, in one row.

Options are those of `metadata_log`; the offsets of a stream are the same, too. It is for those who read on an executor what they
write there: rows that stay within a worker need not go through the JVM. Owns no more than that.
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
        """For `format(...)`."""
        return "metadata_log_ranges"

    def schema(self) -> str:
        """From where on, up to where (exclusive)."""
        return "start bigint, end bigint"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """For a streaming query."""
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
