"""Loads a package with one line of its source changed, to show that a test detects the defect.

Owns loading the changed package, and restoring the real one.
"""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any


class _Finder(MetaPathFinder, Loader):
    def __init__(self, name: str, path: Path, source: str) -> None:
        self._name, self._path, self._source = name, path, source

    def find_spec(
        self, fullname: str, path: Any, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return spec_from_loader(fullname, self) if fullname == self._name else None

    def create_module(self, spec: ModuleSpec) -> None:
        """The usual one."""

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self._source, str(self._path), "exec"), module.__dict__)


@contextmanager
def broken(package: str, module: str, line: str, instead: str) -> Iterator[None]:
    """`line`: text that occurs once in the module. Imports of the package within the context get it with `instead` in its place."""
    name = f"{package}.{module}"
    path = Path(str(importlib.import_module(name).__file__))
    source = path.read_text()
    assert source.count(line) == 1, f"{name} has this {source.count(line)} times: {line}"
    kept = {each: found for each, found in sys.modules.items() if each.startswith(package)}
    finder = _Finder(name, path, source.replace(line, instead))
    for each in kept:
        del sys.modules[each]
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for each in [each for each in sys.modules if each.startswith(package)]:
            del sys.modules[each]
        sys.modules.update(kept)
        parent, _, child = package.rpartition(".")
        setattr(sys.modules[parent], child, kept[package])
