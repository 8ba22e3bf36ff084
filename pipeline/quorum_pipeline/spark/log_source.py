"""The data source `metadata_log`: the records of a metadata log.

    spark.dataSource.register(MetadataLog)
    (spark.read.format("metadata_log").load("/var/lib/node")
        .where("type = 'PartitionChangeRecord'")
        .selectExpr("offset", "timestamp", "partition_change.leader").show())

Instead of the directory of one replica, the option `bootstrap` names controllers of a running quorum, and the log is read from
the leader, up to the high watermark:

    spark.readStream.format("metadata_log").option("bootstrap", "controller-0:9093,controller-1:9093")

Credentials are in `tls`, a folder with ca.crt, tls.crt and tls.key, or `commandConfig`, a configuration file of Kafka's tools. Both are
read where a task runs, so they have to exist on each executor.

Columns: `rows/table.py`. Only those of the query's schema are made, so a long log is read faster with
`.schema("offset bigint, type string")`. Other options:

    startOffset, endOffset   first offset, and end (exclusive); by default everything. Offsets that the log does not have are
                             an error. A stream ends at endOffset
    failOnDataLoss           true (default), or false: read what there is of the requested offsets
    minPartitions            number of tasks of a query or micro batch, if it has as many batches
    onProblem                fail (default), or keep: a record that can't be decoded is a row with a `problem`
    spanBytes                size of the piece of a segment that one task reads; 8 MiB
    maxRows                  streaming: maximum number of offsets in one micro batch; 1 000 000

and the names of Spark's Kafka source for startOffset, endOffset and maxRows: startingOffsets (earliest, a number, or in
streams latest), endingOffsets (latest, or a number) and maxOffsetsPerTrigger. The default of startingOffsets is earliest in streams, too.
Instead of offsets startingTimestamp, and in batch queries endingTimestamp (exclusive): milliseconds since 1970, or ISO 8601. A
startingTimestamp after all records is an error, or with startingOffsetsByTimestampStrategy=latest the end of the log.

A directory may end with records that are not committed yet. Without an endOffset, reading ends after the last record that the
directory records as committed. A directory of stock Kafka does not record this, and is read to its end. A stream ends with an
error if a new leader replaced the last batch that it has read.

Owns the link between Spark and the origins of records; decodes nothing.
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
from quorum_pipeline.spark.offsets_for_times import offset_of
from quorum_pipeline.spark.options import EARLIEST, LATEST, NO_END, LogOptions, log_options
from quorum_pipeline.spark.origins import LogTask, Origin, check_start, origin_of

if TYPE_CHECKING:
    import pyarrow as pa


class MetadataLog(DataSource):
    """See the module."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)`."""
        return "metadata_log"

    def schema(self) -> str:
        """Return all columns as DDL."""
        from quorum_pipeline.rows.table import table_ddl

        return table_ddl()

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch query."""
        return LogReader(log_options(self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of a streaming query."""
        return LogStreamReader(log_options(self.options), schema)


