"""Records as rows: whole, in order, in the declared columns; damage is reported, and all other records are read."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from quorum_node.records import metadata as md
from quorum_node.records.batches import DecodedRecord
from quorum_node.records.identity import uuid_text
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.log_directory import open_log
from quorum_pipeline.files.log_rows import span_rows
from quorum_pipeline.rows.arrow import record_batch
from quorum_pipeline.rows.content import control_content, metadata_content
from quorum_pipeline.rows.declared import record_columns
from quorum_pipeline.rows.table import Rows, table_columns
from support.written_log import TOPIC_ID, LogWriter, write_history

ALL = (0, 1 << 62)


@pytest.fixture
def writer(tmp_path: Path) -> LogWriter:
    return LogWriter(tmp_path, segment_bytes=800)


def read(path: Path, span_bytes: int = 1 << 30, keep: bool = True) -> list[Rows]:
    log = open_log(path)
    return [
        rows
        for span in log.spans(0, span_bytes)
        for rows in span_rows(span, *ALL, keep_problems=keep)
    ]


def offsets(found: list[Rows]) -> list[int]:
    return [offset for rows in found for offset in rows.offsets]


def problems(found: list[Rows]) -> list[tuple[int, str]]:
    return [
        (offset, content.problem)
        for rows in found
        for offset, content in zip(rows.offsets, rows.contents, strict=True)
        if content.problem
    ]


@pytest.mark.parametrize("span_bytes", [1, 300, 1 << 30])
def test_every_record_is_read_once_for_any_split(writer: LogWriter, span_bytes: int) -> None:
    write_history(writer)
    writer.close()
    log = open_log(writer.directory.parent)
    assert len(log.segments) > 2
    assert log.end_offset() == writer.end_offset
    assert offsets(read(writer.directory, span_bytes)) == list(range(writer.end_offset))
    if span_bytes == 1:
        assert len(list(log.spans(0, 1))) > len(log.segments)


@pytest.mark.parametrize(("start", "end"), [(15, 30), (10, 30), (10, 49), (11, 50), (10, 50)])
def test_range_starts_and_ends_within_batches(writer: LogWriter, start: int, end: int) -> None:
    """Or with one: that of forty records."""
    write_history(writer)
    writer.close()
    spans = open_log(writer.directory).spans(start, 1)
    found = [rows for span in spans for rows in span_rows(span, start, end, keep_problems=False)]
    assert offsets(found) == list(range(start, end))


def test_unknown_version_or_invalid_record_is_a_problem() -> None:
    """Control records have a type in their key; a metadata record has to have a value."""
    unknown = DecodedRecord(0, 0, b"\0\0\0\x63", b"\0\7")
    assert control_content(unknown).problem == "control type 99 version 7 is not known"
    assert metadata_content(None).problem == "a metadata record without a value"


def test_columns_equal_the_declarations(writer: LogWriter) -> None:
    write_history(writer)
    writer.close()
    schema = pa.schema(
        [
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("us", tz="UTC")),
            ("control", pa.bool_()),
            ("type", pa.string()),
            ("key", pa.string()),
            ("data", pa.string()),
            ("topic", pa.struct([("name", pa.string()), ("topic_id", pa.string())])),
            (
                "partition_change",
                pa.struct([("leader", pa.int32()), ("isr", pa.list_(pa.int32()))]),
            ),
            ("voters", pa.struct([("cluster_id", pa.string())])),
        ]
    )
    found = [
        row for rows in read(writer.directory) for row in record_batch(rows, schema).to_pylist()
    ]
    by_type: dict[str, list[dict[str, object]]] = {}
    for row in found:
        by_type.setdefault(str(row["type"]), []).append(row)
    (topic,) = by_type["TopicRecord"]
    assert topic["topic"] == {"name": "orders", "topic_id": uuid_text(TOPIC_ID)}
    assert topic["partition_change"] is None
    assert topic["key"] == f"topic/{uuid_text(TOPIC_ID)}"
    assert json.loads(str(topic["data"])) == {"name": "orders", "topicId": uuid_text(TOPIC_ID)}
    (change,) = by_type["PartitionChangeRecord"]
    assert change["partition_change"] == {"leader": 2, "isr": [2, 3]}
    assert [row["voters"] for row in by_type["VotersRecord"]] == [{"cluster_id": "cluster"}] * 2
    assert str(found[0]["timestamp"]) == "2023-11-14 22:13:20+00:00"
    assert len(by_type["ConfigRecord"]) == 41
    control = {name for name, rows in by_type.items() if any(row["control"] for row in rows)}
    assert control == {"LeaderChange", "KRaftVersion", "VotersRecord"}


def test_every_declared_record_has_its_column() -> None:
    without_fields = {"NoOpRecord", "EndTransactionRecord"}
    named = {column.record.__name__ for column in record_columns()}
    declared = {cls.__name__ for cls in md.RECORDS_BY_TYPE.values()}
    assert declared - named == without_fields
    assert len(table_columns()) == len({name.lower() for name in table_columns()})
    secret = table_columns()["user_scram_credential"]
    assert "salt" not in secret
    assert "iterations" in secret


def test_unknown_record_is_reported_and_its_bytes_are_kept(writer: LogWriter) -> None:
    writer.append(md.NoOpRecord())
    unknown = md.UnknownMetadata(99, 3, b"\1\2")
    writer.append(unknown, md.NoOpRecord())
    writer.append_bytes([md.encode_metadata(md.TopicRecord(name="t", topic_id=TOPIC_ID))[:-4]])
    writer.close()
    found = read(writer.directory)
    assert offsets(found) == [0, 1, 2, 3]
    reported = problems(found)
    assert reported[0] == (1, "type 99 version 3 is not known")
    assert reported[1][0] == 3
    assert "TopicRecord" in reported[1][1]
    assert found[0].values[1] == md.encode_metadata(unknown)
    with pytest.raises(PipelineError, match=r"offset 1: type 99 version 3 is not known"):
        read(writer.directory, keep=False)
