"""The data source `metadata_log_tasks`: not the records of a metadata log, but the tasks that read them, one a row and a partition.

Options are those of `metadata_log`; the offsets of a stream are the same, too. It is for those who read on an executor what they
write there: rows that stay within a worker need not go through the JVM. Owns no more than that.
"""

import pickle
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from quorum_pipeline.rows.gathering import AnyRows
from quorum_pipeline.spark.log_source import LogStreamReader, MetadataLog
from quorum_pipeline.spark.options import log_options
from quorum_pipeline.spark.origins import LogTask


class MetadataLogTasks(MetadataLog):
    """See the module."""

    @classmethod
    def name(cls) -> str:
        """For `format(...)`."""
        return "metadata_log_tasks"

    def schema(self) -> str:
        """One column."""
        return "task binary"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """For a streaming query."""
        return _TaskStreamReader(log_options(self.options), schema)


class _TaskStreamReader(LogStreamReader):
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The task itself."""
        yield pa.record_batch({"task": pa.array([pickle.dumps(partition)], pa.binary())})


def task_rows(task: bytes) -> Iterator[AnyRows]:
    """What a task reads; what can't be decoded is a row with a problem. Raises PipelineError, OSError."""
    found = pickle.loads(task)  # made by the source above, in the same query
    assert isinstance(found, LogTask)
    return found.rows(keep_problems=True)
