"""A part of an archive: every row in one of two files, and no file where it did not come to its end."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from quorum_node.records import metadata as md
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.archive_part import keep_only, write_part
from quorum_pipeline.files.log_directory import open_log
from quorum_pipeline.files.log_rows import span_rows
from quorum_pipeline.rows.gathering import AnyRows
from support.written_log import LogWriter, write_history

SCHEMA = pa.schema({"offset": pa.int64(), "type": pa.string(), "problem": pa.string()})
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


def test_what_can_not_be_decoded_is_apart(writer: LogWriter, tmp_path: Path) -> None:
    write_history(writer)
    writer.append_bytes([KNOWN, UNKNOWN])
    writer.close()
    records, quarantine = tmp_path / "r", tmp_path / "q"
    part = write_part(blocks(writer), SCHEMA, "p.parquet", records, quarantine)
    assert (part.rows, part.quarantined) == (writer.end_offset - 1, 1)
    assert (part.least, part.most) == (0, writer.end_offset - 1)
    assert (part.records, part.quarantine) == ("p.parquet", "p.parquet")
    whole = pq.read_table(records / "p.parquet")
    assert whole.column("offset").to_pylist() == list(range(writer.end_offset - 1))
    (apart,) = pq.read_table(quarantine / "p.parquet").to_pylist()
    assert apart["offset"] == writer.end_offset - 1
    assert apart["problem"] == "NoOpRecord version 99 is not known"


def test_without_good_records_there_is_a_file_with_the_columns(
    writer: LogWriter, tmp_path: Path
) -> None:
    writer.append_bytes([UNKNOWN])
    writer.close()
    part = write_part(blocks(writer), SCHEMA, "p.parquet", tmp_path / "r", tmp_path / "q")
    assert (part.rows, part.quarantined) == (0, 1)
    assert pq.read_table(tmp_path / "r" / "p.parquet").schema == SCHEMA
    nothing = write_part(iter([]), SCHEMA, "n.parquet", tmp_path / "n", tmp_path / "m")
    assert (nothing.least, nothing.quarantine, names(tmp_path / "m")) == (None, None, [])


def test_a_source_that_fails_leaves_nothing(writer: LogWriter, tmp_path: Path) -> None:
    writer.append_bytes([KNOWN, UNKNOWN])
    writer.close()

    def failing() -> Iterator[AnyRows]:
        yield from blocks(writer)
        raise PipelineError("gone")

    with pytest.raises(PipelineError, match="gone"):
        write_part(failing(), SCHEMA, "p.parquet", tmp_path / "r", tmp_path / "q")
    assert names(tmp_path / "r") == names(tmp_path / "q") == []


def test_what_lost_attempts_left_goes_and_what_counts_has_to_be_there(tmp_path: Path) -> None:
    for name in ("a", "b", ".c"):
        (tmp_path / name).touch()
    keep_only(tmp_path, {"a"})
    assert names(tmp_path) == ["a"]
    with pytest.raises(PipelineError, match=r"/b, which is not there for the driver"):
        keep_only(tmp_path, {"a", "b"})
    with pytest.raises(PipelineError, match="have to mount"):
        keep_only(tmp_path / "none", {"a"})
    keep_only(tmp_path / "none", set())
