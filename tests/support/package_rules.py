"""Finds where a module breaks the rules of the server's packages: imports of another one's internals, attributes that are set from outside,
uses of the core's roles.

Owns the rules and their exceptions. CONTRIBUTING.md gives the reasons.
"""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from support.source_tree import ROOT, imports, modules, place

SERVER = "node/quorum_node/server"
_PREFIX = "quorum_node.server."
FOUNDATIONS = frozenset({"ending", "observing", "transport", "wire"})
"""Packages that every other one may use. They use none of the others."""
PORTS: Mapping[str, frozenset[str]] = {
    "admin": frozenset(),
    "broker": frozenset({"port"}),
    "controller": frozenset({"port"}),
    "disk": frozenset(),
    "listener": frozenset({"port"}),
    "partition": frozenset({"port"}),
    "peers": frozenset({"port"}),
    "process": frozenset(),
    "requests": frozenset(),
    "rights": frozenset({"port"}),
    "snapshots": frozenset({"port", "policy"}),
    "starting": frozenset(),
}
"""Package → its modules that others may import."""
MADE_BY: Mapping[str, frozenset[str]] = {
    "partition": frozenset({"disk", "snapshots"}),
    "process": frozenset(PORTS),
}
"""Packages that create the parts of another one, and therefore import its internals."""
_OF_THE_CORE, _LEADERSHIP = "partition", "quorum_node.raft.leadership"
_FOREIGN = {
    "app.state.node": "Starlette's place for what routes share",
    "response.status_code": "FastAPI's way to answer with another code",
    "self._server.should_exit": "uvicorn's way to end",
    "threading.excepthook": "Python's hook",
    **dict.fromkeys(
        (
            "context.check_hostname",
            "context.maximum_version",
            "context.minimum_version",
            "context.num_tickets",
            "context.options",
            "context.verify_flags",
            "context.verify_mode",
        ),
        "how Python's TLS contexts are configured",
    ),
    "timer.daemon": "Python's way to say so of a Timer",
}
"""Attributes of libraries' objects that are meant to be set."""


def server_modules() -> list[Path]:
    """Every module of the server."""
    return modules(SERVER)


def package_of(path: Path) -> str:
    """The package of a module; empty for modules outside packages."""
    inside = path.relative_to(ROOT / SERVER)
    return inside.parts[0] if len(inside.parts) > 1 else ""


def foreign_internals(path: Path, package: str) -> Iterator[str]:
    """Imports of another package that are not of its port."""
    for line, module in imports(path):
        if not module.startswith(_PREFIX):
            continue
        other, _, inside = module.removeprefix(_PREFIX).partition(".")
        if other not in PORTS or other == package or not inside:
            continue
        if package in FOUNDATIONS:
            yield f"{place(path, line)}: {package} is used by every package, and imports {module}"
        elif other not in MADE_BY.get(package, ()) and inside.split(".")[0] not in PORTS[other]:
            yield f"{place(path, line)}: {package} imports {module}, which is no port of {other}"


def uses_of_leadership(path: Path, package: str) -> Iterator[str]:
    """Uses of the core's role outside of the package `partition`: others ask the replica."""
    for line, module in imports(path):
        if package != _OF_THE_CORE and f"{module}.".startswith(f"{_LEADERSHIP}."):
            yield f"{place(path, line)}: {package} looks into {module}"


def foreign_assignments(path: Path) -> Iterator[str]:
    """Attributes that are assigned from outside of the class that has them."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign | ast.AugAssign):
            targets = [node.target]
        else:
            continue
        for target in targets:
            for each in _attributes(target):
                text = ast.unparse(each)
                owner = each.value
                own = isinstance(owner, ast.Name) and owner.id in ("self", "cls")
                if not own and text not in _FOREIGN:
                    yield f"{place(path, each.lineno)}: {text} is set from outside"


def _attributes(target: ast.expr) -> Iterator[ast.Attribute]:
    if isinstance(target, ast.Attribute):
        yield target
    elif isinstance(target, ast.Tuple | ast.List):
        for each in target.elts:
            yield from _attributes(each)
    elif isinstance(target, ast.Starred):
        yield from _attributes(target.value)
