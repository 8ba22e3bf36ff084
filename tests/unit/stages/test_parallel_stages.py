"""Real runs of pytest with several workers: which of them gets which tests."""

from collections import defaultdict
from pathlib import Path

import pytest

from support.parallel_stages import WORKERS_OF, group_of, stage_of
from support.pytest_runs import pytest_runs

_TEST = """
import os, pathlib
import pytest

@pytest.mark.parametrize("number", range(4))
def test_it(number, request):
    note = pathlib.Path("notes", f"{os.environ['PYTEST_XDIST_WORKER']}-{__name__}-{number}")
    note.write_text(request.node.nodeid)
"""
_NOTES_ITS_START = """
import pytest

def test_it():
    with open("begun", "a") as notes:
        print(__name__.rpartition(".")[2], file=notes)
"""
_SLOW = "pytestmark = pytest.mark.slow"
_FILES = (
    *(f"envtest/test_{each}.py" for each in "abcdef"),
    *(f"pipeline/test_{each}.py" for each in "ghi"),
    *(f"unit/raft/test_{each}.py" for each in "jklm"),
)


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Of four workers, who ran tests of a group."""
    root = tmp_path_factory.mktemp("small")
    (root / "pytest.ini").write_text(
        "[pytest]\nmarkers =\n    envtest: x\naddopts = --import-mode=importlib\n"
    )
    (root / "notes").mkdir()
    for file in _FILES:
        path = root / "tests" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_TEST)
    with pytest_runs(tmp_path_factory.mktemp("runs") / "output") as runs:
        many = ("-n", "4", "--dist", "loadscope", "--no-loadscope-reorder")
        ran = runs.run(root, "-p", "support.stages", *many, "tests")
    assert ran.code == 0, ran.output
    notes = list((root / "notes").iterdir())
    assert len(notes) == 4 * len(_FILES)
    found: dict[str, set[str]] = defaultdict(set)
    for note in notes:
        found[note.read_text()].add(note.name.partition("-")[0])
    return dict(found)


def test_files_with_most_slow_tests_begin_first_in_their_stage(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nmarkers =\n    slow: x\n    interop: x\naddopts = --import-mode=importlib\n"
    )
    for file, slow in {"unit/test_a": 0, "interop/test_b": 0, "interop/test_c": 1}.items():
        path = tmp_path / "tests" / f"{file}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_NOTES_ITS_START + slow * _SLOW)
    with pytest_runs(tmp_path / "output") as runs:
        one = ("-n", "1", "--dist", "loadscope", "--no-loadscope-reorder")
        ran = runs.run(tmp_path, "-p", "support.stages", *one, "tests")
    assert ran.code == 0, ran.output
    begun = (tmp_path / "begun").read_text().split()
    assert list(dict.fromkeys(begun)) == ["test_c", "test_b", "test_a"]


def test_tests_of_a_file_stay_on_one_worker(workers: dict[str, set[str]]) -> None:
    groups: dict[str, set[str]] = defaultdict(set)
    for node_id, by in workers.items():
        groups[group_of(node_id)] |= by
    assert len(groups) == len(_FILES) - 2, "the pipeline is one piece"
    assert all(len(by) == 1 for by in groups.values()), groups


def test_expensive_stage_is_started_by_few_workers(workers: dict[str, set[str]]) -> None:
    stages: dict[str, set[str]] = defaultdict(set)
    for node_id, by in workers.items():
        stages[stage_of(node_id)] |= by
    assert len(stages["envtest"]) == WORKERS_OF["envtest"] == 2
    assert len(stages["pipeline"]) == WORKERS_OF["pipeline"] == 1
