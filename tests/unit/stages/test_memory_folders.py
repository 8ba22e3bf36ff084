"""Folders in memory: used where there is room, and nothing of them is left."""

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from support import memory_folders
from support.memory_folders import LEAST_FREE_BYTES, ON_DISK, memory_folder


@pytest.fixture(autouse=True)
def not_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ON_DISK, raising=False)
    _free(monkeypatch, LEAST_FREE_BYTES)


def _free(patch: pytest.MonkeyPatch, free_bytes: int) -> None:
    patch.setattr(
        memory_folders.os,
        "statvfs",
        lambda path: SimpleNamespace(f_bavail=free_bytes // 4096, f_frsize=4096),
    )


def test_folder_is_deleted_with_its_content(tmp_path: Path) -> None:
    with memory_folder(tmp_path) as folder:
        assert folder is not None
        assert folder.parent == tmp_path
        (folder / "file").write_text("x")
    assert not list(tmp_path.iterdir())


def test_disk_is_used_without_room_in_memory_or_when_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with memory_folder(tmp_path / "missing") as folder:
        assert folder is None
    with monkeypatch.context() as patch:
        _free(patch, LEAST_FREE_BYTES - 4096)
        with memory_folder(tmp_path) as folder:
            assert folder is None
    monkeypatch.setenv(ON_DISK, "1")
    with memory_folder(tmp_path) as folder:
        assert folder is None


def test_folders_of_ended_processes_are_deleted_and_those_of_others_kept(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    abandoned = tmp_path / f"metadataquorum-tests-{ended.pid}-abc"
    used = tmp_path / f"metadataquorum-tests-{os.getppid()}-abc"
    other = tmp_path / "metadataquorum-tests-of-others"
    for each in (abandoned, used, other):
        each.mkdir()
    with memory_folder(tmp_path):
        assert not abandoned.exists()
        assert used.exists()
        assert other.exists()
