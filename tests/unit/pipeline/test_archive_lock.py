"""Who writes an archive does so alone, and a log that it is not of is not archived into it."""

import os
from pathlib import Path

import pytest

from quorum_node.records import metadata as md
from quorum_pipeline.__main__ import main
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.archive_lock import LOCK, only_writer
from quorum_pipeline.files.archive_reader import ArchiveReader
from quorum_pipeline.files.local_files import LocalFiles
from quorum_pipeline.spark.origins import DirectoryOrigin, check_history
from support.written_archive import write_archive
from support.written_log import LogWriter


@pytest.mark.requirement("SP-02")
def test_second_writer_is_rejected_until_the_first_one_ends(tmp_path: Path) -> None:
    archive = tmp_path / "new" / "archive"
    with (
        only_writer(archive),
        pytest.raises(PipelineError, match=f"another process writes the archive {archive}"),
        only_writer(archive),
    ):
        raise AssertionError("unreachable")
    with only_writer(archive):
        assert os.listdir(archive) == [LOCK]


def test_unusable_archive_location_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(PipelineError, match=f"{file} can't be written to: File exists"):
        only_writer(file).__enter__()
    with pytest.raises(PipelineError, match="can't be written to: Not a directory"):
        only_writer(file / "archive").__enter__()


def log(path: Path, records: int, elected_at: int = -1) -> Path:
    """Two records a batch; from one offset on they are those of another leader."""
    writer = LogWriter(path, segment_bytes=700)
    while writer.end_offset < records:
        if writer.end_offset == elected_at:
            writer.epoch += 4
        writer.append(md.NoOpRecord(), md.NoOpRecord())
    writer.close()
    return writer.directory


@pytest.mark.requirement("SP-02")
def test_archive_continues_only_with_its_own_log(tmp_path: Path) -> None:
    """What a directory holds at its end may never be committed: other records can be there the next time."""
    archived = log(tmp_path / "archived", 20)
    root = tmp_path / "archive"
    write_archive(root, archived, 0, 7, 20)
    reader = ArchiveReader(LocalFiles(), str(root))

    def check(path: Path) -> None:
        check_history(DirectoryOrigin(path, 1 << 20), reader.contents().end, reader.batch_of)

    check(archived)
    check(log(tmp_path / "longer", 40))
    check(log(tmp_path / "longer, of a new leader", 40, 20))
    check(log(tmp_path / "behind", 6))
    for name, at in (("rewritten at the end", 18), ("rewritten", 4)):
        with pytest.raises(
            PipelineError,
            match=r"at offset 19 it has a batch of epoch 1, CRC .*, but the log one of epoch 5, CRC",
        ):
            check(log(tmp_path / name, 40, at))
    with pytest.raises(PipelineError, match=r"at offset 5 it has a batch of epoch 1"):
        check(log(tmp_path / "rewritten and behind", 6, 2))
    writer = LogWriter(tmp_path / "another cluster")
    writer.append(*[md.NoOpRecord()] * 30)
    writer.close()
    with pytest.raises(PipelineError, match="belong to another cluster"):
        check(writer.directory)


def test_log_that_starts_after_the_archive_is_not_compared(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "node", segment_bytes=100)
    writer.append(md.NoOpRecord())
    write_archive(tmp_path / "archive", writer.directory, 0, 1)
    writer.epoch = 3
    writer.append(*[md.NoOpRecord()] * 9)
    writer.snapshot(drop_log=True)
    writer.append(md.NoOpRecord())
    writer.close()
    reader = ArchiveReader(LocalFiles(), str(tmp_path / "archive"))
    origin = DirectoryOrigin(writer.directory, 1 << 20)
    assert origin.bounds()[0] == 1
    check_history(origin, 1, reader.batch_of)


@pytest.mark.requirement("SP-02")
def test_missing_range_within_the_archive_is_detected(tmp_path: Path) -> None:
    """What is behind it would else count for nothing, and merging would delete it."""
    root = tmp_path / "archive"
    _, second, _ = write_archive(root, log(tmp_path / "node", 20), 0, 7, 12, 20)
    (second / "_COMPLETE").unlink()
    reader = ArchiveReader(LocalFiles(), str(root))
    with pytest.raises(PipelineError, match=rf"{root} lacks offsets 7 to 12"):
        reader.contents()


@pytest.mark.parametrize("inside", [".", "archive", "__cluster_metadata-0/archive"])
def test_log_is_only_read(tmp_path: Path, inside: str, capsys: pytest.CaptureFixture[str]) -> None:
    log(tmp_path / "node", 4)
    before = sorted(tmp_path.rglob("*"))
    target = f"file://{tmp_path}/node/{inside}"
    assert main(["archive", "--log", str(tmp_path / "node"), "--to", target]) == 2
    assert "which must not be changed: use another directory" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


def test_difference_requires_ascending_offsets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log(tmp_path / "node", 4)
    assert main(["diff", "--log", str(tmp_path / "node"), "--from", "4", "--to", "2"]) == 2
    assert "--from 4 is greater than --to 2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--max-rows", "0"), ("--span-bytes", "-1"), ("--compact-rows", "x"), ("--state-rows", "0"),
        ("--keep-states", "0"),
        ("--every", "-3"), ("--every", "nan"), ("--every", "soon"),
    ],
)  # fmt: skip
def test_numbers_that_are_none_are_rejected_before_spark_starts(
    option: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log(tmp_path / "node", 4)
    with pytest.raises(SystemExit) as exited:
        main(
            ["archive", "--log", str(tmp_path / "node"), "--to", str(tmp_path / "a"), option, value]
        )
    assert exited.value.code == 2
    assert f"argument {option}: {value!r} is not a number" in capsys.readouterr().err
