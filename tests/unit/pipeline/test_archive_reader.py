"""An archive in this machine's file system is read without Spark: what counts of it, its state at any offset, and what is wrong with it."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from quorum_node.records import metadata as md
from quorum_node.records.snapshot_format import SnapshotBounds, encode_snapshot
from quorum_node.records.snapshot_id import SnapshotId
from quorum_pipeline.__main__ import main
from quorum_pipeline.archive.layout import MARKER, OffsetRange, state_directory
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.archive_reader import ArchiveReader
from quorum_pipeline.files.local_files import LocalFiles
from quorum_pipeline.state.moment import Moment
from support.written_archive import archived_state, write_archive
from support.written_log import BEGAN_MS, LogWriter, write_history

CHANGE = md.encode_metadata(md.PartitionChangeRecord(partition_id=7, topic_id=UUID(int=1)))


@pytest.fixture
def writer(tmp_path: Path) -> LogWriter:
    return LogWriter(tmp_path / "node", segment_bytes=700)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "an archive"


def reader(root: Path) -> ArchiveReader:
    return ArchiveReader(LocalFiles(), str(root))


def image(root: Path, moment: Moment) -> bytes:
    return b"".join(archived_state(root, moment).snapshot())


@pytest.mark.requirement("SP-03")
def test_state_at_every_batch_equals_that_of_a_node(writer: LogWriter, root: Path) -> None:
    images = write_history(writer)
    writer.close()
    end = writer.end_offset
    write_archive(root, writer.directory, 0, 7, 30, end)
    found = reader(root).contents()
    assert found.ranges == (OffsetRange(0, 7), OffsetRange(7, 30), OffsetRange(30, end))
    assert (found.start, found.end, found.quarantined) == (0, end, 0)
    for number, (offset, expected) in enumerate(images.items()):
        assert image(root, Moment(offset=offset)) == expected
        assert image(root, Moment(time_ms=BEGAN_MS + 1000 * number)) == expected
    assert image(root, Moment()) == images[end]
    with pytest.raises(PipelineError, match=rf"the archive at {root} has offsets 0 to {end}, not "):
        image(root, Moment(offset=end + 1))


def test_only_complete_ranges_count(writer: LogWriter, root: Path) -> None:
    images = write_history(writer)
    writer.close()
    first, second, third = write_archive(root, writer.directory, 0, 3, 7, 51)
    (merged,) = write_archive(root, writer.directory, 0, 7)
    assert reader(root).contents().ranges == (OffsetRange(0, 7), OffsetRange(7, 51))
    shutil.rmtree(second)
    (third / "_COMPLETE").unlink()
    (root / "records" / "offsets=no-range").mkdir()
    (root / "records" / OffsetRange(7, 20).directory).touch()
    assert reader(root).contents().ranges == (OffsetRange(0, 7),)
    assert image(root, Moment()) == images[7]
    shutil.rmtree(merged)
    assert reader(root).contents().ranges == (OffsetRange(0, 3),)
    (first / "_COMPLETE").write_text("{")
    with pytest.raises(PipelineError, match=rf"{first}/_COMPLETE is damaged"):
        reader(root).contents()


@pytest.mark.parametrize("read", [1, 2, 3, 4, 5, 6, 7])
def test_ranges_that_are_merged_while_the_content_is_read(
    writer: LogWriter, root: Path, monkeypatch: pytest.MonkeyPatch, read: int
) -> None:
    """At any of the reads, of names and of markers: the merged range gets its name, then its parts are deleted."""
    write_history(writer)
    writer.close()
    end = writer.end_offset
    parts = write_archive(root, writer.directory, 0, 7, 30, end)
    (merged,) = write_archive(root, writer.directory, 0, end)
    merged.rename(root / "merged")
    before, after = reader(root).contents(), OffsetRange(0, end)
    reads = iter(range(1, 100))

    def merging(call: Callable[..., Any]) -> Callable[..., Any]:
        def called(self: LocalFiles, name: str) -> Any:
            if next(reads) == read:
                (root / "merged").rename(merged)
                for each in parts:
                    shutil.rmtree(each)
            return call(self, name)

        return called

    for name in ("list", "read"):
        monkeypatch.setattr(LocalFiles, name, merging(getattr(LocalFiles, name)))
    found = reader(root).contents()
    assert merged.exists()
    assert found.ranges in (before.ranges, (after,))
    assert (found.start, found.end) == (0, end)


def test_incomplete_range_is_not_read_again(
    writer: LogWriter, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stays incomplete: the listing after it is the same."""
    write_history(writer)
    writer.close()
    _, last = write_archive(root, writer.directory, 0, 7, writer.end_offset)
    (last / "_COMPLETE").unlink()
    listed = list[str]()
    names = LocalFiles.list
    monkeypatch.setattr(
        LocalFiles, "list", lambda self, name: listed.append(name) or names(self, name)
    )
    for found in (reader(root).ranges(), [*reader(root).contents().ranges]):
        assert found == [OffsetRange(0, 7)]
    assert listed.count(str(root / "records")) == 2 * 2


