"""Finds which module writes which field of a replica's state.

Owns how an assignment is recognised: by the declared type of a parameter, by `self` in the classes of the state, and by the name
`replica`. Building the state (`BUILDING`) does not count as a write. Changes within a container are not checked: every module appends
outputs.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from support.source_tree import ROOT

STATE = {
    "LogPositions": "node/quorum_node/raft/log_positions.py",
    "EpochState": "node/quorum_node/raft/epoch_state.py",
    "ReplicaState": "node/quorum_node/raft/replica_state.py",
    "Replica": "node/quorum_node/raft/replica.py",
}
"""The classes of a replica's state."""
BUILDING = frozenset({"__init__", "_forget_peers"})
_NAMES = frozenset({"replica", "_replica"})


def state_fields() -> frozenset[str]:
    """Everything that is assigned to `self` in these classes."""
    return frozenset(
        field
        for path in STATE.values()
        for field, _, _ in _assigned((ROOT / path).read_text(), building=True)
    )


def writes(path: Path) -> Iterator[tuple[str, int]]:
    """(field, line) of every assignment to a field of a replica."""
    for field, line, _ in _assigned(path.read_text(), building=False):
        yield field, line


def writers(paths: list[Path]) -> dict[str, set[str]]:
    """Field → modules that assign it."""
    fields = state_fields()
    found: dict[str, set[str]] = {}
    for path in paths:
        for field, _ in writes(path):
            if field in fields:
                found.setdefault(field, set()).add(path.stem)
    return found


def _assigned(text: str, *, building: bool) -> Iterator[tuple[str, int, str]]:
    visitor = _Visitor(building)
    visitor.visit(ast.parse(text))
    yield from visitor.found


class _Visitor(ast.NodeVisitor):
    def __init__(self, building: bool) -> None:
        self.found: list[tuple[str, int, str]] = []
        self._building = building
        self._class = ""
        self._function = ""
        self._replicas: frozenset[str] = frozenset()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        before, self._class = self._class, node.name
        self.generic_visit(node)
        self._class = before

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        before = self._function, self._replicas
        declared = {
            each.arg
            for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            if each.annotation is not None and ast.unparse(each.annotation) in STATE
        }
        self._function, self._replicas = node.name, self._replicas | declared
        self.generic_visit(node)
        self._function, self._replicas = before

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.ctx, ast.Store | ast.Del) and self._is_state(node.value):
            self._note(node)
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        """`replica.x[y] = z` writes the field as well."""
        inner = node.value
        stored = isinstance(node.ctx, ast.Store | ast.Del)
        if stored and isinstance(inner, ast.Attribute) and self._is_state(inner.value):
            self._note(inner)
        self.generic_visit(node)

    def _note(self, node: ast.Attribute) -> None:
        if self._building or self._class not in STATE or self._function not in BUILDING:
            self.found.append((node.attr, node.lineno, self._function))

    def _is_state(self, node: ast.expr) -> bool:
        match node:
            case ast.Name(id="self"):
                return self._class in STATE
            case ast.Name(id=name):
                return not self._building and (name in self._replicas or name in _NAMES)
            case ast.Attribute(attr=name):
                return not self._building and name in _NAMES
        return False
