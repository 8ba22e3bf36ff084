"""The plugin in runs of pytest on a small repository: what is kept, what makes a result old, what is refused."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.pytest_runs import PytestRuns, Ran, pytest_runs

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


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PytestRuns]:
    with pytest_runs(tmp_path_factory.mktemp("runs") / "output") as started:
        yield started


@dataclass(frozen=True, slots=True)
class Repository:
    root: Path
    runs: PytestRuns

    def run(self, *arguments: str, **environment: str) -> Ran:
        return self.runs.run(self.root, *arguments, **environment)

    def states(self, *arguments: str) -> dict[str, str]:
        """Clause → its state, and "last" → the last line."""
        table = self.run("--requirements-table", *arguments)
        assert table.code == 0, table.output
        found = re.findall(r"^  (shown|stale|open) +(\S+): ", table.output, re.MULTILINE)
        return {clause: state for state, clause in found} | {"last": table.output.splitlines()[-1]}


@pytest.fixture
def small(tmp_path: Path, runs: PytestRuns) -> Repository:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Repository(tmp_path, runs)


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


def test_clause_without_results_is_open_and_with_passed_results_shown(small: Repository) -> None:
    assert small.states() == ALL_OPEN
    assert small.run().code == 0
    assert small.states() == ALL_SHOWN


def test_results_of_parallel_workers_are_kept(small: Repository) -> None:
    assert small.run("-n", "2").code == 0
    assert small.states() == ALL_SHOWN


def test_results_of_several_runs_are_merged(small: Repository) -> None:
    small.run("tests/unit/test_alone.py")
    small.run("tests/unit/test_small.py::test_parameters[2]")
    assert small.states() == {
        "both": "open",
        "second": "shown",
        "alone": "shown",
        "last": "2 clauses shown, 0 stale, 1 open",
    }
    small.run("tests/unit/test_small.py::test_parameters[1]")
    assert small.states() == ALL_SHOWN


def test_change_makes_only_the_clauses_that_depend_on_it_stale(small: Repository) -> None:
    small.run()
    answers = small.root / "node/small/answers.py"
    answers.write_text("def right(): return 1\n")
    (small.root / "docs/page.md").write_text("Other text.\n")
    stale = {"both": "stale", "second": "stale", "alone": "shown"}
    assert small.states() == {**stale, "last": "1 clause shown, 2 stale, 0 open"}
    answers.write_text(FILES["node/small/answers.py"])
    assert small.states() == ALL_SHOWN
    answers.write_text("def right(): return 1\n")
    small.run()
    assert small.states() == ALL_SHOWN
    answers.write_text("def right(): return 0\n")
    assert small.run().code == 1
    assert small.states()["last"] == "1 clause shown, 0 stale, 2 open"
    answers.write_text("def right(): return 1\n")
    assert small.states() == ALL_SHOWN, "the deliberate break was undone"


@pytest.mark.parametrize("parallel", [(), ("-n", "2")], ids=["one-process", "workers"])
def test_failure_replaces_a_pass(small: Repository, parallel: tuple[str, ...]) -> None:
    small.run()
    assert small.run(*parallel, BROKEN="1").code == 1
    red = {"both": "open", "second": "shown", "alone": "shown"}
    assert small.states() == {**red, "last": "2 clauses shown, 0 stale, 1 open"}
    small.run()
    assert small.states() == ALL_SHOWN


def test_failed_fixture_is_a_failure(small: Repository) -> None:
    conftest = small.root / "tests/unit/conftest.py"
    conftest.write_text(
        "import os, pytest\n@pytest.fixture(autouse=True)\n"
        "def after():\n    yield\n    assert not os.environ.get('LEFT')\n"
    )
    small.run()
    assert small.states() == ALL_SHOWN
    small.run(LEFT="1")
    assert small.states() == ALL_OPEN


def test_skipped_parameter_is_not_shown(small: Repository) -> None:
    small.run(SKIPPED="1")
    assert small.states()["both"] == "open"
    small.run()
    small.run(SKIPPED="1")
    assert small.states() == ALL_SHOWN, "a result of the same inputs stays"


def test_files_changed_during_the_test_have_no_result(small: Repository) -> None:
    ran = small.run(TOUCHED="1")
    assert (
        "No result is kept of what changed while it was tested: tests/unit/test_alone.py"
        in ran.output
    )
    assert small.states()["alone"] == "open"
    assert small.states()["both"] == "shown"


def test_fresh_clone_has_the_same_result(small: Repository) -> None:
    small.run()
    assert small.states() == ALL_SHOWN
    page = (small.root / "docs/evidence/requirements.md").read_text()
    (small.root / ".requirements/results.json").unlink()
    assert small.states() == ALL_SHOWN
    assert (small.root / "docs/evidence/requirements.md").read_text() == page
    assert json.loads(
        (small.root / "docs/evidence/requirements-results.json").read_text()
    ).keys() == {
        "tests/unit/test_small.py::test_parameters",
        "tests/unit/test_small.py::test_parameters[2]",
        "tests/unit/test_alone.py::test_alone",
    }


def test_results_of_another_checkout_are_imported(small: Repository, tmp_path: Path) -> None:
    """For the same inputs only: its results on other inputs are ignored."""
    small.run()
    elsewhere = tmp_path / "elsewhere.json"
    (small.root / ".requirements/results.json").rename(elsewhere)
    taken = f"--requirements-results={elsewhere}"
    (small.root / "node/small/answers.py").write_text("def right(): return 1\n")
    assert small.states()["last"] == ALL_OPEN["last"]
    assert small.states(taken)["last"] == "1 clause shown, 2 stale, 0 open"
    (small.root / "node/small/answers.py").write_text(FILES["node/small/answers.py"])
    assert small.states(taken) == ALL_SHOWN


def test_strict_mode_fails_on_clauses_that_are_not_shown(small: Repository) -> None:
    assert small.run("--requirements-table", "--requirements-strict").code == 1
    small.run()
    assert small.run("--requirements-table", "--requirements-strict").code == 0


@pytest.mark.parametrize(
    ("old", "new", "reported"),
    [
        ("test_alone.py::test_alone", "test_alone.py::test_gone", "do not exist"),
        ("test_parameters[2]", "test_parameters[3]", "do not exist"),
    ],
)
def test_missing_named_test_stops_the_report(
    small: Repository, old: str, new: str, reported: str
) -> None:
    (small.root / "tests/unit/test_alone.py").write_text(
        "def test_alone(): pass\ndef test_other(): pass\n"
    )
    (small.root / "docs/requirements.toml").write_text(TEXTS.replace(old, new))
    if old.startswith("test_parameters"):
        (small.root / "tests/unit/test_alone.py").write_text(FILES["tests/unit/test_alone.py"])
    table = small.run("--requirements-table")
    assert table.code != 0
    assert reported in table.output
    assert new in table.output


@pytest.mark.parametrize("parallel", [(), ("-n", "2")], ids=["one-process", "workers"])
@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("def test_alone(): pass\n", "is named by a clause of R-01 and lacks its mark"),
        (
            "from pytest import mark\npytestmark = mark.requirement('R-01', 'R-02')\ndef test_alone(): pass\n",
            "has the mark of R-02 and is named by no clause of it",
        ),
    ],
    ids=["named", "marked"],
)
def test_disagreeing_marks_and_names_are_an_error(
    small: Repository, text: str, reported: str, parallel: tuple[str, ...]
) -> None:
    (small.root / "tests/unit/test_alone.py").write_text(text)
    ran = small.run(*parallel)
    assert ran.code != 0
    assert f"test_alone.py::test_alone {reported}" in ran.output
