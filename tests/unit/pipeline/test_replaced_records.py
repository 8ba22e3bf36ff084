"""A stream of a directory whose last records were not committed, and are replaced by those of a new leader."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from quorum_node.records import metadata as md
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.spark.log_source import LogStreamReader, MetadataLog
from support.written_log import LogWriter

SCHEMA = StructType([StructField("offset", LongType())])


def stream(path: Path, **options: str) -> LogStreamReader:
    reader = MetadataLog({"path": str(path), **options}).streamReader(SCHEMA)
    assert isinstance(reader, LogStreamReader)
    return reader


def next_offset(reader: LogStreamReader, start: dict[str, Any]) -> dict[str, Any]:
    """As it is after Spark has written and read its checkpoint."""
    found: dict[str, Any] = json.loads(
        json.dumps(reader.latestOffset(start, reader.getDefaultReadLimit()))
    )
    return found


def test_replaced_records_end_the_stream(tmp_path: Path) -> None:
    """Also if the log has grown beyond them again, and after a restart."""
    first, second = LogWriter(tmp_path / "node"), LogWriter(tmp_path / "other")
    for writer in (first, second):
        writer.append(*[md.NoOpRecord()] * 10)
        writer.epoch += writer is second
        writer.append(*[md.NoOpRecord()] * 10)
    reader = stream(first.directory)
    begin = reader.initialOffset()
    at = next_offset(reader, begin)
    assert at["offset"] == 20
    assert reader.partitions(begin, at)
    assert next_offset(reader, at) == at, "there are no new records"
    first.append(md.NoOpRecord())
    following = next_offset(stream(first.directory), at)
    assert reader.partitions(at, following), "the same log has grown"
    second.append(md.NoOpRecord())
    for writer in (first, second):
        writer.close()
    shutil.rmtree(first.directory)
    shutil.copytree(second.directory, first.directory)
    for each in (reader, stream(first.directory)):
        with pytest.raises(PipelineError, match="offset 19 is of epoch 2, and that of epoch 1 was"):
            each.partitions(at, next_offset(each, at))
    kept = stream(first.directory, failOnDataLoss="false")
    assert kept.partitions(at, next_offset(kept, at))
    older = {"offset": 20, "from": 0}  # of an earlier version
    assert reader.partitions(older, next_offset(reader, older))


@pytest.mark.parametrize("others", [[], [md.NoOpRecord()] * 10])
def test_records_replaced_before_a_planned_batch_is_read_end_the_stream(
    tmp_path: Path, others: list[md.NoOpRecord]
) -> None:
    """The query ended between its plan and its tasks; without them the batch would be complete with fewer or other records."""
    first, second = LogWriter(tmp_path / "node"), LogWriter(tmp_path / "other")
    for writer, records in ((first, [md.NoOpRecord()] * 10), (second, others)):
        writer.append(*[md.NoOpRecord()] * 10)
        writer.epoch += writer is second
        if records:
            writer.append(*records)
        writer.close()
    begin = stream(first.directory).initialOffset()
    at = next_offset(stream(first.directory), begin)
    assert stream(first.directory).partitions(begin, at)
    shutil.rmtree(first.directory)
    shutil.copytree(second.directory, first.directory)
    with pytest.raises(PipelineError, match=r"offset 19 is .*, and that of epoch 1 was never com"):
        stream(first.directory).partitions(begin, at)
    assert stream(first.directory, failOnDataLoss="false").partitions(begin, at)
