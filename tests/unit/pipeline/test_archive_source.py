"""The data source `metadata_archive`: the records that the log has, once each, or an error; also while ranges are merged."""

import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from quorum_node.records import metadata as md
from quorum_pipeline.archive.layout import MARKER, QUARANTINE, RECORDS, OffsetRange
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files import archived_rows as module
from quorum_pipeline.files.archive_part import WORTH_FILES_ROWS
from quorum_pipeline.files.archived_rows import archived_rows
from quorum_pipeline.files.log_directory import open_log
from quorum_pipeline.rows.column_types import arrow_schema
from quorum_pipeline.rows.table import table_columns
from quorum_pipeline.spark.archive_source import MetadataArchive
from quorum_pipeline.spark.log_source import LogReader, LogStreamReader, MetadataLog
from support.written_archive import write_archive
from support.written_log import LogWriter, write_history

COLUMNS = {name: kind for name, kind in table_columns().items() if name != "data"}
SCHEMA: StructType = from_arrow_schema(arrow_schema(COLUMNS))
OFFSETS: StructType = from_arrow_schema(arrow_schema({"offset": "bigint"}))


@pytest.fixture
def writer(tmp_path: Path) -> LogWriter:
    made = LogWriter(tmp_path / "node", segment_bytes=700)
    write_history(made)
    made.close()
    return made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "archive"


def batch_reader(root: Path, schema: StructType = OFFSETS, **options: str) -> LogReader:
    reader = MetadataArchive({"path": str(root), **options}).reader(schema)
    assert isinstance(reader, LogReader)
    return reader


def stream_reader(root: Path, **options: str) -> LogStreamReader:
    reader = MetadataArchive({"path": str(root), **options}).streamReader(OFFSETS)
    assert isinstance(reader, LogStreamReader)
    return reader


def rows_of(reader: LogReader) -> list[dict[str, Any]]:
    found = [
        row
        for task in reader.partitions()
        for batch in reader.read(task)
        for row in batch.to_pylist()
    ]
    return sorted(found, key=lambda row: row["offset"])


def offsets_of(reader: LogReader) -> list[int]:
    return [row["offset"] for row in rows_of(reader)]


def log_rows(writer: LogWriter) -> list[dict[str, Any]]:
    reader = MetadataLog({"path": str(writer.directory)}).reader(SCHEMA)
    assert isinstance(reader, LogReader)
    return rows_of(reader)


# -- batch


def test_rows_equal_those_of_the_log_in_every_column(writer: LogWriter, root: Path) -> None:
    write_archive(root, writer.directory, 0, 7, 30, writer.end_offset)
    assert rows_of(batch_reader(root, SCHEMA)) == log_rows(writer)


def test_files_per_type_give_the_same_rows(tmp_path: Path, root: Path) -> None:
    """Large blocks are written by type, each file with the columns of its type."""
    writer = LogWriter(tmp_path / "many")
    for number in range(4):
        topic = md.TopicRecord(name=f"topic-{number}", topic_id=UUID(int=number + 1))
        change = md.PartitionChangeRecord(
            partition_id=number, topic_id=UUID(int=number + 1), isr=(1, 2), leader=number
        )
        writer.append_bytes(
            [md.encode_metadata(each) for each in (topic, change)] * WORTH_FILES_ROWS
        )
    writer.close()
    (directory,) = write_archive(root, writer.directory, 0, writer.end_offset)
    assert len(list(directory.glob("*.parquet"))) > 1
    columns = {name: COLUMNS[name] for name in ("offset", "type", "topic", "partition_change")}
    requested = from_arrow_schema(arrow_schema(columns))
    log = MetadataLog({"path": str(writer.directory)}).reader(requested)
    assert isinstance(log, LogReader)
    assert rows_of(batch_reader(root, requested)) == rows_of(log)


def test_offsets_are_selected_as_in_a_log(writer: LogWriter, root: Path) -> None:
    end = writer.end_offset
    write_archive(root, writer.directory, 0, 7, 30, end)
    assert offsets_of(batch_reader(root)) == list(range(end))
    assert offsets_of(batch_reader(root, startOffset="5", endOffset="31")) == list(range(5, 31))
    kafka = {"startingOffsets": "29", "endingOffsets": "latest"}
    assert offsets_of(batch_reader(root, **kafka)) == list(range(29, end))
    assert len(batch_reader(root, startOffset="7", endOffset="30").partitions()) == 1
    nothing_yet = batch_reader(root, startOffset=str(end))
    assert nothing_yet.partitions() == []
    assert list(nothing_yet.read(InputPartition(0))) == [], "what Spark reads then"
    with pytest.raises(PipelineError, match=f"has offsets 0 to {end}, and none"):
        batch_reader(root, startOffset=str(end + 1)).partitions()


