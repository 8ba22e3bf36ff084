"""Queries of `metadata_log` and `metadata_archive` that begin and end at times, as in Spark's Kafka source."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from quorum_node.records import metadata as md
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.spark.archive_source import MetadataArchive
from quorum_pipeline.spark.log_source import LogReader, LogStreamReader, MetadataLog
from support.flipped_bit import flipped_bit
from support.written_archive import write_archive
from support.written_log import BEGAN_MS, LogWriter

SCHEMA = StructType([StructField("offset", LongType())])
BATCHES, RECORDS = 40, 3


@pytest.fixture
def writer(tmp_path: Path) -> LogWriter:
    """Batches of three records, a second apart."""
    made = LogWriter(tmp_path / "node", segment_bytes=1_000)
    for _ in range(BATCHES):
        made.append(*[md.NoOpRecord()] * RECORDS)
    made.close()
    return made


@pytest.fixture(params=[MetadataLog, MetadataArchive])
def source(
    request: pytest.FixtureRequest, writer: LogWriter, tmp_path: Path
) -> Callable[..., MetadataLog | MetadataArchive]:
    root = writer.directory
    if request.param is MetadataArchive:
        root = tmp_path / "archive"
        write_archive(root, writer.directory, 0, 50, BATCHES * RECORDS)

    def made(**options: str) -> MetadataLog | MetadataArchive:
        found: MetadataLog | MetadataArchive = request.param({"path": str(root), **options})
        return found

    return made


def offsets(source: MetadataLog | MetadataArchive) -> list[int]:
    reader = source.reader(SCHEMA)
    assert isinstance(reader, LogReader)
    return [
        row["offset"]
        for task in reader.partitions()
        for batch in reader.read(task)
        for row in batch.to_pylist()
    ]


def millis(batch: int, more: int = 0) -> str:
    return str(BEGAN_MS + 1000 * batch + more)


def test_query_has_the_records_from_a_time_on_and_before_another(
    source: Callable[..., MetadataLog | MetadataArchive],
) -> None:
    every = list(range(BATCHES * RECORDS))
    assert offsets(source(startingTimestamp="0")) == every
    assert offsets(source(endingTimestamp=millis(BATCHES))) == every
    for batch in (0, 1, 7, 16, 17, 38, 39):
        at = batch * RECORDS
        assert offsets(source(startingTimestamp=millis(batch))) == every[at:]
        assert offsets(source(startingTimestamp=millis(batch - 1, 1))) == every[at:]
        assert offsets(source(endingTimestamp=millis(batch))) == every[:at]
    text = datetime.fromtimestamp(BEGAN_MS / 1000 + 5, UTC).isoformat()
    found = offsets(source(startingTimestamp=text, endingTimestamp=millis(6)))
    assert found == every[15:18]
    assert offsets(source(startOffset="16", endingTimestamp=millis(6))) == [16, 17]
    assert offsets(source(startingTimestamp=millis(5), endingTimestamp=millis(5))) == []


def test_start_after_all_records_is_an_error_or_the_end(
    source: Callable[..., MetadataLog | MetadataArchive],
) -> None:
    late = millis(BATCHES)
    with pytest.raises(PipelineError, match="with an earlier record than startingTimestamp"):
        offsets(source(startingTimestamp=late))
    latest = {"startingTimestamp": late, "startingOffsetsByTimestampStrategy": "latest"}
    assert offsets(source(**latest)) == []
    for options, expected in (
        (latest, BATCHES * RECORDS),
        ({"startingTimestamp": millis(9)}, 9 * RECORDS),
    ):
        stream = source(**options).streamReader(SCHEMA)
        assert isinstance(stream, LogStreamReader)
        assert stream.initialOffset()["offset"] == expected
    with pytest.raises(PipelineError, match="endingTimestamp is for batch queries"):
        source(endingTimestamp=late).streamReader(SCHEMA)


def test_damage_does_not_stop_the_search(writer: LogWriter) -> None:
    """It is an error of those queries that read it."""
    first = min(writer.directory.glob("*.log"))
    with flipped_bit(first, first.stat().st_size // 2):
        options = {"path": str(writer.directory), "startingTimestamp": millis(30)}
        assert offsets(MetadataLog(options)) == list(range(90, BATCHES * RECORDS))
