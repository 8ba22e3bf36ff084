"""ruff, mypy and import-linter as tests, so that one run covers them."""

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.source_tree import ROOT
from support.stock_kafka import cache_directory

BIN = Path(sys.executable).parent
MYPY_CACHE = ROOT / ".mypy_cache"


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["ruff", "check", "--quiet", "."], id="ruff-check"),
        pytest.param(["ruff", "format", "--check", "."], id="ruff-format"),
        pytest.param(["lint-imports", "--no-logo"], id="import-contracts"),
    ],
)
def test_tool_reports_nothing(command: list[str]) -> None:
    check(command)


def test_mypy_reports_nothing() -> None:
    """A new checkout begins with what an earlier one learnt of the same dependencies; mypy judges each file by its content."""
    kept = cache_directory() / "mypy" / dependencies()
    if kept.exists() and not MYPY_CACHE.exists():
        shutil.copytree(kept, MYPY_CACHE)
    check(["mypy"])
    if not kept.exists():
        scratch = kept.with_name(f"{kept.name}.{os.getpid()}")
        shutil.copytree(MYPY_CACHE, scratch)
        with contextlib.suppress(OSError):  # another worker was faster
            scratch.rename(kept)
        shutil.rmtree(scratch, ignore_errors=True)


def dependencies() -> str:
    """Changes with mypy's version, its configuration and the installed packages."""
    inputs = [ROOT / "pyproject.toml", ROOT / "requirements" / "dev.txt"]
    return hashlib.sha256(b"".join(path.read_bytes() for path in inputs)).hexdigest()[:16]


def check(command: list[str]) -> None:
    done = subprocess.run(
        [BIN / command[0], *command[1:]], cwd=ROOT, capture_output=True, text=True, timeout=280
    )
    if done.returncode != 0:
        pytest.fail(f"{' '.join(command)}\n{done.stdout}{done.stderr}", pytrace=False)
