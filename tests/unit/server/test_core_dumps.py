"""Core dumps are disabled, also where the host passes them to a program."""

import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

LIMIT = "print(*resource.getrlimit(resource.RLIMIT_CORE))"
FORBID = "import os, resource\nfrom quorum_node.core_dumps import forbid_core_dumps\n"
COMMAND = """
import contextlib, io, resource, sys
from quorum_node.{package}.__main__ import main
sys.argv = ["command", "--help"]
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main()
"""
_, ALLOWED = resource.getrlimit(resource.RLIMIT_CORE)
EXPECTED = "0 0" if ALLOWED == 0 else "1 1"
"""In bytes. Of the two only 1 keeps the kernel from passing a dump to a program, but a limit can't be raised."""


def run(code: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )


def test_core_dumps_are_neither_written_nor_passed_on(tmp_path: Path) -> None:
    assert run(f"{FORBID}forbid_core_dumps()\n{LIMIT}", tmp_path).stdout.strip() == EXPECTED
    lower = "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
    done = run(f"{FORBID}{lower}forbid_core_dumps()\n{LIMIT}", tmp_path)
    assert (done.returncode, done.stdout.strip()) == (0, "0 0")


def test_aborted_process_leaves_no_file(tmp_path: Path) -> None:
    done = run(f"{FORBID}forbid_core_dumps()\nos.abort()", tmp_path)
    assert done.returncode == -signal.SIGABRT
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("package", ["quorumctl", "archiver"])
def test_tools_that_hold_secrets_have_no_core_dumps(package: str, tmp_path: Path) -> None:
    done = run(COMMAND.format(package=package) + LIMIT, tmp_path)
    assert done.stdout.strip() == EXPECTED, done.stderr
