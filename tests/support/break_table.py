"""The deliberate breaks of tests/simulation/*breaks*.py, and their table in docs/evidence/breaks.md.

Owns finding them and the format of the table. `python -m support.break_table` (in tests/) writes it: `make breaks-doc`.
"""

import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
SIMULATION = ROOT / "tests" / "simulation"
DOCUMENT = ROOT / "docs" / "evidence" / "breaks.md"
BEGIN, END = "<!-- breaks -->\n", "<!-- end of breaks -->\n"
Break = Callable[..., None]


class BreakFiles:
    """All of them. A file has BY_SIMULATION, BY_BROKERS, BY_SCENARIO, BY_TEST and FAULTS_FOR, as far as it needs."""

    def __init__(self) -> None:
        self.by_simulation: list[Break] = []
        self.by_brokers: list[Break] = []
        self.by_scenario: list[tuple[Break, str]] = []
        self.by_test: list[tuple[Break, str]] = []
        self.faults_for: dict[object, frozenset[str]] = {}
        self._modules: list[ModuleType] = []
        paths = SIMULATION.glob("*breaks*.py")
        for path in sorted(each for each in paths if not each.name.startswith("test_")):
            module = load(path)
            self._modules.append(module)
            self.by_simulation += getattr(module, "BY_SIMULATION", ())
            self.by_brokers += getattr(module, "BY_BROKERS", ())
            self.by_scenario += getattr(module, "BY_SCENARIO", ())
            self.by_test += getattr(module, "BY_TEST", ())
            self.faults_for |= getattr(module, "FAULTS_FOR", {})

    def defined(self) -> set[str]:
        """Names of all functions that implement a break: those that take a patch."""
        return {
            name
            for module in self._modules
            for name, function in inspect.getmembers(module, inspect.isfunction)
            if not name.startswith("_")
            and list(inspect.signature(function).parameters) == ["patch"]
        }

    def catchers(self) -> dict[Break, list[str]]:
        """Every break, and the descriptions of all tests that catch it."""
        found: dict[Break, list[str]] = {}
        for broken in self.by_simulation:
            found.setdefault(broken, []).append("simulation")
        for broken in self.by_brokers:
            found.setdefault(broken, []).append("simulation of brokers")
        for broken, scenario in self.by_scenario:
            found.setdefault(broken, []).append(f"scenario `{scenario}`")
        for broken, place in self.by_test:
            found.setdefault(broken, []).append(f"`{place.rpartition('/')[2]}`")
        return found


def words_of(broken: Break) -> tuple[str, str]:
    """What is broken, and what its effect would be, from the docstring."""
    text = " ".join((inspect.getdoc(broken) or "").split())
    what, _, would = text.partition(" Would: ")
    return what, would


def table() -> str:
    """The lines between the marks."""
    lines = ["| broken on purpose | what it would do | caught by |", "|---|---|---|"]
    for broken, catchers in BreakFiles().catchers().items():
        what, would = words_of(broken)
        lines.append(f"| {_cell(what)} | {_cell(would)} | {'; '.join(catchers)} |")
    return "\n".join(lines) + "\n"


def written() -> str:
    """The table in the document."""
    text = DOCUMENT.read_text()
    return text.partition(BEGIN)[2].partition(END)[0]


def write() -> None:
    """Put the table into the document."""
    before, _, rest = DOCUMENT.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    DOCUMENT.write_text(before + BEGIN + table() + END + after)


def _cell(text: str) -> str:
    return text.removesuffix(".").replace("|", "\\|")


def load(path: Path) -> ModuleType:
    """A module in a test folder, once; test folders are no packages."""
    if path.stem in sys.modules:
        return sys.modules[path.stem]
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    write()
