"""Ranges of an archive that are merged after a command has planned which directories it reads: the result is the same."""

import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from quorum_pipeline.__main__ import main
from quorum_pipeline.archive.layout import MERGED, RECORDS, OffsetRange
from quorum_pipeline.commands import audit, timeline
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.archive_reader import ArchiveReader
from quorum_pipeline.files.audited_archive import AuditRange
from quorum_pipeline.files.local_files import LocalFiles
from quorum_pipeline.files.log_directory import open_log
from quorum_pipeline.files.merge_retries import retry_on_merge
from quorum_pipeline.spark.versions_job import ArchiveVersions
from support.written_archive import write_archive
from support.written_log import LogWriter, write_history


@pytest.fixture
def node(tmp_path: Path) -> Path:
    writer = LogWriter(tmp_path / "node", segment_bytes=800)
    write_history(writer)
    writer.close()
    return writer.directory


@pytest.fixture
def root(node: Path, tmp_path: Path) -> Path:
    root = tmp_path / "archive"
    write_archive(root, node, 0, 7, 30, end_of(node))
    return root


def end_of(node: Path) -> int:
    return open_log(node).end_offset()


@pytest.fixture
def merging(node: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """Returns what is to be merged behind each of the next calls of a function."""
    merges = [(0, 30, end_of(node)), (0, 7, 30)]

    def behind(owner: object, name: str) -> list[Any]:
        function = getattr(owner, name)

        def and_then_merged(*given: Any, **more: Any) -> Any:
            found = function(*given, **more)
            if merges:
                borders = merges.pop()
                write_archive(root, node, borders[0], borders[-1])
                for each in pairwise(borders):
                    shutil.rmtree(root / RECORDS / OffsetRange(*each).directory)
            return found

        monkeypatch.setattr(owner, name, and_then_merged)
        return merges

    return behind


@pytest.mark.parametrize("with_log", [True, False])
def test_audit_reads_all_records(
    node: Path,
    root: Path,
    merging: Callable[..., list[Any]],
    capsys: pytest.CaptureFixture[str],
    with_log: bool,
) -> None:
    logs = [str(node)] if with_log else []
    assert main(["audit", *logs, "--archive", str(root)]) == 0
    expected = without_times(capsys.readouterr().out)
    merges = merging(audit, "archive_replica")
    assert main(["audit", *logs, "--archive", str(root)]) == 0
    assert without_times(capsys.readouterr().out) == expected
    assert not merges


def without_times(output: str) -> list[str]:
    """Without sizes of files, numbers of tasks and times, which a merge changes."""
    lines = [each for each in output.splitlines() if not each.startswith("  ")]
    return [each.partition(" bytes, ")[2] or each for each in lines]


def test_timeline_has_all_events(
    root: Path, merging: Callable[..., list[Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["timeline", "--archive", str(root)]) == 0
    expected = without_times(capsys.readouterr().out)
    merges = merging(timeline, "archive_source")
    assert main(["timeline", "--archive", str(root)]) == 0
    assert without_times(capsys.readouterr().out) == expected
    assert not merges


def test_versions_are_complete(
    root: Path, tmp_path: Path, merging: Callable[..., list[Any]]
) -> None:
    assert main(["versions", "--archive", str(root), "--to", str(tmp_path / "before")]) == 0
    merges = merging(ArchiveVersions, "tasks")
    assert main(["versions", "--archive", str(root), "--to", str(tmp_path / "meanwhile")]) == 0
    assert not merges
    assert rows_in(tmp_path / "meanwhile") == rows_in(tmp_path / "before") != []


def rows_in(versions: Path) -> list[str]:
    paths = versions.glob("offsets=*/*/*.parquet")
    return sorted(repr(row) for path in paths for row in pq.read_table(path).to_pylist())


def test_archive_that_is_merged_again_and_again_is_reported(node: Path, tmp_path: Path) -> None:
    root = tmp_path / "small"
    write_archive(root, node, *range(8))
    reader = ArchiveReader(LocalFiles(), str(root))

    def merged() -> None:
        write_archive(root, node, 0, reader.ranges()[1].end)

    with pytest.raises(PipelineError, match=f"directories of {root} were merged each time"):
        retry_on_merge([reader], merged)


def test_range_that_is_not_mounted_where_a_task_runs_is_no_empty_one(root: Path) -> None:
    first, *_ = ArchiveReader(LocalFiles(), str(root)).ranges()
    ((_, offset, reason),) = AuditRange(Path("/nowhere"), (first,)).audited().damages
    assert offset == first.start
    assert reason.startswith(f"there is no /nowhere/records/{first.directory}/_COMPLETE: ")


def test_work_that_fails_because_a_range_was_moved_begins_again(root: Path) -> None:
    """A writer that follows a log keeps merged ranges elsewhere for a while, where only tasks look for them."""
    reader = ArchiveReader(LocalFiles(), str(root))
    kept = root / RECORDS / MERGED
    tried = []

    def work() -> int:
        first, second, *_ = reader.ranges()
        tried.append(first)
        if len(tried) == 1:
            write_archive(root, root.parent / "node", first.start, second.end)
            kept.mkdir()
            for each in (first, second):
                (root / RECORDS / each.directory).rename(kept / each.directory)
        return reader.marker(first).rows

    assert retry_on_merge([reader], work) == 30
    assert tried == [OffsetRange(0, 7), OffsetRange(0, 30)]
