"""The message of each command where the packages that it needs are not installed."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from support.source_tree import ROOT

_COMMANDS = {
    "quorum_node.server.__main__": ("node", []),
    "quorum_node.quorumctl.__main__": ("node", ["--help"]),
    "quorum_node.archiver.__main__": ("node", ["--help"]),
    "quorum_operator.__main__": ("operator", []),
    "quorum_pipeline.__main__": ("pipeline", ["state", "--help"]),
}
_WITHOUT_DEPENDENCIES = "quorum_operator.plugin.main"
"""The kubectl plugin needs only Python and kubectl."""

_WITHOUT_PACKAGES = ("-I", "-S")
"""Python alone: no installed packages, and no path but the one that is set below."""


def run_bare(module: str, arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    folders = [str(ROOT / each) for each in ("node", "operator", "pipeline")]
    program = (
        f"import runpy, sys; sys.path[:0] = {folders!r}; sys.argv[1:] = {arguments!r};"
        f" runpy.run_module({module!r}, run_name='__main__')"
    )
    return subprocess.run(
        [sys.executable, *_WITHOUT_PACKAGES, "-c", program],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=60,
        check=False,
    )


def test_every_script_of_the_distribution_is_checked() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    modules = {each.partition(":")[0] for each in scripts.values()}
    assert modules == {*_COMMANDS, _WITHOUT_DEPENDENCIES}


@pytest.mark.parametrize("module", _COMMANDS)
def test_missing_extra_is_named(module: str, tmp_path: Path) -> None:
    extra, arguments = _COMMANDS[module]
    done = run_bare(module, arguments, tmp_path)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert f"pip install '.[{extra}]' in the project's repository" in line


def test_kubectl_plugin_needs_no_packages(tmp_path: Path) -> None:
    done = run_bare(_WITHOUT_DEPENDENCIES, ["--help"], tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "usage: kubectl quorum" in done.stdout
