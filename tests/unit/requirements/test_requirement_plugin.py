"""The plugin in runs of pytest on a small repository: what is kept, what makes a result old, what is refused."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.source_tree import ROOT

TEXTS = """
[[section]]
title = "Small"
[[section.row]]
id = "R-01"
text = "It works."
[[section.row.clause]]
id = "both"
text = "Both parameters work."
tests = ["tests/unit/test_small.py::test_parameters"]
[[section.row.clause]]
id = "second"
text = "The second one works."
tests = ["tests/unit/test_small.py::test_parameters[2]"]
[[section.row.clause]]
id = "alone"
text = "What imports nothing works."
tests = ["tests/unit/test_alone.py::test_alone"]
"""
FILES = {
    "docs/requirements.toml": TEXTS,
    "docs/page.md": "Text.\n",
    "pytest.ini": "[pytest]\nmarkers = requirement(*ids): rows\npythonpath = node\n",
    "tests/conftest.py": "pytest_plugins = ['support.requirement_plugin']\n",
    "tests/unit/test_small.py": (
        "import os, pytest\n"
        "from small.answers import right\n"
        "@pytest.mark.requirement('R-01')\n"
        "@pytest.mark.parametrize('number', [1, 2])\n"
        "def test_parameters(number):\n"
        "    if os.environ.get('SKIPPED') == str(number): pytest.skip('no')\n"
        "    assert os.environ.get('BROKEN') != str(number)\n"
        "    assert right()\n"
    ),
    "tests/unit/test_alone.py": (
        "import os, pathlib, pytest\n"
        "@pytest.mark.requirement('R-01')\n"
        "def test_alone():\n"
        "    if os.environ.get('TOUCHED'): pathlib.Path(__file__).touch()\n"
    ),
    "node/small/__init__.py": "",
    "node/small/answers.py": "def right(): return True\n",
}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def run(root: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Without the plugins that are installed, but xdist: a fraction of the time."""
    plugins = ["-p", "no:cacheprovider", "-p", "xdist"]
    command = [sys.executable, "-m", "pytest", "-q", *plugins, *arguments]
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    outside["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    return subprocess.run(
        command,
        cwd=root,
        env={**outside, "PYTHONPATH": str(ROOT / "tests"), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def states(root: Path, *arguments: str) -> dict[str, str]:
    """Clause → its state, and "last" → the last line."""
    table = run(root, "--requirements-table", *arguments)
    assert table.returncode == 0, table.stdout + table.stderr
    found = re.findall(r"^  (shown|stale|open) +(\S+): ", table.stdout, re.MULTILINE)
    return {clause: state for state, clause in found} | {"last": table.stdout.splitlines()[-1]}


ALL_SHOWN = {
    "both": "shown",
    "second": "shown",
    "alone": "shown",
    "last": "3 clauses shown, 0 stale, 0 open",
}
ALL_OPEN = {
    "both": "open",
    "second": "open",
    "alone": "open",
    "last": "0 clauses shown, 0 stale, 3 open",
}


def test_what_never_ran_is_open_and_what_passed_is_shown(small: Path) -> None:
    assert states(small) == ALL_OPEN
    assert run(small).returncode == 0
    assert states(small) == ALL_SHOWN


def test_results_of_parallel_workers_are_kept(small: Path) -> None:
    assert run(small, "-n", "2").returncode == 0
    assert states(small) == ALL_SHOWN


def test_results_of_several_runs_are_merged(small: Path) -> None:
    run(small, "tests/unit/test_alone.py")
    run(small, "tests/unit/test_small.py::test_parameters[2]")
    assert states(small) == {
        "both": "open",
        "second": "shown",
        "alone": "shown",
        "last": "2 clauses shown, 0 stale, 1 open",
    }
    run(small, "tests/unit/test_small.py::test_parameters[1]")
    assert states(small) == ALL_SHOWN


def test_a_change_makes_stale_what_covers_it_and_nothing_else(small: Path) -> None:
    run(small)
    answers = small / "node/small/answers.py"
    answers.write_text("def right(): return 1\n")
    (small / "docs/page.md").write_text("Other text.\n")
    stale = {"both": "stale", "second": "stale", "alone": "shown"}
    assert states(small) == {**stale, "last": "1 clause shown, 2 stale, 0 open"}
    answers.write_text(FILES["node/small/answers.py"])
    assert states(small) == ALL_SHOWN
    answers.write_text("def right(): return 1\n")
    run(small)
    assert states(small) == ALL_SHOWN


@pytest.mark.parametrize("parallel", [(), ("-n", "2")], ids=["one-process", "workers"])
def test_a_failure_replaces_a_pass(small: Path, parallel: tuple[str, ...]) -> None:
    run(small)
    assert run(small, *parallel, BROKEN="1").returncode == 1
    red = {"both": "open", "second": "shown", "alone": "shown"}
    assert states(small) == {**red, "last": "2 clauses shown, 0 stale, 1 open"}
    run(small)
    assert states(small) == ALL_SHOWN


def test_a_failed_fixture_is_a_failure(small: Path) -> None:
    conftest = small / "tests/unit/conftest.py"
    conftest.write_text(
        "import os, pytest\n@pytest.fixture(autouse=True)\n"
        "def after():\n    yield\n    assert not os.environ.get('LEFT')\n"
    )
    run(small)
    assert states(small) == ALL_SHOWN
    run(small, LEFT="1")
    assert states(small) == ALL_OPEN


def test_a_skipped_parameter_is_not_shown(small: Path) -> None:
    run(small, SKIPPED="1")
    assert states(small)["both"] == "open"
    run(small)
    run(small, SKIPPED="1")
    assert states(small) == ALL_SHOWN, "a result of the same inputs stays"


def test_what_changes_while_it_is_tested_has_no_result(small: Path) -> None:
    ran = run(small, TOUCHED="1")
    assert (
        "No result is kept of what changed while it was tested: tests/unit/test_alone.py"
        in ran.stdout
    )
    assert states(small)["alone"] == "open"
    assert states(small)["both"] == "shown"


def test_a_fresh_clone_shows_the_same(small: Path) -> None:
    run(small)
    assert states(small) == ALL_SHOWN
    page = (small / "docs/requirements.md").read_text()
    (small / ".requirements/results.json").unlink()
    assert states(small) == ALL_SHOWN
    assert (small / "docs/requirements.md").read_text() == page
    assert json.loads((small / "docs/requirements-results.json").read_text()).keys() == {
        "tests/unit/test_small.py::test_parameters",
        "tests/unit/test_small.py::test_parameters[2]",
        "tests/unit/test_alone.py::test_alone",
    }


def test_strict_fails_on_what_is_not_shown(small: Path) -> None:
    assert run(small, "--requirements-table", "--requirements-strict").returncode == 1
    run(small)
    assert run(small, "--requirements-table", "--requirements-strict").returncode == 0


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("test_alone.py::test_alone", "test_alone.py::test_gone", "do not exist"),
        ("test_parameters[2]", "test_parameters[3]", "do not exist"),
    ],
)
def test_a_named_test_that_does_not_exist_stops_the_table(
    small: Path, old: str, new: str, told: str
) -> None:
    (small / "tests/unit/test_alone.py").write_text(
        "def test_alone(): pass\ndef test_other(): pass\n"
    )
    (small / "docs/requirements.toml").write_text(TEXTS.replace(old, new))
    if old.startswith("test_parameters"):
        (small / "tests/unit/test_alone.py").write_text(FILES["tests/unit/test_alone.py"])
    table = run(small, "--requirements-table")
    assert table.returncode != 0
    assert told in table.stdout + table.stderr
    assert new in table.stdout + table.stderr


def test_a_named_test_without_the_mark_stops_the_collection(small: Path) -> None:
    (small / "tests/unit/test_alone.py").write_text("def test_alone(): pass\n")
    for arguments in ((), ("-n", "2")):
        ran = run(small, *arguments)
        assert ran.returncode != 0
        told = "test_alone.py::test_alone is named by a clause of R-01 and lacks its mark"
        assert told in ran.stdout + ran.stderr
