"""Columns that a query selects from a data source and that don't exist: reported by name, before any row."""

from pathlib import Path

import pytest
from pyspark.sql.types import (
    ArrayType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.log_directory import open_log
from quorum_pipeline.files.version_files import version_ddl
from quorum_pipeline.rows.table import table_columns
from quorum_pipeline.spark.log_source import LogReader, LogStreamReader, MetadataLog
from quorum_pipeline.spark.options import log_options
from quorum_pipeline.spark.requested_columns import requested_columns
from quorum_pipeline.spark.snapshot_source import MetadataSnapshot
from quorum_pipeline.spark.state_source import MetadataChanges, MetadataState
from quorum_pipeline.state.tables import TABLES_BY_NAME
from support.written_log import LogWriter, write_history


def only(name: str, kind: DataType) -> StructType:
    return StructType([StructField(name, kind)])


def fields(*names: str) -> StructType:
    return StructType([StructField(name, StringType()) for name in names])


def test_types_of_columns_do_not_depend_on_settings_of_spark() -> None:
    """With `spark.sql.timestampType` TIMESTAMP_NTZ, `timestamp` is another type, as which no column can be read."""
    of_log = MetadataLog({"path": "/nowhere"}).schema()
    of_versions = version_ddl(TABLES_BY_NAME["topics"])
    for found in (of_log, of_versions):
        assert " timestamp_ltz" in found
        assert " timestamp," not in found


def test_subset_of_columns_and_fields_can_be_selected() -> None:
    found = requested_columns(only("topic", fields("name")), table_columns())
    assert [str(each.type) for each in found] == ["struct<name: string>"]
    assert len(requested_columns(StructType([]), table_columns())) == 0


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("nothing", LongType(), "there is no column 'nothing'"),
        ("offset", StringType(), "the column 'offset' is bigint, so it can't be read as string"),
        ("offset", IntegerType(), "so it can't be read as int"),
        ("topic", fields("name", "nothing"), "the column 'topic' is struct<"),
        ("topic", StringType(), "so it can't be read as string"),
        ("type", ArrayType(IntegerType()), "so it can't be read as array<int>"),
    ],
)
def test_unknown_columns_are_reported(name: str, kind: DataType, says: str) -> None:
    with pytest.raises(PipelineError, match=says):
        requested_columns(only(name, kind), table_columns())


@pytest.mark.requirement("SP-01")
def test_every_source_reports_unknown_columns(tmp_path: Path) -> None:
    """Also one that would have no rows."""
    writer = LogWriter(tmp_path)
    writer.elect(1)
    writer.snapshot()
    writer.close()
    path = {"path": str(tmp_path)}
    table = path | {"table": "topics"}
    for source in (
        MetadataLog(path),
        MetadataSnapshot(path),
        MetadataState(table),
        MetadataChanges(table | {"startingVersion": "0"}),
    ):
        reader = source.reader(only("nothing", LongType()))
        (task, *_) = reader.partitions()
        with pytest.raises(
            PipelineError, match=r"^there is no column 'nothing'; the columns are \w+"
        ):
            list(reader.read(task))


@pytest.mark.requirement("SP-01")
def test_offsets_outside_of_the_log_are_reported(tmp_path: Path) -> None:
    """It would otherwise be treated as a log without records."""
    writer = LogWriter(tmp_path, segment_bytes=300)
    write_history(writer)
    end = writer.end_offset

    def tasks(**options: str) -> int:
        given = {"path": str(tmp_path), **options}
        return len(LogReader(log_options(given), StructType([])).partitions())

    assert tasks(startOffset=str(end - 1)) == 1
    assert tasks(startOffset=str(end)) == tasks(endOffset="0") == 0
    assert tasks(minPartitions="4") >= 4
    with pytest.raises(PipelineError, match=rf"has offsets 0 to {end}, and not those up to 1000"):
        tasks(endOffset="1000")
    assert tasks(endOffset="1000", failOnDataLoss="false") == tasks()
    with pytest.raises(PipelineError, match="can't start at latest"):
        tasks(startingOffsets="latest")
    for start in (end + 1, 10**40):
        with pytest.raises(PipelineError, match=rf"has offsets 0 to {end}, and none of those that"):
            tasks(startOffset=str(start), endOffset=str(10**41))
    writer.snapshot(drop_log=True)
    writer.elect(1)
    writer.close()
    with pytest.raises(PipelineError, match="and none of those that were requested"):
        tasks(endOffset="3")
    begin = open_log(tmp_path).start_offset
    assert begin > 0
    with pytest.raises(PipelineError, match=f"has no offset 0: it begins at {begin}"):
        tasks(startOffset="0")
    assert tasks(startOffset="0", failOnDataLoss="False") == tasks(startingOffsets="earliest") > 0


@pytest.mark.requirement("SP-01")
def test_stream_begins_at_the_requested_offset_or_fails(tmp_path: Path) -> None:
    """It would otherwise leave out records without an error."""
    writer = LogWriter(tmp_path, segment_bytes=300)
    write_history(writer)
    writer.snapshot(drop_log=True)
    writer.elect(1)
    writer.close()
    begin, end = open_log(tmp_path).start_offset, writer.end_offset

    def start(**options: str) -> int:
        reader = LogStreamReader(log_options({"path": str(tmp_path), **options}), StructType([]))
        return int(reader.initialOffset()["offset"])

    assert start() == start(startingOffsets="Earliest") == begin
    assert start(startingOffsets="latest") == end
    assert start(startOffset=str(begin + 1)) == begin + 1
    with pytest.raises(PipelineError, match=f"has no offset 1: it begins at {begin}"):
        start(startOffset="1")
    assert start(startOffset="1", failOnDataLoss="false") == begin
