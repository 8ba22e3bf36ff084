"""What exists once: rules that would be written a second time by whoever does not know the first."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.source_tree import PACKAGES, ROOT, imports, modules, place

ARITHMETIC = ROOT / "node" / "quorum_node" / "quorum_arithmetic.py"


def counted_majorities(path: Path) -> Iterator[str]:
    """`n // 2 + 1`, and a comparison with `n // 2`."""
    text = path.read_text()
    # Most modules halve nothing, and need not be parsed.
    tree = ast.parse(text) if "//" in text else ast.Module([], [])
    for node in ast.walk(tree):
        match node:
            case ast.BinOp(left=half, op=ast.Add(), right=ast.Constant(value=1)) if _is_half(half):
                yield f"{place(path, node.lineno)}: counts a majority; quorum_arithmetic does"
            case ast.Compare(comparators=[compared]) if _is_half(compared):
                yield f"{place(path, node.lineno)}: compares with a half; quorum_arithmetic does"


def _is_half(node: ast.expr) -> bool:
    match node:
        case ast.BinOp(op=ast.FloorDiv(), right=ast.Constant(value=2)):
            return True
    return False


def test_majorities_are_computed_in_one_module() -> None:
    paths = [path for path in modules(*PACKAGES) if path != ARITHMETIC]
    assert [line for path in paths for line in counted_majorities(path)] == []
    assert list(counted_majorities(ARITHMETIC))


@pytest.mark.parametrize(
    "source", ["needed = len(voters) // 2 + 1", "if n > len(voters) // 2: f()"]
)
def test_majority_computed_elsewhere_is_detected(source: str, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(source)
    assert len(list(counted_majorities(path))) == 1


def test_arithmetic_module_imports_neither_node_nor_operator() -> None:
    """So that both may import it."""
    assert [module for _, module in imports(ARITHMETIC)] == []


# What has one place, and what every other module would import to write it again.
PLACES = {
    "numba": "pipeline/quorum_pipeline/compiled.py",
    "fcntl": "node/quorum_node/exclusive_lock.py",
}


def importers(module: str, paths: list[Path]) -> list[str]:
    return [
        place(path, line)
        for path in paths
        if module in path.read_text()
        for line, name in imports(path)
        if name.split(".")[0] == module
    ]


@pytest.mark.parametrize("module", PLACES)
def test_restricted_modules_are_imported_by_their_owner_only(module: str) -> None:
    """Options of the compiler, and which answers of the kernel mean that a lock is held."""
    found = importers(module, modules(*PACKAGES))
    assert [each for each in found if not each.startswith(f"{PLACES[module]}:")] == []
    assert found


def test_second_import_is_detected(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text("def f():\n    from numba import njit\n")
    assert len(set(importers("numba", [path]))) == 1


def test_unusable_json_is_recognized_in_one_module() -> None:
    """`json.loads` raises RecursionError for deep nesting: who catches it elsewhere has written `read_json` again."""
    found = [place(path, 1) for path in modules(*PACKAGES) if "RecursionError" in path.read_text()]
    assert found == ["node/quorum_node/json_text.py:1"]
