"""Checks that the tests that clauses name exist, and that names and marks agree. Reads the files, without pytest.

Fast enough for every commit. requirement_plugin.py checks the marks that depend on parameters and fixtures when the tests are collected.
"""

import ast
import functools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeGuard

from support.requirement_rows import Section, rows_by_test, without_parameter

_NOT_LITERAL = "*"
Function = ast.FunctionDef | ast.AsyncFunctionDef


def missing_tests(root: Path, sections: Sequence[Section]) -> list[str]:
    """Named tests whose file or function is not there, each with its rows. Parameters aren't read."""
    return [
        f"{test} ({', '.join(sorted(rows))})"
        for test, rows in sorted(rows_by_test(sections).items())
        if not has_test(root, test)
    ]


def has_test(root: Path, test: str) -> bool:
    """Whether the file and the function of this node id are there. Parameters aren't read."""
    path, inside = _place(test)
    return inside in _marks_of_file(root / path)


def unnamed_marks(root: Path, files: Iterable[Path], sections: Sequence[Section]) -> list[str]:
    """Marks on test functions of rows whose clauses do not name them."""
    named: dict[str, set[str]] = {}
    for test, rows in rows_by_test(sections).items():
        named.setdefault(without_parameter(test), set()).update(rows)
    found = []
    for path in files:
        if b"requirement" not in path.read_bytes():
            continue  # most files have no mark, and need not be parsed
        for inside, marks in _marks_of_file(path).items():
            test = f"{path.relative_to(root)}::{inside}"
            without = marks - named.get(test, set()) - {_NOT_LITERAL} if inside else ()
            found += [f"{test} ({row})" for row in without]
    return sorted(found)


def unmarked_tests(root: Path, sections: Sequence[Section]) -> list[str]:
    """Named tests that can't have the mark of their row, because their file does not contain it.

    A mark outside of functions counts for the whole file; one that is not a literal counts for every row.
    """
    found = []
    for test, rows in rows_by_test(sections).items():
        path, inside = _place(test)
        marks = _marks_of_file(root / path)
        given = marks.get(inside, frozenset()) | marks.get("", frozenset())
        if _NOT_LITERAL not in given:
            found += [f"{test} ({row})" for row in rows - given]
    return sorted(found)


def _place(test: str) -> tuple[str, str]:
    """File and function of a node id."""
    path, _, inside = without_parameter(test).partition("::")
    return path, inside


@functools.cache
def _marks_of_file(path: Path) -> dict[str, frozenset[str]]:
    """Every function → the marks in its decorators; "" → those elsewhere in the file."""
    if not path.is_file():
        return {}
    tree = ast.parse(path.read_bytes())
    marks: dict[str, frozenset[str]] = {}
    seen: set[int] = set()
    for name, function in _functions(tree):
        nodes = [node for each in function.decorator_list for node in ast.walk(each)]
        seen.update(map(id, nodes))
        marks[name] = _ids_of(nodes)
    marks[""] = _ids_of(node for node in ast.walk(tree) if id(node) not in seen)
    return marks


def _functions(tree: ast.Module) -> Iterator[tuple[str, Function]]:
    """Those of the file and of its classes, by their part of a node id."""
    for node in tree.body:
        if isinstance(node, Function):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for each in node.body:
                if isinstance(each, Function):
                    yield f"{node.name}::{each.name}", each


def _ids_of(nodes: Iterable[ast.AST]) -> frozenset[str]:
    return frozenset(
        str(argument.value) if isinstance(argument, ast.Constant) else _NOT_LITERAL
        for node in nodes
        if _is_mark(node)
        for argument in node.args
    )


def _is_mark(node: ast.AST) -> TypeGuard[ast.Call]:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "requirement"
    )
