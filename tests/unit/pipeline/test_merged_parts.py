"""Ranges that were merged while a log is followed: queries that began before finish, and a kill at any step loses nothing."""

import itertools
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from quorum_pipeline.archive.layout import DELTAS, MARKER, MERGED, RECORDS, Marker, OffsetRange
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files import merged_parts
from quorum_pipeline.files.archive_reader import ArchiveReader
from quorum_pipeline.files.archive_tasks import RecordsTask
from quorum_pipeline.files.archived_batch import archived_batch
from quorum_pipeline.files.audited_archive import AuditRange
from quorum_pipeline.files.local_files import LocalFiles
from quorum_pipeline.files.log_directory import open_log
from quorum_pipeline.files.merge_retries import retry_on_merge
from quorum_pipeline.files.sealed_file import open_sealed, parquet_files
from quorum_pipeline.files.timeline_span import RangeTask
from quorum_pipeline.files.version_spans import ArchivedRecords
from quorum_pipeline.spark.archive_claim import CLAIM, Claim
from quorum_pipeline.spark.merged_ranges import retire
from quorum_pipeline.state.moment import Moment
from support.written_archive import archived_state, write_archive
from support.written_log import LogWriter, write_history

HOUR = 3_600


@pytest.fixture
def node(tmp_path: Path) -> Path:
    writer = LogWriter(tmp_path / "node", segment_bytes=800)
    write_history(writer)
    writer.close()
    return writer.directory


@pytest.fixture
def reader(node: Path, tmp_path: Path) -> ArchiveReader:
    """An archive of three ranges."""
    write_archive(tmp_path / "archive", node, 0, 7, 30, open_log(node).end_offset(), deltas=True)
    return ArchiveReader(LocalFiles(), str(tmp_path / "archive"))


def delete(name: str) -> None:
    path = Path(name)
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def merge(reader: ArchiveReader, node: Path, ago: float = 0) -> None:
    """The first two ranges, so many seconds ago."""
    root = Path(reader.uri)
    (merged,) = write_archive(root, node, 0, 30, deltas=True)
    before = reader.marker(OffsetRange(0, 30))
    written_ms = int((time.time() - ago) * 1000)
    marker = Marker(before.rows, 0, before.delta_rows, merged=2, written_ms=written_ms)
    (merged / MARKER).write_text(marker.text())


def retired(reader: ArchiveReader, keep_seconds: float) -> None:
    retire(reader, reader.ranges(), keep_seconds, delete)


def results(root: Path, range: OffsetRange) -> list[Any]:
    """What the tasks return that read a range by its directory."""
    directory = root / RECORDS / range.directory
    task = RecordsTask(directory, range.start, range.end)
    records = list(ArchivedRecords(directory, range.start, range.end).records())
    audited = AuditRange(root, (range,)).audited()
    assert not audited.damages
    return [
        task.reduced()[1],
        [(each.offset, each.value) for each in records],
        audited.end_offset,
        RangeTask(directory, range.start, range.end).read().records,
        archived_batch(directory, range.start),
    ]


def plain_offsets(root: Path) -> list[int]:
    """What a reader of Parquet finds that knows nothing of archives."""
    found = ds.dataset(root / RECORDS, format="parquet", partitioning="hive")
    return sorted(found.to_table(columns=["offset"])["offset"].to_pylist())


def test_query_that_began_before_a_merge_reads_the_parts(reader: ArchiveReader, node: Path) -> None:
    root, first = Path(reader.uri), reader.ranges()[1]
    before = results(root, first)
    begun = itertools.count()

    def query() -> list[Any]:
        if next(begun) == 0:
            merge(reader, node)
            retired(reader, HOUR)
        return results(root, first)

    assert retry_on_merge([reader], query) == before
    assert next(begun) == 1, "it did not begin again"
    assert plain_offsets(root) == list(range(open_log(node).end_offset()))


def test_files_are_found_wherever_they_are_when_they_are_opened(
    reader: ArchiveReader, node: Path
) -> None:
    root, first = Path(reader.uri), reader.ranges()[0]
    paths = parquet_files(root / RECORDS / first.directory)
    merge(reader, node)
    retired(reader, HOUR)
    assert [path.exists() for path in paths] == [False] * len(paths)
    for path in paths:
        with open_sealed(path) as file:
            assert file.metadata.num_rows
    retired(reader, 0)
    with pytest.raises(FileNotFoundError, match=paths[0].name):
        open_sealed(paths[0])
    assert merged_parts.moved(root / MARKER) is None


