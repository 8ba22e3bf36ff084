"""Pytest plugin: which test shows which row of docs/requirements.toml, and with what result.

Results of marked tests are kept across runs in `.requirements/results.json`, which git ignores.
`--requirements-table` runs nothing: it prints every row, writes docs/requirements.md, and takes the
newest results into docs/requirements-results.json, so that a fresh clone shows the same table.
"""

import subprocess
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from support import requirement_rows as rows

KEPT = Path(".requirements/results.json")
CHECKED_IN = Path("docs/requirements-results.json")
TABLE = Path("docs/requirements.md")
TEXTS = Path("docs/requirements.toml")
OUTCOMES = "requirement outcomes"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("requirements")
    group.addoption(
        "--requirements-table",
        action="store_true",
        help="run nothing; print what is required with the last results and write the table",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if config.option.requirements_table:
        config.option.markexpr = ""  # every test, whichever set it belongs to
    config.pluginmanager.register(RequirementPlugin(config), "requirement-rows")


def test_name(item: pytest.Item) -> str:
    """A function stands for all its parameters, unless a parameter carries rows of its own."""
    callspec = getattr(item, "callspec", None)
    if callspec is None or any(mark.name == "requirement" for mark in callspec.marks):
        return item.nodeid
    return item.nodeid.removesuffix(f"[{callspec.id}]")


def row_ids(item: pytest.Item) -> Iterator[str]:
    for mark in item.iter_markers("requirement"):
        yield from mark.args


class RequirementPlugin:
    """Collects rows and results of one session."""

    def __init__(self, config: pytest.Config) -> None:
        self._root = config.rootpath
        self._to_controller: dict[str, object] | None = getattr(config, "workeroutput", None)
        self._sections = rows.load_sections(self._root / TEXTS)
        self._shown_by: dict[str, list[str]] = {}
        self._names: dict[str, str] = {}  # node id → name of the marked test
        self._outcomes: dict[str, set[str]] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        known = {row.id for section in self._sections for row in section.rows}
        unknown: set[str] = set()
        for item in items:
            name = test_name(item)
            for identifier in row_ids(item):
                if identifier not in known:
                    unknown.add(f"{identifier} ({item.nodeid})")
                    continue
                self._names[item.nodeid] = name
                tests = self._shown_by.setdefault(identifier, [])
                if name not in tests:
                    tests.append(name)
        if unknown:
            listed = "\n  ".join(sorted(unknown))
            raise pytest.UsageError(f"not in {TEXTS}:\n  {listed}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = self._names.get(report.nodeid)
        if name is None:
            return
        if report.failed:
            self._outcomes.setdefault(name, set()).add("failed")
        elif report.when == "call" and report.passed:
            self._outcomes.setdefault(name, set()).add("passed")

    def pytest_sessionfinish(self) -> None:
        """A skipped test leaves its earlier result: nothing new is known."""
        if self._to_controller is not None:
            outcomes = {name: sorted(each) for name, each in self._outcomes.items()}
            self._to_controller[OUTCOMES] = outcomes
            return
        if not self._outcomes:
            return
        at, commit = datetime.now(UTC).isoformat(timespec="seconds"), commit_id(self._root)
        seen = {
            name: rows.Result("failed" if "failed" in outcomes else "passed", at, commit)
            for name, outcomes in self._outcomes.items()
        }
        path = self._root / KEPT
        rows.save_results(path, rows.newest(rows.load_results(path), seen))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        """A worker of a parallel run has ended: its tests are known to it alone."""
        output = getattr(node, "workeroutput", {})
        for name, outcomes in output.get(OUTCOMES, {}).items():
            self._outcomes.setdefault(name, set()).update(outcomes)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if not session.config.option.requirements_table or session.testsfailed:
            return None  # a file that can't be collected is reported by pytest itself
        results = self._merged_results()
        rows.save_results(self._root / CHECKED_IN, results)
        table = rows.render_table(self._sections, self._shown_by, results)
        (self._root / TABLE).write_text(table)
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.write_line(rows.render_listing(self._sections, self._shown_by, results))
            reporter.write_line(f"\nWritten: {TABLE}, {CHECKED_IN}")
        return True

    def _merged_results(self) -> dict[str, rows.Result]:
        """The newest result of every test that is still there and still marked."""
        every = rows.newest(*map(rows.load_results, self._result_files()))
        names = set(self._names.values())
        return {name: result for name, result in every.items() if name in names}

    def _result_files(self) -> Iterable[Path]:
        return self._root / CHECKED_IN, self._root / KEPT


def commit_id(root: Path) -> str:
    """The commit that was tested, with `+` where the work tree differed from it."""
    try:
        asked = subprocess.run(
            ["git", "describe", "--always", "--dirty=+", "--abbrev=10", "--exclude=*"],
            cwd=root,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return asked.stdout.strip()
