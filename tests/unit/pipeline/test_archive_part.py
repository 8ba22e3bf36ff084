"""A part of an archive: every row in one of two files, and no file where it did not come to its end."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from quorum_node.records import metadata as md
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files import archive_part
from quorum_pipeline.files.archive_part import write_part
from quorum_pipeline.files.log_directory import open_log
from quorum_pipeline.files.log_rows import span_rows
from quorum_pipeline.files.sealed_file import stem_of
from quorum_pipeline.files.written_parts import keep_only
from quorum_pipeline.rows.column_types import arrow_schema
from quorum_pipeline.rows.gathering import AnyRows
from quorum_pipeline.rows.table import COMMON_COLUMNS, table_columns
from support.written_log import LogWriter, write_history

SCHEMA = pa.schema({"offset": pa.int64(), "type": pa.string(), "problem": pa.string()})
EVERYTHING = arrow_schema(table_columns())
KNOWN = md.encode_metadata(md.NoOpRecord())
UNKNOWN = KNOWN[:2] + b"\x63" + KNOWN[3:]


def blocks(writer: LogWriter) -> Iterator[AnyRows]:
    (span,) = open_log(writer.directory).spans(0, 1 << 30)
    return span_rows(span, 0, 1 << 62, keep_problems=True)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir()) if directory.exists() else []


@pytest.fixture
def writer(tmp_path: Path) -> LogWriter:
    return LogWriter(tmp_path / "node")


def test_undecodable_records_are_written_separately(writer: LogWriter, tmp_path: Path) -> None:
    write_history(writer)
    writer.append_bytes([KNOWN, UNKNOWN])
    writer.close()
    records, quarantine = tmp_path / "r", tmp_path / "q"
    part = write_part(blocks(writer), SCHEMA, "p", records, quarantine)
    assert (part.rows, part.quarantined) == (writer.end_offset - 1, 1)
    assert (part.least, part.most) == (0, writer.end_offset - 1)
    assert [*map(stem_of, (*part.records, *part.quarantine))] == ["p-0", "p-0"]
    whole = pq.read_table(records / part.records[0])
    assert whole.column("offset").to_pylist() == list(range(writer.end_offset - 1))
    (apart,) = pq.read_table(quarantine / part.quarantine[0]).to_pylist()
    assert apart["offset"] == writer.end_offset - 1
    assert apart["problem"] == "NoOpRecord version 99 is not known"


def test_each_type_has_its_own_file(
    writer: LogWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Together they hold what one file would: every row once, with all that is in it, damaged ones apart."""
    write_history(writer)
    writer.append_bytes([KNOWN, UNKNOWN, KNOWN])
    writer.close()
    found = {}
    for least_rows in (1, 1 << 20):
        monkeypatch.setattr(archive_part, "WORTH_FILES_ROWS", least_rows)
        tables = [tmp_path / f"{table}-{least_rows}" for table in "rq"]
        part = write_part(blocks(writer), EVERYTHING, "p", *tables)
        for directory, files in zip(tables, (part.records, part.quarantine), strict=True):
            keep_only(directory, set(files), EVERYTHING)
        assert (len(part.records) > 5) == (least_rows == 1)
        assert part.quarantined == 1
        found[least_rows] = [read(each) for each in tables]
        assert sum(map(len, found[least_rows])) == part.rows + 1 == writer.end_offset
    assert found[1] == found[1 << 20]
    narrow = [pq.read_schema(each) for each in (tmp_path / "r-1").glob("*.parquet")]
    assert {name for each in narrow for name in each.names} == set(EVERYTHING.names)
    assert min(len(each.names) for each in narrow) < len(COMMON_COLUMNS)


def read(directory: Path) -> list[dict[str, object]]:
    """As any reader of Arrow does, with the columns of the directory."""
    schema = pq.read_schema(directory / "_common_metadata")
    assert schema == EVERYTHING
    table = ds.dataset(directory, schema=schema).to_table().sort_by("offset")
    rows: list[dict[str, object]] = table.to_pylist()
    return rows


def test_no_file_is_written_without_valid_records(writer: LogWriter, tmp_path: Path) -> None:
    writer.append_bytes([UNKNOWN])
    writer.close()
    part = write_part(blocks(writer), SCHEMA, "p", tmp_path / "r", tmp_path / "q")
    assert (part.rows, part.quarantined, part.records) == (0, 1, ())
    assert names(tmp_path / "r") == []
    nothing = write_part(iter([]), SCHEMA, "n", tmp_path / "n", tmp_path / "m")
    assert (nothing.least, nothing.quarantine, names(tmp_path / "m")) == (None, (), [])


def test_failing_source_leaves_no_files(writer: LogWriter, tmp_path: Path) -> None:
    writer.append_bytes([KNOWN, UNKNOWN])
    writer.close()

    def failing() -> Iterator[AnyRows]:
        yield from blocks(writer)
        raise PipelineError("gone")

    with pytest.raises(PipelineError, match="gone"):
        write_part(failing(), SCHEMA, "p", tmp_path / "r", tmp_path / "q")
    assert names(tmp_path / "r") == names(tmp_path / "q") == []


def test_files_of_failed_attempts_are_removed_and_committed_ones_are_required(
    tmp_path: Path,
) -> None:
    for name in ("a", "b", ".c"):
        (tmp_path / name).touch()
    keep_only(tmp_path, {"a"}, SCHEMA)
    assert names(tmp_path) == ["_common_metadata", "a"]
    with pytest.raises(PipelineError, match=r"/b, which the driver can't see"):
        keep_only(tmp_path, {"a", "b"}, SCHEMA)
    with pytest.raises(PipelineError, match="have to mount"):
        keep_only(tmp_path / "none", {"a"}, SCHEMA)
    keep_only(tmp_path / "none", set(), SCHEMA)
