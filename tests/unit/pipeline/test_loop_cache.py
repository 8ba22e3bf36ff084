"""Loops that were compiled before are used where their directory can only be read, and nothing depends on them."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorum_pipeline.files import loop_cache
from quorum_pipeline.files.loop_cache import use_loop_cache

NAME = "NUMBA_CACHE_DIR"
LOOP = """
from numba import njit


@njit(cache=True)
def twice(number):
    return 2 * number
"""
PROGRAM = """
import os

from quorum_pipeline.files.loop_cache import use_loop_cache

use_loop_cache()
import loop

assert loop.twice(21) == 42
print(sum(loop.twice.stats.cache_hits.values()), os.environ["NUMBA_CACHE_DIR"])
"""


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A read-only directory as in an image, for any user that runs the test: root could write to it all the same."""
    directory = tmp_path / "kept"
    (directory / "rows_1").mkdir(parents=True)
    (directory / "rows_1" / "loop.nbi").write_bytes(b"index")
    monkeypatch.setenv(NAME, str(directory))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    (directory / "rows_1" / "loop.nbi").chmod(0o444)
    (directory / "rows_1").chmod(0o555)
    yield directory
    (directory / "rows_1").chmod(0o755)


def test_process_gets_a_writable_copy(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[tuple[object, ...]] = []
    monkeypatch.setattr(loop_cache.atexit, "register", lambda *each: ends.append(each))
    use_loop_cache()
    copy = Path(os.environ[NAME])
    assert copy != kept
    assert (copy / "rows_1" / "loop.nbi").read_bytes() == b"index"
    for path in (copy, *copy.rglob("*")):
        assert path.stat().st_mode & 0o700 >= 0o600
        assert path.is_file() or path.stat().st_mode & 0o777 == 0o700, "code that is run is in it"
    ((remove, *arguments),) = ends
    assert callable(remove)
    remove(arguments[0], os.getpid() + 1)
    assert copy.is_dir(), "a forked process removed the cache"
    remove(*arguments)
    assert not copy.exists()


def test_writable_directory_is_used_directly(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: True)
    use_loop_cache()
    assert os.environ[NAME] == str(kept)


def test_missing_space_for_a_copy_changes_nothing(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(kept / "nowhere"))
    use_loop_cache()
    assert os.environ[NAME] == str(kept)
    monkeypatch.setenv(NAME, str(kept / "nothing"))
    use_loop_cache()
    assert os.environ[NAME] == str(kept / "nothing")


@pytest.mark.skipif(os.geteuid() == 0 and shutil.which("setpriv") is None, reason="root may all")
def test_numba_uses_the_cache_on_a_read_only_file_system(tmp_path: Path) -> None:
    """As in a container with a read-only root: only the directory for what is temporary is writable."""
    code, kept, temporary = (tmp_path / name for name in ("code", "kept", "tmp"))
    for each in (code, temporary):
        each.mkdir()
    (code / "loop.py").write_text(LOOP)
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{code}:{':'.join(sys.path)}"}
    environment |= {NAME: str(kept), "NUMBA_CPU_NAME": "generic", "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= {"HOME": str(code), "TMPDIR": str(temporary)}
    run(["-c", "import loop; loop.twice(1)"], environment)
    read_only = [code, kept, *kept.iterdir()]
    for each in read_only:
        each.chmod(0o555)
    try:
        hits, used = run(["-c", PROGRAM], environment).split()
    finally:
        for each in read_only:
            each.chmod(0o755)
    assert hits == "1"
    assert Path(used).is_relative_to(temporary)
    assert list(temporary.iterdir()) == []


def run(arguments: list[str], environment: dict[str, str]) -> str:
    """As a user who may not write where modes forbid it, which root else may."""
    as_others = ["setpriv", "--bounding-set", "-dac_override"] if os.geteuid() == 0 else []
    done = subprocess.run(
        [*as_others, sys.executable, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
