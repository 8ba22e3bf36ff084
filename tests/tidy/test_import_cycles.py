"""No module of the operator imports itself by way of others: else it depends on who is imported first whether it can be imported."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

from support import source_tree as tree

ROOT = tree.ROOT / "operator"


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path: Path, modules: set[str]) -> set[str]:
    """What is imported when the module is; not within functions, and not for the type checker alone."""
    found: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
    packages = {each for each in modules if any(one.startswith(f"{each}.") for one in modules)}
    return (found & modules) - packages


def test_operator_imports_have_an_order() -> None:
    paths = {name_of(path): path for path in tree.modules("operator")}
    graph = {name: imported(path, set(paths)) for name, path in paths.items()}
    assert len(graph) > 100
    assert any(graph.values())
    list(TopologicalSorter(graph).static_order())  # raises CycleError, which names the circle
