"""`quorum-pipeline history`: how an archive was written, from its markers."""

import json
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from quorum_pipeline.__main__ import main
from quorum_pipeline.archive.layout import (
    DELTAS,
    MARKER,
    QUARANTINE,
    RECORDS,
    STATES,
    Marker,
    OffsetRange,
)
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.archive_operations import APPEND, MERGE, STATE, operations
from quorum_pipeline.files.archive_reader import ArchiveReader
from quorum_pipeline.files.local_files import LocalFiles, StoredFile
from quorum_pipeline.spark.stages import StagesHere
from quorum_pipeline.spark.stored_states import keep_state
from support.written_archive import write_archive
from support.written_log import LogWriter, write_history

WRITTEN_MS = 1_800_000_000_000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two appended ranges, a state at the end of the first one, and a range without a marker."""
    writer = LogWriter(tmp_path / "node", segment_bytes=2_000)
    write_history(writer)
    writer.close()
    root = tmp_path / "archive"
    (first,) = write_archive(root, writer.directory, 0, 30, deltas=True)
    reader = ArchiveReader(LocalFiles(), str(root))
    assert keep_state(StagesHere(2), reader, 1) == 30
    second, third = write_archive(root, writer.directory, 30, 40, 45)
    (third / MARKER).unlink()
    for number, each in enumerate((first, second, root / STATES / f"offset={30:020d}")):
        seconds = WRITTEN_MS // 1000 + number
        os.utime(each / MARKER, (seconds, seconds))
    return root


def size_of(*directories: Path) -> int:
    return sum(path.stat().st_size for each in directories for path in each.iterdir())


def test_one_row_per_complete_range_and_state(root: Path) -> None:
    found = operations(ArchiveReader(LocalFiles(), f"{root}/"))
    second, state, first = found
    assert [(each.kind, each.start_offset, each.end_offset) for each in found] == [
        (APPEND, 30, 40),
        (STATE, None, 30),
        (APPEND, 0, 30),
    ]
    assert (first.records, second.records, state.records) == (30, 10, None)
    assert first.rows > 0 == second.rows
    assert state.rows > 0
    name = OffsetRange(0, 30).directory
    assert first.size_bytes == size_of(root / RECORDS / name, root / DELTAS / name)
    assert state.size_bytes == size_of(root / STATES / f"offset={30:020d}")
    times = [each.written_ms - WRITTEN_MS for each in (first, second, state)]
    assert times == [0, 1000, 2000], "markers of older versions have no time of their own"


def test_merged_range_replaces_the_original_ranges(root: Path) -> None:
    merged = root / RECORDS / OffsetRange(0, 40).directory
    merged.mkdir()
    (merged / MARKER).write_text(Marker(38, 2, 7, merged=2, written_ms=WRITTEN_MS).text())
    apart = root / QUARANTINE / merged.name
    apart.mkdir(parents=True)
    (apart / "part-0.parquet").write_bytes(b"12345")
    first, _ = operations(ArchiveReader(LocalFiles(), str(root)))
    assert (first.kind, first.start_offset, first.end_offset) == (MERGE, 0, 40)
    assert (first.records, first.quarantined, first.rows, first.merged) == (38, 2, 7, 2)
    assert first.written_ms == WRITTEN_MS
    assert first.size_bytes == size_of(merged) + 5


def test_command_prints_a_table_or_json(
    root: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    # No record is decoded: the files of records may be damaged.
    for path in root.glob("*/*/*.parquet"):
        path.write_bytes(bytes(path.stat().st_size))
    assert main(["history", "--archive", str(root)]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == [
        "offsets", "operation", "records", "quarantined", "rows", "bytes", "written",
    ]  # fmt: skip
    assert [line.split()[:2] for line in lines] == [
        ["30-40", "append"], ["30", "state"], ["0-30", "append"],
    ]  # fmt: skip
    assert lines[-1].endswith("2027-01-15T08:00:00.000Z")
    assert main(["history", "--archive", str(root), "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["end_offset"] for row in rows] == [40, 30, 30]
    assert rows[0]["operation"] == "append"
    assert rows[0]["records"] == 10
    assert main(["history", "--archive", str(tmp_path)]) == 2
    assert "is not an archive, or is empty" in capsys.readouterr().err


def test_damaged_marker_is_reported(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / STATES / f"offset={30:020d}" / MARKER).write_text("{}")
    assert main(["history", "--archive", str(root)]) == 2
    assert f"offset={30:020d}/_COMPLETE is damaged" in capsys.readouterr().err


def test_state_without_a_marker_is_ignored(root: Path) -> None:
    (root / STATES / f"offset={30:020d}" / MARKER).unlink()
    found = operations(ArchiveReader(LocalFiles(), str(root)))
    assert [each.kind for each in found] == [APPEND, APPEND]


class ChangedMeanwhile(LocalFiles):
    """Deletes a directory when the file in it is to be read for the first time."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def read(self, file: str) -> str | None:
        if Path(file).parent == self._directory:
            shutil.rmtree(self._directory, ignore_errors=True)
        return super().read(file)


