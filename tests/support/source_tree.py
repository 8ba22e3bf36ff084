"""Reads the project's sources, and reports where they break the project's style.

Each finding is one line `path:line: what`. The rules themselves are in CONTRIBUTING.md.
"""

import ast
import functools
import re
import subprocess
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    "node/quorum_node",
    "node/quorum_simulation",
    "operator/quorum_operator",
    "pipeline/quorum_pipeline",
)
PURE_CONTRACT = "What decides touches no clock, no random source, no file and no socket"
# Built-in functions with side effects, which need no import.
IMPURE_CALLS = frozenset({"open", "input", "print", "__import__"})
_MAY_CALL = re.compile(rf"\b(?:{'|'.join(sorted(IMPURE_CALLS))})\b")
_MAY_IMPORT = re.compile(r"\bimport\b")
# Creating and formatting replica UUIDs has one implementation.
OF_THE_NODE_FOR_THE_OPERATOR = (
    "quorum_node.api",
    "quorum_node.command_line",
    "quorum_node.core_dumps",
    "quorum_node.reassignment_api",
    "quorum_node.fresh_uuid",
    "quorum_node.host_port",
    "quorum_node.json_text",
    "quorum_node.quorum_arithmetic",
    "quorum_node.survivor",
    "quorum_node.missing_extra",
    "quorum_node.exit_codes",
    "quorum_node.records.identity",
    "quorum_node.security.certificate_identity",
    # The file of revoked certificates is read in one way, by whoever checks it and by whoever obeys it.
    "quorum_node.security.tls.problems",
    "quorum_node.security.tls.revocation",
    "quorum_node.security.tls.unreadable",
)
# The asyncio server and the simulation run the same file, with their own devices.
LOOP_AGNOSTIC = "node/quorum_node/server/partition/driver.py"
LOOP_MODULES = frozenset({"asyncio", "random", "threading", "time"})
FILE_LINES = 500
FUNCTION_LINES = 70
# Names that do not describe the content.
EMPTY_NAMES = re.compile(
    r"^_?(utils?|helpers?|common|misc|managers?|\w+_(utils?|helpers?|manager))$"
)


@functools.cache
def files(suffix: str = "") -> tuple[Path, ...]:
    """What is in the repository or about to be: tracked files and new ones that git would add."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout.split("\0")
    paths = (ROOT / name for name in sorted(set(listed)) if name.endswith(suffix) and name)
    return tuple(path for path in paths if path.is_file())


def modules(*folders: str) -> list[Path]:
    """Python files below these folders of the repository."""
    return [path for path in files(".py") if any(path.is_relative_to(ROOT / f) for f in folders)]


def place(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}:{line}"


def too_long_file(path: Path) -> Iterator[str]:
    count = len(path.read_text().splitlines())
    if count > FILE_LINES:
        yield f"{place(path, count)}: {count} lines; at most {FILE_LINES}"


def statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """All of a module, also of those inside others; ten times as fast as `ast.walk`, which enters each expression too."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.stmt):
            yield node
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            waiting += getattr(node, name, ())


def too_long_functions(path: Path) -> Iterator[str]:
    text = path.read_text()
    if text.count("\n") < FUNCTION_LINES:
        return  # parsing takes most of the time
    for node in statements(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            count = (node.end_lineno or node.lineno) - node.lineno + 1
            if count > FUNCTION_LINES:
                yield (
                    f"{place(path, node.lineno)}: {node.name} has {count} lines; "
                    f"at most {FUNCTION_LINES}"
                )


def empty_name(path: Path) -> Iterator[str]:
    for part in path.relative_to(ROOT).with_suffix("").parts if path.is_relative_to(ROOT) else ():
        if EMPTY_NAMES.match(part):
            yield f"{place(path, 1)}: {part!r} says nothing about what is inside"


def missing_docstring(path: Path) -> Iterator[str]:
    text = path.read_text()
    if not text.startswith('"""') and not ast.get_docstring(ast.parse(text)):
        yield f"{place(path, 1)}: no module docstring that says what it owns"


def imports(path: Path) -> Sequence[tuple[int, str]]:
    """(line, dotted module) of every import, also of those inside functions.

    `from a import b` gives both `a` and `a.b`, since b may be a module.
    """
    return _imports_in(path.read_text())


@functools.cache
def _imports_in(text: str) -> Sequence[tuple[int, str]]:
    """Several rules look at the same module."""
    return tuple(_imports_of(ast.parse(text))) if _MAY_IMPORT.search(text) else ()


def _imports_of(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in statements(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.lineno, node.module
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"


def pure_packages() -> list[str]:
    """Folders of the packages whose imports a contract of pyproject.toml restricts."""
    reported = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (names,) = [
        each["source_modules"] for each in reported["contracts"] if each["name"] == PURE_CONTRACT
    ]
    parents = {Path(package).name: package for package in PACKAGES}
    return [f"{parents[root]}/{name}" for root, name in (each.split(".") for each in names)]


def impure_calls(path: Path) -> Iterator[str]:
    text = path.read_text()
    # Most modules name none of these, and need not be parsed.
    tree = ast.parse(text) if _MAY_CALL.search(text) else ast.Module([], [])
    for node in ast.walk(tree):
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Name) and called.id in IMPURE_CALLS:
            yield f"{place(path, called.lineno)}: a pure package calls {called.id}()"


def loop_imports(path: Path) -> Iterator[str]:
    """Imports that would tie a module to one event loop, clock or random source."""
    for line, module in imports(path):
        if module.split(".")[0] in LOOP_MODULES:
            yield f"{place(path, line)}: {module} is a device's business"


def foreign_node_imports(path: Path) -> Iterator[str]:
    """In the operator: what it imports of the node beyond the models of the admin API."""
    for line, module in imports(path):
        if module.split(".")[0] != "quorum_node" or module in (
            "quorum_node",
            "quorum_node.records",
        ):
            continue
        if not any(f"{module}.".startswith(f"{part}.") for part in OF_THE_NODE_FOR_THE_OPERATOR):
            yield f"{place(path, line)}: the operator imports {module}"