def test_only_complete_ranges_are_read(writer: LogWriter, root: Path) -> None:
    """Parts of a merged range, and ranges without a marker, are passed over."""
    end = writer.end_offset
    *_, last = write_archive(root, writer.directory, 0, 3, 7, end)
    write_archive(root, writer.directory, 0, 7)
    assert offsets_of(batch_reader(root)) == list(range(end))
    (last / MARKER).unlink()
    assert offsets_of(batch_reader(root)) == list(range(7))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "specify the path of an archive"),
        ({"path": "/a", "bootstrap": "h:1"}, "unknown option 'bootstrap'"),
        ({"path": "s3a://bucket/a"}, "s3a://bucket/a is not in a mounted file system"),
        ({"path": "/a", "onProblem": "skip"}, "it is fail or keep"),
        ({"path": "/a", "startOffset": "3", "endOffset": "2"}, "is greater than endingOffsets"),
        ({"path": "/a"}, "/a is not an archive, or is empty"),
    ],
)
def test_invalid_options_are_explained(given: dict[str, str], says: str) -> None:
    with pytest.raises(PipelineError, match=says):
        MetadataArchive(given).reader(OFFSETS).partitions()  # type: ignore[attr-defined]


# -- what is missing or damaged


def test_missing_and_damaged_files_are_errors(writer: LogWriter, root: Path) -> None:
    (directory,) = write_archive(root, writer.directory, 0, writer.end_offset)
    reader = batch_reader(root)
    files = sorted(directory.glob("part-*.parquet"))
    whole = files[0].read_bytes()
    files[0].unlink()
    with pytest.raises(PipelineError, match=f"{directory} has .* rows, and its marker says"):
        offsets_of(reader)
    files[0].write_bytes(whole[:-3] + bytes(3))
    with pytest.raises(PipelineError, match=f"{files[0]}: the checksum of its footer is wrong"):
        offsets_of(reader)
    files[0].write_bytes(whole)
    at = last_byte_of(files[0], "value")
    files[0].write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    with pytest.raises(PipelineError, match=str(files[0])):
        rows_of(batch_reader(root, SCHEMA))


def last_byte_of(path: Path, column: str) -> int:
    """Position of a byte in the last page of a column."""
    group = pq.read_metadata(path).row_group(0)
    chunk = next(
        group.column(each)
        for each in range(group.num_columns)
        if group.column(each).path_in_schema == column
    )
    return int(chunk.data_page_offset + chunk.total_compressed_size) - 1


def test_quarantined_records_fail_the_query_unless_they_are_kept(
    tmp_path: Path, root: Path
) -> None:
    writer = LogWriter(tmp_path / "node", segment_bytes=700)
    writer.append(md.NoOpRecord(), md.NoOpRecord())
    known = md.encode_metadata(md.NoOpRecord())
    writer.append_bytes([known[:2] + b"\x63" + known[3:], known])
    writer.close()
    write_archive(root, writer.directory, 0, writer.end_offset)
    place = root / QUARANTINE / OffsetRange(0, 4).directory
    with pytest.raises(PipelineError, match=f"{place}.*offset 2 is in quarantine"):
        offsets_of(batch_reader(root))
    assert offsets_of(batch_reader(root, endOffset="2")) == [0, 1]
    kept = rows_of(batch_reader(root, SCHEMA, onProblem="keep"))
    assert [row["offset"] for row in kept] == [0, 1, 2, 3]
    assert [row["offset"] for row in kept if row["problem"]] == [2]
    shutil.rmtree(place)
    with pytest.raises(PipelineError, match=f"{place} has 0 rows, and its marker says 1"):
        offsets_of(batch_reader(root, onProblem="keep"))


def test_offsets_removed_before_the_task_runs_are_reported(writer: LogWriter, root: Path) -> None:
    first, *_ = write_archive(root, writer.directory, 0, 7, writer.end_offset)
    reader = batch_reader(root)
    tasks = reader.partitions()
    shutil.rmtree(first)
    with pytest.raises(PipelineError, match=r"has offsets 7 to \d+, and not 0 to 7"):
        list(reader.read(tasks[0]))


# -- ranges are merged meanwhile


def merge(root: Path, log: Path, *borders: int) -> None:
    """What `archive --compact` does: the merged range, then its parts are deleted."""
    write_archive(root, log, borders[0], borders[-1])
    for start, end in pairwise(borders):
        shutil.rmtree(root / RECORDS / OffsetRange(start, end).directory)


