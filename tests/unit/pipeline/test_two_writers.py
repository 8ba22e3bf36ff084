"""Two writers of an archive that is not mounted: a range counts only with all of its files."""

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from quorum_pipeline.archive.layout import MARKER, RECORDS, SNAPSHOTS, Marker, OffsetRange
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.local_files import LocalFiles, StoredFile
from quorum_pipeline.files.snapshot_file import open_snapshot
from quorum_pipeline.spark import archive as archive_module
from quorum_pipeline.spark.archive import Archive

FIRST, SECOND = OffsetRange(0, 10), OffsetRange(10, 20)
MERGED = OffsetRange(0, 20)
RENAMED, MARKED, UPLOADING = "renamed", "marked", "uploading"
FILES = ["part-1.parquet", "part-2.parquet"]

Act = Callable[[], None]


class Store(LocalFiles):
    """The calls of `HadoopFiles`, on a directory that the pipeline takes for a store. `then`: what happens after a call."""

    def __init__(self, _context: Any) -> None:
        self.then: dict[str, Act] = {}

    def local_path(self, directory: str) -> Any:
        return None

    def list(self, directory: str) -> list[str]:
        return sorted(os.listdir(directory)) if os.path.isdir(directory) else []

    def stored(self, directory: str) -> tuple[StoredFile, ...]:
        return LocalFiles().stored(directory)

    def read(self, file: str) -> str | None:
        return LocalFiles().read(file)

    def delete(self, directory: str) -> None:
        path = Path(directory)
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def rename(self, directory: str, name: str) -> None:
        os.rename(directory, name)
        self._happens(RENAMED)

    def write(self, file: str, text: str) -> None:
        path = Path(file)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            raise PipelineError(f"{file} exists")
        path.write_text(text)
        if path.name == MARKER:
            self._happens(MARKED)

    def upload(self, local: str, target: str) -> None:
        """Like Hadoop's, the file has its name from the first byte on."""
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        Path(target).write_bytes(b"the")
        self._happens(UPLOADING)
        shutil.copyfile(local, target)

    def move(self, files: Sequence[tuple[str, str]], directory: str) -> None:
        Path(directory).mkdir(parents=True, exist_ok=True)
        for source, name in files:
            target = Path(directory) / name
            assert not target.exists(), "Hadoop does not replace a file"
            os.rename(source, target)

    def _happens(self, call: str) -> None:
        self.then.pop(call, lambda: None)()


class Session:
    sparkContext = None  # noqa: N815


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Archive]:
    monkeypatch.setattr(archive_module, "HadoopFiles", Store)
    return lambda: Archive(Session(), str(tmp_path))  # type: ignore[arg-type]


def written(archive: Archive, range: OffsetRange) -> None:
    """The files of a range that is not complete yet."""
    directory = Path(archive._unfinished(range))
    directory.mkdir(parents=True)
    for name in FILES:
        (directory / name).write_bytes(b"records")


def files_of(root: Path, range: OffsetRange) -> list[str]:
    directory = root / RECORDS / range.directory
    return sorted(os.listdir(directory)) if directory.is_dir() else []


def then(archive: Archive, call: str, act: Act) -> None:
    store = archive._files
    assert isinstance(store, Store)
    store.then[call] = act


def test_range_of_a_single_writer_counts(opened: Callable[[], Archive], tmp_path: Path) -> None:
    archive = opened()
    with archive.only_writer():
        written(archive, FIRST)
        archive._complete(FIRST, Marker(10, 0))
    assert archive.ranges() == [FIRST]
    assert files_of(tmp_path, FIRST) == [MARKER, *FILES]


def test_range_whose_files_a_newer_writer_deleted_before_the_marker_does_not_count(
    opened: Callable[[], Archive],
) -> None:
    first, second = opened(), opened()

    def begin_second() -> None:
        with second.only_writer():
            second._check_alone(FIRST)

    written(first, FIRST)
    then(first, RENAMED, begin_second)
    with first.only_writer(), pytest.raises(PipelineError, match="only one may write"):
        first._complete(FIRST, Marker(10, 0))
    assert second.ranges() == []
    with second.only_writer():
        second._check_alone(FIRST)  # it is not blocked
        written(second, FIRST)
        second._complete(FIRST, Marker(10, 0))
    assert second.ranges() == [FIRST]


