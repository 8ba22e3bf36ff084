"""Tests that are coroutines run in an event loop of their own each; temporary folders are in memory where there is room."""

import asyncio
import inspect
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import virtual_time
from support.memory_folders import memory_folder


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """With the marker `virtual_time`, in a loop whose time advances only while it is idle."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    work = pyfuncitem.obj(**arguments)
    if pyfuncitem.get_closest_marker("virtual_time") is None:
        asyncio.run(work)
    else:
        virtual_time.finish(work)
    return True


@pytest.fixture(scope="session")
def folder_in_memory() -> Iterator[Path | None]:
    with memory_folder() as folder:
        yield folder


@pytest.fixture
def tmp_path(
    tmp_path: Path, folder_in_memory: Path | None, request: pytest.FixtureRequest
) -> Iterator[Path]:
    """Pytest's own, in memory. What a failed test left is found on the disk, where pytest keeps it."""
    if folder_in_memory is None:
        yield tmp_path
        return
    folder = folder_in_memory / tmp_path.name
    folder.mkdir()
    failed = request.session.testsfailed
    yield folder
    if request.session.testsfailed > failed:
        shutil.copytree(
            folder, tmp_path, symlinks=True, dirs_exist_ok=True, ignore=_only_files_and_folders
        )
    shutil.rmtree(folder, ignore_errors=True)


def _only_files_and_folders(folder: str, names: list[str]) -> list[str]:
    """Pipes and sockets are left out: a copy of one waits for its writer."""
    found = [(name, Path(folder, name)) for name in names]
    return [name for name, each in found if not (each.is_file() or each.is_dir())]
