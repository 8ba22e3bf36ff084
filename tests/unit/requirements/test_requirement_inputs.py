"""What belongs to the inputs of a test, on a small repository and on this one."""

import os
from pathlib import Path

import pytest

from support.requirement_inputs import BESIDE, Inputs
from support.source_tree import ROOT

FILES = {
    "tests/conftest.py": "pytest_plugins = ['support.requirement_plugin']\n",
    "tests/support/requirement_plugin.py": "import quorum_node.unused\n",
    "tests/support/env.py": "from quorum_node.raft import voting\n",
    "tests/unit/conftest.py": "import pytest\n",
    "tests/unit/raft/test_voting.py": "from support.env import play\n",
    "tests/unit/raft/test_other.py": "import json\n",
    "tests/unit/server/test_process.py": "ARGUMENTS = ['-m', 'quorum_node.server']\n",
    "tests/processes/test_real.py": "import json\n",
    "node/quorum_node/__init__.py": "",
    "node/quorum_node/raft/__init__.py": "",
    "node/quorum_node/raft/voting.py": (
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from quorum_node.raft.typed import T\n\n"
        "from quorum_node.records.batch import (  # several lines\n    Batch,\n    Record,\n)\n"
    ),
    "node/quorum_node/raft/typed.py": "",
    "node/quorum_node/raft/unrelated.py": "",
    "node/quorum_node/records/__init__.py": "",
    "node/quorum_node/records/batch.py": "def f():\n    import quorum_node.late\n",
    "node/quorum_node/late.py": "",
    "node/quorum_node/unused.py": "",
    "node/quorum_node/server/__init__.py": "",
    "node/quorum_node/server/__main__.py": "import quorum_node.late\n",
    "docs/a.md": "Text.\n",
    "tests/scenarios/one.txt": "A env.\n",
}
VOTING = "tests/unit/raft/test_voting.py"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def digest(root: Path, test_file: str) -> str:
    return Inputs(root).of(test_file).inputs


def test_imports_are_followed(small: Path) -> None:
    """Through the packages on the way, into functions, and past names for the type checker."""
    assert Inputs(small).covered(VOTING) == {
        "tests/conftest.py",
        "tests/support/env.py",
        "tests/unit/conftest.py",
        VOTING,
        "node/quorum_node/__init__.py",
        "node/quorum_node/raft/__init__.py",
        "node/quorum_node/raft/voting.py",
        "node/quorum_node/records/__init__.py",
        "node/quorum_node/records/batch.py",
        "node/quorum_node/late.py",
    }


def test_started_module_counts_as_an_import(small: Path) -> None:
    covered = Inputs(small).covered("tests/unit/server/test_process.py")
    assert {"node/quorum_node/server/__main__.py", "node/quorum_node/late.py"} <= covered


def test_named_file_beside_the_module_is_an_input(small: Path) -> None:
    for name, text in (("breaks.py", "import quorum_node.unused\n"), ("data.json", "{}")):
        (small / "tests/unit/raft" / name).write_text(text)
    named = 'FILES = [HERE.with_name("breaks.py"), HERE.with_name("data.json")]\n'
    (small / VOTING).write_text(named)
    covered = Inputs(small).covered(VOTING)
    beside = {"tests/unit/raft/breaks.py", "tests/unit/raft/data.json"}
    assert beside | {"node/quorum_node/unused.py"} <= covered


def test_tests_of_processes_depend_on_whole_packages(small: Path) -> None:
    covered = Inputs(small).covered("tests/processes/test_real.py")
    assert {name for name in FILES if name.startswith("node/")} <= covered


@pytest.mark.parametrize(
    "changed",
    [
        VOTING,
        "tests/conftest.py",
        "tests/unit/conftest.py",
        "tests/support/env.py",
        "node/quorum_node/raft/__init__.py",
        "node/quorum_node/raft/voting.py",
        "node/quorum_node/records/batch.py",
        "node/quorum_node/late.py",
    ],
)
def test_changed_input_changes_the_hash(small: Path, changed: str) -> None:
    before = digest(small, VOTING)
    (small / changed).write_text(FILES[changed] + "# changed\n")
    assert digest(small, VOTING) != before
    (small / changed).write_text(FILES[changed])
    assert digest(small, VOTING) == before


@pytest.mark.parametrize(
    "changed",
    [
        "docs/a.md",
        "node/quorum_node/raft/typed.py",
        "node/quorum_node/raft/unrelated.py",
        "node/quorum_node/server/__main__.py",
        "node/quorum_node/unused.py",
        "tests/scenarios/one.txt",
        "tests/support/requirement_plugin.py",
        "tests/unit/raft/test_other.py",
    ],
)
def test_other_changes_do_not_change_the_hash(small: Path, changed: str) -> None:
    before = digest(small, VOTING)
    (small / changed).write_text(FILES[changed] + "# changed\n")
    assert digest(small, VOTING) == before


def test_new_module_on_the_import_path_changes_the_hash(small: Path) -> None:
    """`from quorum_node.records.batch import Batch` would find a new `batch/` first."""
    before = digest(small, VOTING)
    (small / "node/quorum_node/late.py").rename(small / "node/quorum_node/later.py")
    assert digest(small, VOTING) != before


def test_hash_depends_on_names_and_contents_only(small: Path) -> None:
    before = Inputs(small).of(VOTING)
    for name in FILES:
        os.utime(small / name, (1, 1))
    (small / "node/quorum_node/__pycache__").mkdir()
    (small / "node/quorum_node/__pycache__/late.pyc").write_text("x")
    after = Inputs(small).of(VOTING)
    assert after.inputs == before.inputs
    assert after.changed_ns == 1_000_000_000 < before.changed_ns
    moved = small.with_name("elsewhere")
    small.rename(moved)
    assert digest(moved, VOTING) == before.inputs


def test_files_named_in_the_table_exist() -> None:
    names = {*BESIDE, *(name for names in BESIDE.values() for name in names)}
    assert sorted(name for name in names if not (ROOT / name).exists()) == []


@pytest.mark.parametrize(
    ("test_file", "inside", "outside"),
    [
        (
            "tests/unit/raft/test_raft_voting.py",
            "node/quorum_node/raft/",
            "node/quorum_node/server/",
        ),
        ("tests/unit/raft/test_raft_transcripts.py", "tests/scenarios/figure-8.txt", "operator/"),
        ("tests/processes/test_failover.py", "node/quorum_node/server/__main__.py", "operator/"),
        (
            "tests/envtest/test_repair.py",
            "operator/quorum_operator/run.py",
            "bench/",
        ),
        ("tests/e2e/test_e2e_disks.py", "helm/metadataquorum/templates/rbac.yaml", "docs/"),
        ("tests/interop/test_kafka_tools.py", "tests/interop/kafka/pom.xml", "operator/"),
        (
            "tests/unit/packaging/test_chart.py",
            "helm/metadataquorum/values.yaml",
            "node/quorum_node/raft/",
        ),
    ],
)
def test_inputs_are_files_of_this_repository(test_file: str, inside: str, outside: str) -> None:
    covered = Inputs(ROOT).covered(test_file)
    assert any(name.startswith(inside) for name in covered)
    assert not any(name.startswith(outside) for name in covered)
