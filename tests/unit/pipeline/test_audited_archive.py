"""An archive is audited as one more replica: for any range boundaries, and down to a bit in a column that no other reader uses."""

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from quorum_node.records import metadata as md
from quorum_pipeline.__main__ import main
from quorum_pipeline.files.log_directory import open_log
from support.audited import audit
from support.written_archive import write_archive
from support.written_log import LogWriter, write_history


@pytest.fixture
def node(tmp_path: Path) -> Path:
    writer = LogWriter(tmp_path / "node", segment_bytes=800)
    write_history(writer)
    writer.close()
    return tmp_path / "node"


@pytest.mark.requirement("SP-04")
def test_valid_archive_with_any_range_boundaries_passes(node: Path, tmp_path: Path) -> None:
    log = open_log(node)
    end = log.end_offset()
    whole = audit([node])
    for number, borders in enumerate(([0, end], [0, 5, 12, 13, 14, 40, end], [0, 20, end - 1])):
        root = tmp_path / f"archive-{number}"
        write_archive(root, log.path, *borders)
        found = audit([node], (root,), span_bytes=300)
        assert found.findings == ()
        assert found.matching.compared == whole.batches
        assert found.logs.drilled == (borders[-1] < end)
        alone = audit([], (root,))
        assert (alone.findings, alone.batches) == ((), whole.batches)


@pytest.mark.requirement("SP-04")
def test_archive_of_another_history_is_reported(node: Path, tmp_path: Path) -> None:
    root, other = tmp_path / "archive", tmp_path / "other"
    writer = LogWriter(other)
    write_history(writer)
    writer.append(md.TopicRecord(name="wrong", topic_id=md.LOST))
    writer.elect(3)
    writer.close()
    log = open_log(node)
    shutil.copytree(node, tmp_path / "second")
    with (log.path / log.segments[1].path.name).open("r+b") as file:
        file.seek(15)
        file.write(b"\x00")  # an epoch, which no checksum covers
    write_archive(root, open_log(other).path, 0, writer.end_offset)
    found = audit([node, tmp_path / "second"], (root,))
    assert {each.replica for each in found.findings} == {str(node)}
    assert found.logs.drilled == 1
    assert "which no majority has" in found.matching.tails[0]
    assert str(root) in found.matching.tails[0]


@pytest.mark.requirement("SP-04")
def test_flipped_bit_in_an_archive_is_reported(node: Path, tmp_path: Path) -> None:
    """In any page of a file, also of a column that is not compared."""
    root = tmp_path / "archive"
    log = open_log(node)
    write_archive(root, log.path, 0, log.end_offset())
    path = next((root / "records").glob("*/part*.parquet"))
    sound = path.read_bytes()
    columns = pq.read_metadata(path).row_group(0)
    for name in ("offset", "batch_crc", "value", "type", "topic.name", "source"):
        (column,) = (
            columns.column(number)
            for number in range(columns.num_columns)
            if columns.column(number).path_in_schema == name
        )
        data = bytearray(sound)
        start = column.dictionary_page_offset or column.data_page_offset
        data[start + column.total_compressed_size - 1] ^= 1
        path.write_bytes(data)
        found = audit([node], (root,)).findings
        assert {each.replica for each in found} == {str(root)}, name
        assert "CRC checksum verification failed" in found[0].what
    path.write_bytes(sound)
    assert audit([node], (root,)).findings == ()


def test_quarantined_records_are_reported(node: Path, tmp_path: Path) -> None:
    root = tmp_path / "archive"
    log = open_log(node)
    end = log.end_offset()
    segment = log.segments[1].path
    sound = segment.read_bytes()
    segment.write_bytes(sound[:70] + bytes((sound[70] ^ 1,)) + sound[71:])
    write_archive(root, log.path, 0, end)
    segment.write_bytes(sound)
    (found,) = audit([node], (root,)).findings
    assert (found.replica, found.offset) == (str(root), log.segments[1].base_offset)
    assert "in quarantine: " in found.what
    assert "checksum differs" in found.what


@pytest.mark.requirement("SP-04")
def test_lost_beginning_of_an_archive_is_reported(node: Path, tmp_path: Path) -> None:
    """The other replicas have the records; an archive that is audited alone has nothing to be compared with."""
    root, log = tmp_path / "archive", open_log(node)
    first, *_ = write_archive(root, log.path, 0, 5, log.end_offset())
    shutil.rmtree(first)
    for found in (audit([node], (root,)), audit([], (root,))):
        (lost,) = found.findings
        assert (lost.replica, lost.offset) == (str(root), 0)
        assert "offsets 0 to 5 are missing, and no snapshot has their state" in lost.what


def test_archive_audit_command(
    node: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "archive"
    log = open_log(node)
    write_archive(root, log.path, 0, log.end_offset())
    assert main(["audit", str(node), "--archive", str(root)]) == 0
    output = capsys.readouterr().out
    assert "2 logs, " in output
    assert "in this process: 1 blocks, 0 of them compared batch by batch; " in output
    assert main(["audit"]) == 2


@pytest.mark.parametrize("command", [["audit"], ["timeline"], ["state"]])
@pytest.mark.parametrize("where", [["--master", "none"], ["--remote", "sc://nobody"]])
def test_archive_that_is_not_mounted_needs_a_spark_context(
    command: list[str], where: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--archive", "s3://lab/demo", *where]) == 2
    output = capsys.readouterr().err
    assert "a directory that is not in a mounted file system needs" in output
    assert where[0] in output