def test_task_reads_ranges_merged_after_its_planning(writer: LogWriter, root: Path) -> None:
    end = writer.end_offset
    write_archive(root, writer.directory, 0, 7, 30, end)
    reader = batch_reader(root)
    tasks = reader.partitions()
    merge(root, writer.directory, 0, 7, 30, end)
    found = [o for task in tasks for each in reader.read(task) for o in each["offset"].to_pylist()]
    assert sorted(found) == list(range(end))


def test_merge_between_listing_and_opening_is_detected_and_a_later_one_is_harmless(
    writer: LogWriter, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First after the ranges were listed and before files are opened, then while rows are read."""
    end = writer.end_offset
    write_archive(root, writer.directory, 0, 7, 30, end)
    covering = module._covering
    merges = iter([(0, 7, 30)])

    def with_a_merge(*arguments: Any) -> list[OffsetRange]:
        found = covering(*arguments)
        for borders in merges:
            merge(root, writer.directory, *borders)
        return found

    monkeypatch.setattr(module, "_covering", with_a_merge)
    requested = pa.schema([("offset", pa.int64())])
    rows: Iterator[pa.RecordBatch] = archived_rows(root, 0, end, requested, keep_problems=False)
    first = next(rows)
    merge(root, writer.directory, 0, 30, end)
    found = [offset for each in [first, *rows] for offset in each["offset"].to_pylist()]
    assert sorted(found) == list(range(end))


# -- stream


def test_stream_follows_the_archive_through_growth_merges_and_a_restart(
    writer: LogWriter, root: Path
) -> None:
    end = writer.end_offset
    write_archive(root, writer.directory, 0, 7)
    found: list[int] = []
    at = stream_reader(root).initialOffset()
    assert at["offset"] == 0

    def step(reader: LogStreamReader) -> bool:
        nonlocal at
        following = reader.latestOffset(at, reader.getDefaultReadLimit())
        if following == at:
            return False
        for task in reader.partitions(at, following):
            for batch in reader.read(task):
                found.extend(batch["offset"].to_pylist())
        at = following
        return True

    bounded = stream_reader(root, maxOffsetsPerTrigger="4")
    assert step(bounded)
    assert sorted(found) == [0, 1, 2, 3]
    assert step(bounded)
    assert not step(bounded)
    write_archive(root, writer.directory, 7, 30)
    merge(root, writer.directory, 0, 7, 30)
    while step(stream_reader(root, maxOffsetsPerTrigger="4")):  # each one as after a restart
        pass
    assert sorted(found) == list(range(30))
    write_archive(root, writer.directory, 30, end)
    assert step(stream_reader(root))
    assert sorted(found) == list(range(end))


def test_stream_that_would_skip_records_fails(writer: LogWriter, root: Path) -> None:
    write_archive(root, writer.directory, 7, writer.end_offset)
    reader = stream_reader(root)
    with pytest.raises(PipelineError, match=f"{root} lacks offsets 3 to 7"):
        reader.partitions({"offset": 3, "from": 3}, {"offset": 9, "from": 3})


@pytest.mark.requirement("SP-01")
def test_lost_beginning_is_reported_unless_only_later_offsets_are_selected(
    tmp_path: Path, root: Path
) -> None:
    writer = LogWriter(tmp_path / "long", segment_bytes=300)
    write_history(writer)
    named = writer.snapshot(drop_log=True)
    for number in range(9):
        writer.elect(number)
    writer.close()
    start, end = open_log(writer.directory).start_offset, writer.end_offset
    assert 0 < start <= named.end_offset
    first, *_ = write_archive(root, writer.directory, start, start + 3, end)
    with pytest.raises(PipelineError, match=f"{root} lacks offsets 0 to {start}"):
        batch_reader(root).partitions()
    (root / "snapshots").mkdir()
    (root / "snapshots" / named.file_name).write_bytes(b"")
    assert offsets_of(batch_reader(root)) == list(range(start, end))
    shutil.rmtree(first)
    (root / "snapshots" / named.file_name).unlink()
    with pytest.raises(PipelineError, match=f"{root} lacks offsets 0 to {start + 3}"):
        batch_reader(root).partitions()
    at = stream_reader(root).initialOffset()
    with pytest.raises(PipelineError, match=f"{root} lacks offsets 0 to {start + 3}"):
        stream_reader(root).partitions(at, {"offset": end, "from": 0})
    rest = batch_reader(root, startOffset=str(start + 3))
    assert offsets_of(rest) == list(range(start + 3, end))


def test_ranges_are_divided_into_the_requested_number_of_tasks(
    writer: LogWriter, root: Path
) -> None:
    end = writer.end_offset
    write_archive(root, writer.directory, 0, 7, end)
    reader = batch_reader(root, minPartitions="6")
    assert len(reader.partitions()) >= 6
    assert offsets_of(reader) == list(range(end))
