"""A hash of the files that a test depends on: a result is valid for every tree in which these files are the same.

The inputs of a test file are itself, the `conftest.py` files above it, every module of the repository that these import, directly or
through others, and the entries in `BESIDE`: files that are read and packages that run in processes of their own. A string that is a
module's dotted name counts as an import (`-m quorum_node.server`), and so does the name of a file beside it. Not included: the
interpreter, installed packages, the machine, git's state, docs/, and the plugins in tests/conftest.py, which only report.
"""

import functools
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

# Where `import x` finds a module of the repository; as `mypy_path` in pyproject.toml.
IMPORT_ROOTS = ("node", "operator", "pipeline", "tests", "tests/e2e", "tests/e2e/kind", "bench")

_NODE = ("node/quorum_node",)
_CHART = ("helm", "manifests", "crds", "examples")
_IMAGES = (
    "node",
    "operator",
    "pipeline",
    "requirements/node.txt",
    "requirements/operator.txt",
    "requirements/pipeline.txt",
)

# An input of a test file at or below the name on the left adds the inputs on the right:
# files that are read, and packages that run in processes of their own.
BESIDE: dict[str, tuple[str, ...]] = {
    "tests/processes": _NODE,
    "tests/e2e/conftest.py": (*_IMAGES, *_CHART, "tests/e2e/kind", "tests/support/kind_env"),
    "tests/fuzz": (*_NODE, "tests/support/fuzz"),
    "tests/envtest": (*_NODE, "operator/quorum_operator", "tests/support/envtest", *_CHART),
    "tests/interop": (*_NODE, "tests/interop/kafka"),
    "tests/interop/test_benchmark.py": ("bench",),
    "tests/linearizability": (*_NODE, "tests/linearizability/checker"),
    "tests/pipeline": (*_NODE, "pipeline/quorum_pipeline", "tests/pipeline/hdfs"),
    "tests/simulation": ("tests/scenarios",),
    "tests/simulation/test_breaks.py": ("tests/simulation", "tests/unit", "tests/support/raft"),
    "tests/support/chart.py": _CHART,
    "tests/support/kind.py": ("tests/e2e/kind",),
    "tests/support/local_quorum.py": _NODE,
    "tests/support/stock_kafka.py": ("tests/interop/kafka",),
    "tests/support/kind_env/testbed.py": ("tests/e2e/kind",),
    "tests/support/workload": ("tests/support/workload",),
    "tests/unit/operator_crd": ("crds",),
    "tests/unit/operator_plugin": ("tests/unit/operator_plugin/recorded",),
    "tests/unit/packaging": (
        *_CHART,
        "node/Dockerfile",
        "operator/Dockerfile",
        "pipeline/Dockerfile",
    ),
    "tests/unit/raft/test_raft_transcripts.py": ("tests/scenarios",),
}

_REPORTING = (
    "tests/support/requirement_",
    "tests/support/stages.py",
    "tests/support/long_run.py",
    "tests/support/warm_start.py",
)
_KEPT_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Digest:
    """The inputs of one test file."""

    inputs: str  # hash over names and contents
    changed_ns: int  # when the newest of them was written, by the file system