def test_range_whose_files_are_deleted_while_the_marker_is_written_does_not_count(
    opened: Callable[[], Archive], tmp_path: Path
) -> None:
    """A newer writer listed the directory before the marker, and deletes the files that it found."""
    archive = opened()

    def delete_files() -> None:
        for name in FILES:
            (tmp_path / RECORDS / FIRST.directory / name).unlink()

    written(archive, FIRST)
    then(archive, MARKED, delete_files)
    with (
        archive.only_writer(),
        pytest.raises(PipelineError, match="another process wrote offsets 0 to 10"),
    ):
        archive._complete(FIRST, Marker(10, 0))
    assert archive.ranges() == []


def test_range_that_a_newer_writer_found_complete_counts(
    opened: Callable[[], Archive], tmp_path: Path
) -> None:
    """The newer one continues after it, so that its marker stays; the older one ends."""
    first, second = opened(), opened()
    written(first, FIRST)
    then(first, MARKED, lambda: second.only_writer().__enter__())
    with first.only_writer(), pytest.raises(PipelineError, match="another process has begun"):
        first._complete(FIRST, Marker(10, 0))
    assert second.ranges() == [FIRST]
    assert files_of(tmp_path, FIRST) == [MARKER, *FILES]


def test_marker_that_is_written_while_a_newer_writer_deletes_is_deleted_too(
    opened: Callable[[], Archive], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = opened()
    directory = tmp_path / RECORDS / FIRST.directory
    directory.mkdir(parents=True)
    delete = Store.delete

    def with_marker_behind(store: Store, name: str) -> None:
        existed = Path(name).is_dir()
        delete(store, name)
        if existed:
            store.write(f"{name}/{MARKER}", Marker(10, 0).text())

    def once(store: Store, name: str) -> None:
        monkeypatch.setattr(Store, "delete", delete)
        with_marker_behind(store, name)

    monkeypatch.setattr(Store, "delete", once)
    archive._check_alone(FIRST)
    assert files_of(tmp_path, FIRST) == []


def test_merged_range_whose_files_a_newer_writer_deleted_does_not_count(
    opened: Callable[[], Archive], tmp_path: Path
) -> None:
    first, second = opened(), opened()

    def begin_second() -> None:
        with second.only_writer():
            second._retire(second._tiles()[0], 0)

    with first.only_writer():
        for each in (FIRST, SECOND):
            written(first, each)
            first._complete(each, Marker(10, 0))
        written(first, MERGED)
        then(first, RENAMED, begin_second)
        with pytest.raises(PipelineError, match="only one may write"):
            first._complete(MERGED, Marker(20, 0, merged=2))
    assert second.ranges() == [FIRST, SECOND]
    for each in (FIRST, SECOND):
        assert files_of(tmp_path, each) == [MARKER, *FILES]
    assert files_of(tmp_path, MERGED) == []


def test_snapshot_before_the_first_record_has_its_name_when_it_is_complete(
    opened: Callable[[], Archive], tmp_path: Path
) -> None:
    archive = opened()
    snapshot = tmp_path / "00000000000000000007-0000000001.checkpoint"
    snapshot.write_bytes(b"the state")
    stored = tmp_path / SNAPSHOTS / snapshot.name
    for _ in range(2):  # again after a kill before the first range
        then(archive, UPLOADING, lambda: _raise(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            archive.begin_behind(open_snapshot(snapshot))
        assert not stored.exists() or stored.read_bytes() == b"the state"
        archive.begin_behind(open_snapshot(snapshot))
        assert stored.read_bytes() == b"the state"


def _raise(error: type[BaseException]) -> None:
    raise error
