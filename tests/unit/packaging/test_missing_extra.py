"""The message of each command where the packages that it needs are not installed."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.source_tree import ROOT

_COMMANDS = {
    "quorum_node.server": ("node", []),
    "quorum_node.quorumctl": ("node", ["--help"]),
    "quorum_operator": ("operator", []),
    "quorum_pipeline": ("pipeline", ["state", "--help"]),
}
_WITHOUT_PACKAGES = ("-I", "-S")
"""Python alone: no installed packages, and no path but the one that is set below."""


@pytest.mark.parametrize("module", _COMMANDS)
def test_missing_extra_is_named(module: str, tmp_path: Path) -> None:
    extra, arguments = _COMMANDS[module]
    folders = [str(ROOT / each) for each in ("node", "operator", "pipeline")]
    program = (
        f"import runpy, sys; sys.path[:0] = {folders!r}; sys.argv[1:] = {arguments!r};"
        f" runpy.run_module({module!r}, run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, *_WITHOUT_PACKAGES, "-c", program],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.endswith(f"pip install 'metadataquorum[{extra}]'")
