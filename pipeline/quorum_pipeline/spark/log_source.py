"""The data source `metadata_log`: the records of a metadata log.

    spark.dataSource.register(MetadataLog)
    (spark.read.format("metadata_log").load("/var/lib/node")
        .where("type = 'PartitionChangeRecord'")
        .selectExpr("offset", "timestamp", "partition_change.leader").show())

Instead of the directory of one replica, the option `bootstrap` names controllers of a running quorum, and the log is read from
whoever leads, up to the high watermark:

    spark.readStream.format("metadata_log").option("bootstrap", "controller-0:9093,controller-1:9093")

With certificates also `tls`, a folder with ca.crt, tls.crt and tls.key, or `commandConfig`, a file as Kafka's tools take it. Both are read
where a task runs, so they have to be on each executor.

Columns: `rows/table.py`. Only those of the query's schema are made, so a long log is read faster with
`.schema("offset bigint, type string")`. Other options:

    startOffset, endOffset   from where on, up to where (exclusive); by default everything
    onProblem                fail (default), or keep: what can't be decoded is a row with a `problem`
    spanBytes                how much of a segment is one task; 8 MiB
    maxRows                  streaming: so many offsets at most in one micro batch; 1 000 000

and, as in Spark's Kafka source, startingOffsets (earliest, or a number), endingOffsets (latest, or a number) and maxOffsetsPerTrigger for the
first, second and last of them.

A directory may end with records that are not committed yet. Without an endOffset, reading ends after the last record that the
directory records as committed. A directory of stock Kafka does not record this, and is read to its end. Owns the link between Spark and the origins of records; decodes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from quorum_pipeline.errors import PipelineError
from quorum_pipeline.spark.options import LogOptions, log_options
from quorum_pipeline.spark.origins import LogTask, Origin, check_start, origin_of

if TYPE_CHECKING:
    import pyarrow as pa


class MetadataLog(DataSource):
    """See the module."""

    @classmethod
    def name(cls) -> str:
        """For `format(...)`."""
        return "metadata_log"

    def schema(self) -> str:
        """Every column."""
        from quorum_pipeline.rows.table import table_ddl

        return table_ddl()

    def reader(self, schema: StructType) -> DataSourceReader:
        """For a batch query."""
        return LogReader(log_options(self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """For a streaming query."""
        return LogStreamReader(log_options(self.options), schema)


class _Tasks:
    """What reading has in common for batch and stream."""

    def __init__(
        self, options: LogOptions, schema: StructType, origin: Origin | None = None
    ) -> None:
        """`origin`: by default what the options name."""
        self._options = options
        self._schema = schema
        self._origin = origin or origin_of(options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """On an executor."""
        assert isinstance(partition, LogTask)
        return partition.batches(self._schema, keep_problems=self._options.keep_problems)


class LogReader(_Tasks, DataSourceReader):
    """The log as it is when the query is planned."""

    def partitions(self) -> list[InputPartition]:
        """One for each task."""
        start, end = self._origin.bounds()
        wanted, limit = self._options.start_offset, min(self._options.end_offset, end)
        if wanted:
            check_start(self._origin, wanted)
        if wanted > end or self._options.end_offset < start:
            raise PipelineError(
                f"{self._origin.name} has offsets {start} to {end}, and none of those that were asked for"
            )
        if self._options.end_offset > end:
            self._origin.check_end()
        begin = max(wanted, start)
        return [*self._origin.tasks(begin, limit)] if begin < limit else []


class LogStreamReader(_Tasks, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The log as it grows. An offset of the stream is one of the log, with where its micro batch began."""

    _target: int | None = None

    def initialOffset(self) -> dict[str, Any]:
        """Where the log begins, or what was asked for."""
        start = max(self._options.start_offset, self._origin.bounds()[0])
        return {"offset": start, "from": start}

    def getDefaultReadLimit(self) -> ReadLimit:
        """A micro batch has to fit into memory."""
        return ReadMaxRows(self._options.max_rows)

    def prepareForTriggerAvailableNow(self) -> None:
        """What is there now is all."""
        self._target = self._end()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the log, or of what one micro batch takes."""
        begin = int(start["offset"])
        end = self._end() if self._target is None else self._target
        if isinstance(limit, ReadMaxRows):
            end = min(end, begin + limit.max_rows)
        if end > begin:
            return {"offset": end, "from": begin}
        if begin < self._options.end_offset:
            # Everything before this offset has been read.
            self._origin.check_end()
        return start

    def reportLatestOffset(self) -> dict[str, Any]:
        """For the progress of the query."""
        return {"offset": self._end()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Tasks between two offsets. Raises PipelineError if they were deleted before they were read."""
        check_start(self._origin, int(start["offset"]))
        return [*self._origin.tasks(int(start["offset"]), int(end["offset"]))]

    def _end(self) -> int:
        return min(self._origin.bounds()[1], self._options.end_offset)
