"""Compiles a new checkout for the tests: modules, assertions of test files as pytest rewrites them, and the pipeline's loops.

Every worker of a parallel run needs all of it before its first test. They begin together, so without this each of them compiles
everything. `make programs` does it once, beside the compilers of other programs. If a part fails, the workers do it.

Usage: python -m support.compiled_checkout PART
"""

import compileall
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from _pytest.assertion import rewrite

from support.source_tree import ROOT

LOOPS = (
    "quorum_pipeline.canonical_encoding",
    "quorum_pipeline.compaction.broker_compaction",
    "quorum_pipeline.compaction.bucketing",
    "quorum_pipeline.compaction.columns",
    "quorum_pipeline.compaction.elr_updates",
    "quorum_pipeline.compaction.frames",
    "quorum_pipeline.compaction.internal_records",
    "quorum_pipeline.compaction.log_compaction",
    "quorum_pipeline.compaction.merging",
    "quorum_pipeline.compaction.prefetching",
    "quorum_pipeline.compaction.values",
    "quorum_pipeline.compaction.writing",
    "quorum_pipeline.rows.loops",
)
"""Modules with compiled loops. Most are compiled when they are imported."""

_REWRITTEN = ("test_*.py", "conftest.py", "support/**/*.py")
_FLAGS = b"\x03\x00\x00\x00"
"""Of a file that is valid for a hash of its source (PEP 552)."""
_SOURCES = ("pipeline/quorum_pipeline", "node/quorum_node")
_STAMP = Path("pipeline/quorum_pipeline/compaction/__pycache__/compiled")
"""Beside what numba keeps, so that both are deleted together."""


def compile_modules(root: Path = ROOT) -> None:
    """Compile what Python imports as it is; unchanged modules are left as they are."""
    for name in ("node", "operator", "pipeline", "tests"):
        compileall.compile_dir(root / name, quiet=2)


def rewrite_assertions(tests: Path) -> int:
    """Write the files that pytest would write when it imports the test files of a folder; return their number.

    Raises OSError; SyntaxError if a test file is wrong.
    """
    made = 0
    for pattern in _REWRITTEN:
        for path in tests.glob(pattern if "/" in pattern else f"**/{pattern}"):
            kept = rewrite.get_cache_dir(path) / f"{path.stem}{rewrite.PYC_TAIL}"
            if _is_current(kept, path):
                continue
            source_hash, code = rewrite._rewrite_test(path, _DEFAULTS)
            kept.parent.mkdir(exist_ok=True)
            made += rewrite._write_pyc(_SILENT, code, source_hash, kept)
    return made


# Only the hook of passed assertions, which is off by default, needs a configuration; only problems are traced.
_DEFAULTS: Any = None
_SILENT: Any = SimpleNamespace(trace=lambda text: None)


def _is_current(kept: Path, source: Path) -> bool:
    try:
        with kept.open("rb") as file:
            head = file.read(16)
    except FileNotFoundError:
        return False
    expected = importlib.util.source_hash(source.read_bytes())[:8]
    return head == importlib.util.MAGIC_NUMBER + _FLAGS + expected


def compile_loops(root: Path = ROOT) -> bool:
    """Compile the loops, unless no source changed since the last time; return whether it was done. Raises OSError."""
    stamp = root / _STAMP
    made_with = f"{sys.version} numba {version('numba')}"
    try:
        if stamp.read_text() == made_with and stamp.stat().st_mtime_ns > _newest_ns(root):
            return False
    except FileNotFoundError:
        pass
    for name in LOOPS:
        import_module(name)
    from quorum_pipeline.rows.loops import compile_all

    compile_all()
    stamp.parent.mkdir(exist_ok=True)
    stamp.write_text(made_with)
    return True


def _newest_ns(root: Path) -> int:
    """The time of the last change of a source from which loops are made."""
    sources = (path for name in _SOURCES for path in (root / name).rglob("*.py"))
    return max(path.stat().st_mtime_ns for path in sources)


PARTS: dict[str, Callable[[], object]] = {
    "modules": compile_modules,
    "assertions": lambda: rewrite_assertions(ROOT / "tests"),
    "loops": compile_loops,
}


@contextmanager
def compiled_meanwhile() -> Iterator[None]:
    """Each part in a process of its own; at the end of the context all are awaited."""
    command = [sys.executable, "-m", "support.compiled_checkout"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    begun = [subprocess.Popen([*command, part], env=environment, cwd=ROOT) for part in PARTS]
    try:
        yield
    finally:
        for each in begun:
            each.wait()


if __name__ == "__main__":
    PARTS[sys.argv[1]]()
