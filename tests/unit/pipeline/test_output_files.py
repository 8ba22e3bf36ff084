"""A file that a command writes has its name only when it is complete."""

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quorum_node.records.snapshot_id import SnapshotId
from quorum_pipeline.commands.state import write_snapshot
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.output_file import completed
from quorum_pipeline.files.table_files import write_tables
from quorum_pipeline.state.tables import STATE_TABLES


class Interrupted(BaseException):
    """Like a signal."""


class Broken:
    """A state whose rows, or whose snapshot, end with an error."""

    id = SnapshotId(10, 2)

    def rows(self, table: object) -> Iterator[dict[str, Any]]:
        if table is STATE_TABLES[-1]:
            raise Interrupted
        return iter(())

    def snapshot(self) -> Iterator[bytes]:
        yield b"part of it"
        raise Interrupted


def interrupted(path: Path) -> None:
    with completed(path) as unfinished:
        unfinished.write_text("half")
        raise Interrupted


def test_file_is_replaced_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text("earlier")
    with pytest.raises(Interrupted):
        interrupted(path)
    assert path.read_text() == "earlier"
    with completed(path) as unfinished:
        unfinished.write_text("new")
        assert path.read_text() == "earlier"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_link_is_followed_and_a_device_is_written_to(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with completed(tmp_path / "link") as unfinished:
        unfinished.write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"
    with completed(Path("/dev/null")) as unfinished:
        unfinished.write_text("gone")
    assert not Path("/dev/null").is_file()


def test_interrupted_tables_have_no_names(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        write_tables(tmp_path, Broken())  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_interrupted_snapshot_has_no_name(tmp_path: Path) -> None:
    """A node would load it."""
    seen: list[str] = []

    class Watched(Broken):
        def snapshot(self) -> Iterator[bytes]:
            yield b"part of it"
            seen.extend(each.name for each in tmp_path.iterdir())
            raise Interrupted

    with pytest.raises(Interrupted):
        write_snapshot(tmp_path, Watched())  # type: ignore[arg-type]
    assert len(seen) == 1
    assert not seen[0].endswith(".checkpoint")
    assert list(tmp_path.iterdir()) == []


def write_on_a_full_disk(path: Path) -> None:
    with completed(path) as unfinished:
        unfinished.write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")


def test_full_disk_is_reported_with_the_file_that_was_to_be_written(tmp_path: Path) -> None:
    """The error of a write names no file."""
    path = tmp_path / "plan.json"
    with pytest.raises(PipelineError, match=f"{path} can't be written: No space left on device"):
        write_on_a_full_disk(path)
    assert not list(tmp_path.iterdir())
