"""The rules of CONTRIBUTING.md that a machine can check, on every file of the repository."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support import source_tree as tree

OF_EVERY_FILE = (tree.too_long_file, tree.too_long_functions, tree.empty_name)


def findings(check: Callable[[Path], Iterator[str]], paths: list[Path]) -> str:
    return "\n".join(line for path in paths for line in check(path))


@pytest.mark.parametrize("check", OF_EVERY_FILE)
def test_every_python_file_follows_the_style(check: Callable[[Path], Iterator[str]]) -> None:
    paths = list(tree.files(".py"))
    assert len(paths) > 20
    assert findings(check, paths) == ""


def test_every_module_has_a_docstring() -> None:
    paths = tree.modules(*tree.PACKAGES, "tests/support")
    assert findings(tree.missing_docstring, paths) == ""


@pytest.mark.parametrize("package", tree.pure_packages())
def test_pure_packages_call_no_built_in_function_with_side_effects(package: str) -> None:
    paths = tree.modules(package)
    assert paths, f"{package} is gone; mend the contract"
    assert findings(tree.impure_calls, paths) == ""


def test_driver_runs_on_any_devices() -> None:
    assert findings(tree.loop_imports, [tree.ROOT / tree.LOOP_AGNOSTIC]) == ""


def test_operator_uses_the_node_api_only() -> None:
    assert findings(tree.foreign_node_imports, tree.modules("operator")) == ""


def test_operator_folder_does_not_shadow_the_standard_library() -> None:
    """`operator/__init__.py` would hide the module `operator`: even `import collections` breaks.

    A test or conftest there would have pytest put the folder's parent on the path.
    """
    outside = [path for path in tree.files(".py") if path.parent == tree.ROOT / "operator"]
    tests = [
        path
        for path in tree.modules("operator")
        if path.name == "conftest.py" or path.name.startswith("test_")
    ]
    assert outside + tests == []


@pytest.mark.parametrize(
    ("check", "source", "finding"),
    [
        (tree.too_long_file, "x = 1\n" * 501, "501 lines"),
        (tree.too_long_functions, "async def f():\n" + "    x = 1\n" * 70, "f has 71 lines"),
        (tree.missing_docstring, "x = 1\n", "docstring"),
        (tree.impure_calls, "open('x')\n", "calls open"),
        (tree.loop_imports, "from asyncio import Queue\n", "asyncio"),
        (tree.loop_imports, "import time\n", "time"),
        (tree.loop_imports, "def f():\n    from random import random\n", "random"),
        (tree.foreign_node_imports, "from quorum_node import raft\n", "quorum_node.raft"),
        (tree.foreign_node_imports, "from quorum_node.records import batches\n", "batches"),
        (tree.foreign_node_imports, "import quorum_node.records.identities\n", "identities"),
        (tree.foreign_node_imports, "import quorum_node.storage.log\n", "storage.log"),
    ],
)
def test_violation_is_detected(
    check: Callable[[Path], Iterator[str]], source: str, finding: str, tmp_path: Path
) -> None:
    path = tmp_path / "module.py"
    path.write_text(source)
    assert finding in findings(check, [path])


@pytest.mark.parametrize("name", ["utils", "helper", "common", "pod_manager", "log_utils"])
def test_empty_name_is_detected(name: str) -> None:
    assert list(tree.empty_name(tree.ROOT / "node" / f"{name}.py"))


@pytest.mark.parametrize(
    ("check", "source"),
    [
        (tree.too_long_file, "x = 1\n" * 500),
        (tree.too_long_functions, "def f():\n" + "    x = 1\n" * 69),
        (tree.impure_calls, "file.open('x')\n"),
        (tree.loop_imports, "from collections import deque\n"),
        (tree.foreign_node_imports, "from quorum_node.api import NodeDescription\n"),
        (tree.foreign_node_imports, "from quorum_node.records.identity import uuid_text\n"),
        (tree.foreign_node_imports, "from quorum_node import api\n"),
    ],
)
def test_allowed_code_is_not_reported(
    check: Callable[[Path], Iterator[str]], source: str, tmp_path: Path
) -> None:
    path = tmp_path / "module.py"
    path.write_text(source)
    assert findings(check, [path]) == ""