def test_state_after_a_snapshot(writer: LogWriter, root: Path) -> None:
    write_history(writer)
    begins = writer.snapshot(drop_log=True)
    writer.elect(3)
    writer.close()
    copied = root / "snapshots" / begins.file_name
    copied.parent.mkdir(parents=True)
    shutil.copy(writer.directory / begins.file_name, copied)
    (copied.parent / f".{copied.name}.crc").touch()
    write_archive(root, writer.directory, begins.end_offset, writer.end_offset)
    assert image(root, Moment()) == writer.image_bytes()
    with pytest.raises(PipelineError, match=rf"has offsets {begins.end_offset} to \d+, not 3"):
        image(root, Moment(offset=3))
    with pytest.raises(
        PipelineError, match=rf"after a snapshot at offset {begins.end_offset}; it has no"
    ):
        image(root, Moment(time_ms=3))
    wrong = b"".join(encode_snapshot(begins, SnapshotBounds(BEGAN_MS, 1, None), [CHANGE]))
    copied.write_bytes(wrong)
    with pytest.raises(PipelineError, match=rf"{copied}, offset \d: a change of partition"):
        image(root, Moment())


def test_contradicting_record_is_reported_with_directory_and_offset(
    writer: LogWriter, root: Path
) -> None:
    write_history(writer)
    wrong = writer.end_offset
    writer.append_bytes([CHANGE])
    writer.elect(3)
    writer.close()
    _, holding, _ = write_archive(root, writer.directory, 0, 20, wrong + 1, writer.end_offset)
    with pytest.raises(PipelineError, match=rf"^{holding}, offset {wrong}: a change of partition"):
        image(root, Moment())
    assert archived_state(root, Moment(offset=wrong)).end_offset == wrong


def test_invalid_archive_is_rejected(
    writer: LogWriter, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No archive, one with nothing in it, and one with records in quarantine."""
    (root / "records").mkdir(parents=True)
    for path in (root, root / "missing"):
        assert main(["state", "--archive", str(path)]) == 2
        message = f"quorum-pipeline state: {path} is not an archive, or is empty\n"
        assert capsys.readouterr().err == message
    known = md.encode_metadata(md.NoOpRecord())
    writer.append_bytes([known, known[:2] + b"\x63" + known[3:]])
    writer.close()
    write_archive(root, writer.directory, 0, 2)
    assert main(["state", "--archive", str(root)]) == 2
    assert f"1 records of {root} are in quarantine: no state" in capsys.readouterr().err


@pytest.mark.parametrize("left_bytes", [0, 4, 50, -3])
def test_damaged_file_is_reported_by_name(writer: LogWriter, root: Path, left_bytes: int) -> None:
    write_history(writer)
    writer.close()
    _, second = write_archive(root, writer.directory, 0, 7, writer.end_offset)
    file = min(second.glob("*.parquet"))
    file.write_bytes(file.read_bytes()[:left_bytes])
    message = rf"^{file}: the checksum of its footer"
    with pytest.raises(PipelineError, match=message):
        image(root, Moment())
    file.unlink()
    with pytest.raises(PipelineError, match=r"has \d+ records, and its marker says \d+: files"):
        image(root, Moment())


def test_spark_is_not_imported(writer: LogWriter, root: Path, tmp_path: Path) -> None:
    images = write_history(writer)
    writer.close()
    write_archive(root, writer.directory, 0, writer.end_offset)
    program = (
        "import sys; sys.modules.update(dict.fromkeys(('pyspark', 'py4j')));"  # None: can't be imported
        "from quorum_pipeline.__main__ import main; sys.exit(main(sys.argv[1:]))"
    )
    arguments = ("state", "--archive", root, "--snapshot", tmp_path / "snapshot")
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    (path,) = (tmp_path / "snapshot").iterdir()
    assert path.read_bytes() == images[writer.end_offset]


def test_states_and_snapshots_of_removed_records_are_reported(root: Path) -> None:
    """They would be taken for the state before the records of another log, or another part of it."""
    found = reader(root)
    found.check_new(None)
    for name in (SnapshotId(30, 2).file_name, SnapshotId(20, 2).file_name):
        (root / "snapshots").mkdir(parents=True, exist_ok=True)
        (root / "snapshots" / name).touch()
    found.check_new(SnapshotId(30, 2).file_name)
    found.check_new(SnapshotId(31, 2).file_name)
    for stored in (None, SnapshotId(29, 2).file_name):
        with pytest.raises(
            PipelineError, match=r"has no records, but snapshots/0{18}30-0{9}2\.chec"
        ):
            found.check_new(stored)
    shutil.rmtree(root / "snapshots")
    state = root / "states" / state_directory(30)
    state.mkdir(parents=True)
    found.check_new(None)
    (state / MARKER).touch()
    with pytest.raises(
        PipelineError, match=rf"^{root} has no records, but states/offset=0{{18}}30 of "
    ):
        found.check_new(None)


class CountingFiles(LocalFiles):
    """Counts the directories that are listed and the files that are read."""

    count = 0

    def list(self, directory: str) -> list[str]:
        self.count += 1
        return super().list(directory)

    def read(self, file: str) -> str | None:
        self.count += 1
        return super().read(file)


def test_writer_reads_the_markers_of_new_ranges_only(writer: LogWriter, root: Path) -> None:
    """Else it would become slower with each range, where a file system is far away."""
    write_history(writer)
    writer.close()
    files = CountingFiles()
    found = ArchiveReader(files, str(root))
    counts = []
    with found.remembering():
        for start in range(0, 12, 2):
            write_archive(root, writer.directory, start, start + 2)
            files.count = 0
            assert found.contents().end == start + 2
            counts.append(files.count)
    assert counts == [counts[0]] * 6
    shutil.rmtree(root / "records" / OffsetRange(10, 12).directory)
    assert found.contents().end == 10
