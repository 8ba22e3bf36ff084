"""What counts in an archive, or among versions, is on the disk before it gets its name, with the names of all of its files."""

import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from quorum_pipeline.archive.layout import (
    DELTAS,
    MARKER,
    QUARANTINE,
    RECORDS,
    SNAPSHOTS,
    WRITING,
    Marker,
    OffsetRange,
)
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.local_files import LocalFiles
from quorum_pipeline.files.sealed_file import seal
from quorum_pipeline.files.snapshot_file import open_snapshot
from quorum_pipeline.files.stored_snapshot import store_snapshot
from quorum_pipeline.files.version_files import StoredVersions, VersionStore, WrittenFile
from quorum_pipeline.spark import archive as archive_module
from quorum_pipeline.spark.archive import Archive, _complete_here

RANGE = OffsetRange(0, 9)
SYNC, NAME = "sync", "name"


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Path]]:
    """Files and directories that are synced, and names that are given, in order."""
    found: list[tuple[str, Path]] = []
    fsync, replace, rename = os.fsync, os.replace, os.rename

    def synced(file: int) -> None:
        found.append((SYNC, Path(os.readlink(f"/proc/self/fd/{file}"))))
        fsync(file)

    def named(change: Any) -> Any:
        def changed(source: Any, target: Any) -> None:
            found.append((NAME, Path(target)))
            change(source, target)

        return changed

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", named(replace))
    monkeypatch.setattr(os, "rename", named(rename))
    return found


def written(directory: Path) -> str:
    directory.mkdir(parents=True)
    pq.write_table(pa.table({"a": [1]}), directory / ".part.parquet")
    return seal(directory / ".part.parquet", "part")


def test_range_of_an_archive(tmp_path: Path, seen: list[tuple[str, Path]]) -> None:
    unfinished = tmp_path / RECORDS / WRITING / RANGE.directory
    beside = [tmp_path / table / RANGE.directory for table in (DELTAS, QUARANTINE)]
    files = [each / written(each) for each in (unfinished, *beside)]
    for each in files:
        unnamed = each.with_name(".part.parquet")
        assert seen.index((SYNC, unnamed)) < seen.index((NAME, each))
    _complete_here(tmp_path, RANGE, Marker(1, 0).text())
    counts = seen.index((NAME, tmp_path / RECORDS / RANGE.directory))
    marker = seen.index((NAME, unfinished / MARKER))
    assert seen.index((SYNC, unfinished / f".{MARKER}")) < marker
    assert marker < seen.index((SYNC, unfinished)) < counts
    for each in (*beside, *(each.parent for each in beside)):
        assert seen.index((SYNC, each)) < counts
    assert seen[counts + 1 :] == [(SYNC, tmp_path / RECORDS), (SYNC, tmp_path)]


def test_step_of_versions(tmp_path: Path, seen: list[tuple[str, Path]]) -> None:
    store = VersionStore(tmp_path)
    directory = store.begin(RANGE)
    name = written(directory / "topics")
    store.complete(StoredVersions(RANGE, (WrittenFile("topics", name, 1),), None))
    counts = seen.index((NAME, tmp_path / RANGE.directory))
    assert seen.index((SYNC, directory / f".{MARKER}")) < seen.index((NAME, directory / MARKER))
    for each in (directory, directory / "topics"):
        assert seen.index((NAME, directory / MARKER)) < seen.index((SYNC, each)) < counts
    assert seen[counts + 1 :] == [(SYNC, tmp_path)]


class Mounted(LocalFiles):
    """In place of `HadoopFiles`, for a mounted archive."""

    def __init__(self, _context: Any) -> None:
        """Nothing is kept."""

    def upload(self, local: str, target: str) -> None:
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(local, target)


class Session:
    sparkContext = None  # noqa: N815


def test_snapshot_before_the_first_record(
    tmp_path: Path, seen: list[tuple[str, Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_module, "HadoopFiles", Mounted)
    snapshot = tmp_path / "00000000000000000007-0000000001.checkpoint"
    snapshot.write_bytes(b"the state")
    root = tmp_path / "archive"
    archive = Archive(Session(), str(root))  # type: ignore[arg-type]
    unfinished, target = (
        root / each / snapshot.name for each in (f"{RECORDS}/{WRITING}", SNAPSHOTS)
    )
    for _ in range(2):  # again after a kill before the first range
        seen.clear()
        archive.begin_behind(open_snapshot(snapshot))
        assert seen == [
            (SYNC, unfinished),
            (NAME, target),
            (SYNC, target.parent),
            (SYNC, root),
        ]
        assert target.read_bytes() == b"the state"


def test_snapshot_that_could_not_be_copied_has_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = tmp_path / "00000000000000000007-0000000001.checkpoint"
    snapshot.write_bytes(b"the state")

    def half(_source: Path, target: Path) -> None:
        target.write_bytes(b"the")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copyfile", half)
    with pytest.raises(PipelineError, match=r"is not stored in .*: .*No space left on device"):
        store_snapshot(tmp_path / "archive", snapshot)
    assert list((tmp_path / "archive" / SNAPSHOTS).iterdir()) == []