def test_directory_that_another_process_deletes_meanwhile_is_left_out(root: Path) -> None:
    state = root / STATES / f"offset={30:020d}"
    found = operations(ArchiveReader(ChangedMeanwhile(state), str(root)))
    assert [(each.kind, each.end_offset) for each in found] == [(APPEND, 40), (APPEND, 30)]
    last = root / RECORDS / OffsetRange(30, 40).directory
    found = operations(ArchiveReader(ChangedMeanwhile(last), str(root)))
    assert [(each.kind, each.end_offset) for each in found] == [(APPEND, 30)]


class DeletedWhileListed(LocalFiles):
    """When a directory is listed with the sizes of its files for the first time, its marker is deleted already."""

    def __init__(self, directory: Path, *, whole: bool, instead: Callable[[], object]) -> None:
        self._directory, self._whole, self._instead = directory, whole, instead
        self._done = False

    def stored(self, directory: str) -> tuple[StoredFile, ...]:
        if Path(directory) == self._directory and not self._done:
            self._done = True
            self._instead()
            (self._directory / MARKER).unlink()
            if self._whole:
                shutil.rmtree(self._directory)
        return super().stored(directory)


@pytest.mark.parametrize("whole", [True, False])
def test_range_that_is_merged_after_its_marker_was_read_is_listed_as_merged(
    root: Path, whole: bool
) -> None:
    """A merge deletes the marker first, then the directory."""
    first, log = root / RECORDS / OffsetRange(0, 30).directory, root.parent / "node"
    files = DeletedWhileListed(first, whole=whole, instead=lambda: write_archive(root, log, 0, 40))
    found = operations(ArchiveReader(files, str(root)))
    assert [(each.kind, each.start_offset, each.end_offset) for each in found] == [
        (APPEND, 0, 40),
        (STATE, None, 30),
    ]
    assert found[0].size_bytes == size_of(root / RECORDS / OffsetRange(0, 40).directory)


@pytest.mark.parametrize("whole", [True, False])
def test_state_that_is_deleted_while_it_is_listed_is_left_out(root: Path, whole: bool) -> None:
    state = root / STATES / f"offset={30:020d}"
    files = DeletedWhileListed(state, whole=whole, instead=lambda: None)
    found = operations(ArchiveReader(files, str(root)))
    assert [each.kind for each in found] == [APPEND, APPEND]


class MarkerDeleted(LocalFiles):
    """Deletes the marker of a directory when it is to be read: the directory itself is deleted later."""

    def __init__(self, directory: Path, before: Callable[[], object] = lambda: None) -> None:
        self._marker, self._before = directory / MARKER, before

    def read(self, file: str) -> str | None:
        if Path(file) == self._marker and self._marker.exists():
            self._before()
            self._marker.unlink()
        return super().read(file)


def test_marker_of_a_range_that_is_being_deleted_is_not_damaged(root: Path) -> None:
    """In an object store the directory that replaces it may exist for a while before its marker."""
    (merged,) = write_archive(root, root.parent / "node", 0, 40)
    last = root / RECORDS / OffsetRange(30, 40).directory
    readings: list[Callable[[ArchiveReader], object]] = [ArchiveReader.contents, operations]
    for read in readings:
        text = (merged / MARKER).read_text()
        (merged / MARKER).unlink()
        of_last = (last / MARKER).read_text()
        complete = partial((merged / MARKER).write_text, text)
        found = read(ArchiveReader(MarkerDeleted(last, complete), str(root)))
        (last / MARKER).write_text(of_last)
        assert found == read(ArchiveReader(LocalFiles(), str(root)))


def test_empty_marker_is_damaged(root: Path) -> None:
    marker = root / RECORDS / OffsetRange(0, 30).directory / MARKER
    marker.write_text("")
    with pytest.raises(PipelineError, match=f"{marker} is damaged"):
        operations(ArchiveReader(LocalFiles(), str(root)))


def test_state_whose_marker_is_deleted_when_it_is_to_be_read_is_left_out(root: Path) -> None:
    state = root / STATES / f"offset={30:020d}"
    found = operations(ArchiveReader(MarkerDeleted(state), str(root)))
    assert [each.kind for each in found] == [APPEND, APPEND]