def test_parts_are_deleted_after_their_time(reader: ArchiveReader, node: Path) -> None:
    root, parts = Path(reader.uri), reader.ranges()[:2]
    merge(reader, node, ago=HOUR - 60)
    for _ in range(2):
        retired(reader, HOUR)
        assert reader.names(f"{RECORDS}/{MERGED}") == [each.directory for each in parts]
        assert len(reader.names(DELTAS)) == 4
        assert reader.are_readable(parts)
    retired(reader, HOUR - 120)
    assert reader.names(f"{RECORDS}/{MERGED}") == []
    assert reader.names(DELTAS) == [each.directory for each in reader.ranges()]
    assert not reader.are_readable(parts)
    assert plain_offsets(root) == list(range(open_log(node).end_offset()))


@pytest.mark.parametrize("keep_seconds", [0, HOUR])
def test_kill_at_any_step_loses_nothing(
    reader: ArchiveReader, node: Path, monkeypatch: pytest.MonkeyPatch, keep_seconds: float
) -> None:
    """Steps: renames, and deletions of a marker, of a file, and of a directory."""
    root, moment = Path(reader.uri), Moment(offset=20)
    image = b"".join(archived_state(root, moment).snapshot())
    merge(reader, node)
    end, rename = reader.contents().end, os.rename
    for most in itertools.count():
        left = iter(range(most))

        def step(do: Callable[..., None], *given: Any, left: Any = left) -> None:
            if next(left, None) is None:
                raise PipelineError("killed")
            do(*given)

        def renamed(*given: Any, step: Any = step) -> None:
            step(rename, *given)

        def deleted(name: str, step: Any = step) -> None:
            step(_delete_one, name, step)

        ended = True
        with monkeypatch.context() as patch:
            patch.setattr(os, "rename", renamed)
            try:
                retire(reader, reader.ranges(), keep_seconds, deleted)
            except PipelineError:
                ended = False
        assert reader.contents().end == end
        assert b"".join(archived_state(root, moment).snapshot()) == image
        if ended:
            break
    assert most > 1
    assert plain_offsets(root) == list(range(end))
    assert len(reader.names(DELTAS)) == (4 if keep_seconds else 2)


def _delete_one(name: str, step: Callable[..., None]) -> None:
    """Delete a file; or the files of a directory one by one, and then the directory."""
    path = Path(name)
    if path.is_dir():
        for each in sorted(path.iterdir()):
            step(each.unlink)
        path.rmdir()
    else:
        path.unlink(missing_ok=True)


def test_traces_of_a_merge_that_was_not_completed_are_deleted(reader: ArchiveReader) -> None:
    """Its deltas are there, but not its records."""
    root, ranges = Path(reader.uri), reader.ranges()
    left = root / DELTAS / OffsetRange(0, 30).directory
    left.mkdir()
    (left / "part").touch()
    retired(reader, HOUR)
    assert not left.exists()
    assert reader.ranges() == ranges
    assert len(reader.names(DELTAS)) == len(ranges)


class Directory:
    """Files of a directory, as `HadoopFiles` has them."""

    def read(self, file: str) -> str | None:
        """See HadoopFiles."""
        return Path(file).read_text() if Path(file).exists() else None

    def write(self, file: str, text: str) -> None:
        """See HadoopFiles."""
        if Path(file).exists():
            raise PipelineError(f"{file} can't be written: the name already exists")
        Path(file).write_text(text)

    def delete(self, file: str) -> None:
        """See HadoopFiles."""
        Path(file).unlink(missing_ok=True)


def test_writer_that_began_last_is_the_only_one(tmp_path: Path) -> None:
    files: Any = Directory()
    first, second = Claim(files, str(tmp_path)), Claim(files, str(tmp_path))
    first.take()
    first.check()
    second.take()
    with pytest.raises(PipelineError, match="another process has begun to write this archive"):
        first.check()
    first.give_back()
    second.check()
    second.give_back()
    assert not (tmp_path / CLAIM).exists()
    with pytest.raises(PipelineError, match="another process"):
        second.check()