class Inputs:
    """Reads each file at most once; what is written later is seen by the next instance only."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self._modules = functools.cache(partial(_modules_on_the_way, self._root))
        self._is_module = functools.cache(partial(_is_module, self._root))
        self._below = functools.cache(lambda name: tuple(_walked(self._root, self._root / name)))
        self._files: dict[str, tuple[str, int]] = {}  # path → hash, time of the last change
        self._imports: dict[str, frozenset[str]] = {}
        self._digests: dict[str, Digest] = {}

    def of(self, test_file: str) -> Digest:
        """Of a test file, by its path in the repository (the part of a node id before `::`)."""
        known = self._digests.get(test_file)
        if known is None:
            known = self._digests[test_file] = self._digest(self.covered(test_file))
        return known

    def under(self, *names: str) -> Digest:
        """Of all files at or below these names, without what they import."""
        return self._digest(frozenset(file for name in names for file in self._below(name)))

    def covered(self, test_file: str) -> frozenset[str]:
        """Paths of all inputs, relative to the repository."""
        folder = Path(test_file).parent
        conftests = [str(each / "conftest.py") for each in (folder, *folder.parents)]
        waiting = {test_file, *(name for name in conftests if (self._root / name).is_file())}
        seen: set[str] = set()
        while waiting:
            path = waiting.pop()
            seen.add(path)
            further = set(self._imported_by(path)) | self._beside(path)
            waiting |= {each for each in further - seen if not each.startswith(_REPORTING)}
        return frozenset(seen)

    def _digest(self, paths: frozenset[str]) -> Digest:
        total = hashlib.sha256()
        youngest = 0
        for path in sorted(paths):
            content, changed_ns = self._file(path)
            total.update(f"{path}\0{content}\n".encode())
            youngest = max(youngest, changed_ns)
        return Digest(total.hexdigest()[:_KEPT_DIGITS], youngest)

    def _file(self, path: str) -> tuple[str, int]:
        if path not in self._files:
            place = self._root / path
            content = hashlib.sha256(place.read_bytes()).hexdigest() if place.is_file() else ""
            self._files[path] = content, place.stat().st_mtime_ns if content else 0
        return self._files[path]

    def _beside(self, path: str) -> set[str]:
        return {
            file
            for place, names in BESIDE.items()
            if path == place or path.startswith(f"{place}/")
            for name in names
            for file in self._below(name)
        }

    def _imported_by(self, path: str) -> frozenset[str]:
        if path not in self._imports:
            place = self._root / path
            found: set[str] = set()
            if path.endswith(".py") and place.is_file():
                text = place.read_text()
                for name in _imported_names(text):
                    found.update(self._modules(name))
                for name in set(_DOTTED_STRING.findall(text)):
                    if self._is_module(name):
                        found.update(self._modules(name))
                    elif place.with_name(name).is_file():
                        found.add(str(Path(path).with_name(name)))
            self._imports[path] = frozenset(found)
        return self._imports[path]


# Ten times as fast as Python's parser. A match in a docstring only adds an unneeded input.
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)|import[ \t]+([^\n]*))",
    re.MULTILINE,
)
_FOR_THE_TYPE_CHECKER = re.compile(r"^if TYPE_CHECKING:\n(?:[ \t]+.*\n|\n)*", re.MULTILINE)
_DOTTED_STRING = re.compile(r"""["']([A-Za-z_]\w*(?:\.\w+)+)["']""")
_NAME_FIRST = re.compile(r"[A-Za-z_][\w.]*")


def _imported_names(text: str) -> Iterator[str]:
    """`from a import b` gives `a.b`: a module, or something in the module `a`."""
    for module, names, modules in _IMPORT.findall(_FOR_THE_TYPE_CHECKER.sub("", text)):
        for entry in re.sub(r"#[^\n]*", "", names or modules).strip("()").split(","):
            first = _NAME_FIRST.match(entry.strip())
            if first:
                yield f"{module}.{first[0]}" if module else first[0]


def _modules_on_the_way(root: Path, name: str) -> tuple[str, ...]:
    """The file of a module, those of the packages that it is in, and `__main__` if it is a package.

    Empty for a module outside of the repository; the last part of the name may be an attribute of a module.
    """
    parts = name.split(".")
    for base in IMPORT_ROOTS:
        found = []
        for depth in range(1, len(parts) + 1):
            place = root.joinpath(base, *parts[:depth])
            if place.with_suffix(".py").is_file():
                found.append(place.with_suffix(".py"))
                break
            if not place.is_dir():
                break
            ends = ("__init__.py", "__main__.py") if depth == len(parts) else ("__init__.py",)
            found += [place / end for end in ends if (place / end).is_file()]
        if found:
            return tuple(str(each.relative_to(root)) for each in found)
    return ()


def _is_module(root: Path, name: str) -> bool:
    relative = name.replace(".", "/")
    return any(
        (root / base / f"{relative}.py").is_file()
        or (root / base / relative / "__init__.py").is_file()
        for base in IMPORT_ROOTS
    )


def _walked(root: Path, place: Path) -> Iterator[str]:
    """Leaves out what is compiled, hidden or built beside the sources."""
    if place.is_file():
        yield str(place.relative_to(root))
        return
    for path in place.rglob("*"):
        parts = path.relative_to(root).parts
        if path.is_file() and not any(_left_out(part) for part in parts):
            yield str(path.relative_to(root))


def _left_out(part: str) -> bool:
    return part == "__pycache__" or part.endswith((".pyc", ".egg-info")) or part.startswith(".")