class _Tasks:
    """The common part of batch and stream readers."""

    def __init__(
        self, options: LogOptions, schema: StructType, origin: Origin | None = None
    ) -> None:
        """Set up the reader. `origin`: by default the one that the options name."""
        self._options = options
        self._schema = schema
        self._origin = origin or origin_of(options)

    def _start(self, start: int, end: int) -> int:
        """Return the requested start offset, also EARLIEST or LATEST. `start`, `end`: those of the log. Raises PipelineError."""
        options = self._options
        if options.start_ms is None:
            return options.start_offset
        found = offset_of(self._origin, start, end, options.start_ms)
        if found == end and not options.latest_if_none:
            raise PipelineError(
                f"{self._origin.name} ends at offset {end} with an earlier record than startingTimestamp. To begin at its end,"
                " specify startingOffsetsByTimestampStrategy=latest"
            )
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one task, on an executor."""
        if not isinstance(partition, LogTask):
            return iter(())  # a query without tasks: Spark reads one that it makes itself
        return partition.batches(self._schema, keep_problems=self._options.keep_problems)


class LogReader(_Tasks, DataSourceReader):
    """Reads the log as it is when the query is planned."""

    def partitions(self) -> list[InputPartition]:
        """Return the tasks of the query. Raises PipelineError if the log has none of the requested offsets."""
        options = self._options
        if options.start_offset == LATEST:
            raise PipelineError("a batch query can't start at latest: it would have no records")
        start, end = self._origin.bounds()
        wanted, limit = self._start(start, end), min(options.end_offset, end)
        if options.end_ms is not None:
            limit = offset_of(self._origin, start, end, options.end_ms)
        if wanted != EARLIEST and options.fail_on_data_loss:
            check_start(self._origin, wanted)
        if wanted > end or options.end_offset < start:
            raise PipelineError(
                f"{self._origin.name} has offsets {start} to {end}, and none of those that were requested"
            )
        if end < options.end_offset < NO_END and options.fail_on_data_loss:
            raise PipelineError(
                f"{self._origin.name} has offsets {start} to {end}, and not those up to {options.end_offset}"
            )
        if limit == end < options.end_offset:
            self._origin.check_end()
        begin = max(wanted, start)
        if begin >= limit:
            return []
        return [*self._origin.tasks(begin, limit, options.min_partitions)]


class LogStreamReader(_Tasks, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the log as it grows. A stream offset consists of an offset of the log, the start of its micro batch, and of a directory
    the epoch and CRC of the last batch: a new leader may replace records that were not committed.
    """

    _target: int | None = None

    def __init__(
        self, options: LogOptions, schema: StructType, origin: Origin | None = None
    ) -> None:
        """Raises PipelineError for an option of batch queries."""
        if options.end_ms is not None:
            raise PipelineError("endingTimestamp is for batch queries: specify endOffset")
        super().__init__(options, schema, origin)

    def initialOffset(self) -> dict[str, Any]:
        """Return the requested start offset. Raises PipelineError if the log no longer has it."""
        begin, end = self._origin.bounds()
        wanted = self._start(begin, end)
        if wanted >= 0 and self._options.fail_on_data_loss:
            check_start(self._origin, wanted)
        start = end if wanted == LATEST else max(wanted, begin)
        return {"offset": start, "from": start}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Limit the size of a micro batch, which has to fit into memory."""
        return ReadMaxRows(self._options.max_rows)

    def prepareForTriggerAvailableNow(self) -> None:
        """Make the current end of the log the end of the query."""
        self._target = self._end()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the end of the next micro batch: the end of the log, or the limit of one micro batch."""
        begin = int(start["offset"])
        end = self._end() if self._target is None else self._target
        if isinstance(limit, ReadMaxRows):
            end = min(end, begin + limit.max_rows)
        if end > begin:
            last = self._origin.stamp(end - 1)
            return {"offset": end, "from": begin} | ({} if last is None else {"last": last})
        if begin < self._options.end_offset:
            # Everything before this offset has been read.
            self._origin.check_end()
        return start

    def reportLatestOffset(self) -> dict[str, Any]:
        """Return the end of the log, for the progress of the query."""
        return {"offset": self._end()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the tasks of an offset range. Raises PipelineError if records were deleted before they were read."""
        begin, stop = int(start["offset"]), int(end["offset"])
        if self._options.fail_on_data_loss:
            self._check_last(begin, start.get("last"))
            check_start(self._origin, begin)
            # A restarted query reads a batch that it has planned before.
            self._check_last(stop, end.get("last"), planned=True)
        begin = max(begin, self._origin.bounds()[0])
        if begin >= stop:
            return []
        return [*self._origin.tasks(begin, stop, self._options.min_partitions)]

    def _check_last(self, stop: int, last: list[int] | None, *, planned: bool = False) -> None:
        """Raise PipelineError if the record before `stop` has another batch than `last`. If it is only `planned` to be read, it also
        has to be there.
        """
        if last is None:
            return  # of an earlier version, or of a source in which no record is replaced
        now = self._origin.stamp(stop - 1)
        if now == last or (now is None and not planned):
            return
        found = "not there" if now is None else f"of epoch {now[0]}"
        which = "planned" if planned else "read"
        raise PipelineError(
            f"{self._origin.name} has other records than those that were {which}: the batch at offset {stop - 1} is {found}, and"
            f" that of epoch {last[0]} was never committed. Start a new query, or read a running quorum"
        )

    def _end(self) -> int:
        return min(self._origin.bounds()[1], self._options.end_offset)
