"""Pytest plugin: keeps the result of every test that runs, and makes the table of requirements.

Results are kept across runs in `.requirements/results.json`, which git ignores, each with a hash of its test's inputs.
`--requirements-table` runs no tests: it prints every row of docs/requirements.toml with its clauses, writes
docs/evidence/requirements.md, and stores the newest results of the tests that clauses name in docs/evidence/requirements-results.json, so
that a fresh clone shows the same table.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from support import requirement_results as results
from support import requirement_rows as rows
from support.requirement_inputs import Inputs
from support.requirement_page import render_listing, render_page

KEPT = Path(".requirements/results.json")
CHECKED_IN = Path("docs/evidence/requirements-results.json")
TABLE = Path("docs/evidence/requirements.md")
TEXTS = Path("docs/requirements.toml")
DISAGREEMENTS = "requirement disagreements"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("requirements")
    group.addoption(
        "--requirements-table",
        action="store_true",
        help="run nothing; print what is required with the last results and write the table",
    )
    group.addoption(
        "--requirements-results",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="with --requirements-table: take in results that another checkout kept, too",
    )
    group.addoption(
        "--requirements-strict",
        action="store_true",
        help="with --requirements-table: fail when a clause is stale or open",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if config.option.requirements_table:
        config.option.markexpr = ""  # every test, whichever set it belongs to
    config.pluginmanager.register(RequirementPlugin(config), "requirement-rows")


def row_ids(item: pytest.Item) -> Iterator[str]:
    for mark in item.iter_markers("requirement"):
        yield from mark.args


class RequirementPlugin:
    """Results and names of one session. A worker of a parallel run reports to the main process."""

    def __init__(self, config: pytest.Config) -> None:
        self._root = config.rootpath
        self._to_controller: dict[str, object] | None = getattr(config, "workeroutput", None)
        self._begun_ns = time.time_ns()
        self._wrong: set[str] = set()  # disagreeing marks, reported by workers
        self._outcomes: dict[str, str] = {}  # node id → outcome
        self._nodes: dict[str, list[str]] = {}  # named test → node ids of its parameters
        self._sections: tuple[rows.Section, ...] = ()
        self._listing = ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        self._sections = rows.load_sections(self._root / TEXTS)
        named = rows.rows_by_test(self._sections)
        wrong: list[str] = []
        for item in items:
            names = {item.nodeid, rows.without_parameter(item.nodeid)} & named.keys()
            for name in names:
                self._nodes.setdefault(name, []).append(item.nodeid)
            wrong += _disagreements(item, {row for name in names for row in named[name]})
        if self._to_controller is not None:
            self._to_controller[DISAGREEMENTS] = sorted(wrong)
        elif wrong:
            raise pytest.UsageError(_told(wrong))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        """Only workers know the marks. An error in their collection would not be readable."""
        self._wrong.update(getattr(node, "workeroutput", {}).get(DISAGREEMENTS, ()))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A skipped test keeps its earlier result."""
        if report.failed:
            self._outcomes[report.nodeid] = results.FAILED
        elif report.when == "call" and report.passed:
            self._outcomes.setdefault(report.nodeid, results.PASSED)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._to_controller is not None:
            return
        if self._wrong:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
            _write(session.config, _told(self._wrong))
        if self._outcomes:
            self._keep(session)

    def _keep(self, session: pytest.Session) -> None:
        inputs = Inputs(self._root)
        at = datetime.now(UTC).isoformat(timespec="seconds")
        seen: dict[str, results.Result] = {}
        changed: set[str] = set()
        for node, outcome in self._outcomes.items():
            file = node.partition("::")[0]
            digest = inputs.of(file)
            if digest.changed_ns > self._begun_ns:
                changed.add(file)
            else:
                seen[node] = results.Result(outcome, at, digest.inputs)
        results.add_results(self._root / KEPT, seen)
        if changed:
            listed = ", ".join(sorted(changed))
            _write(
                session.config, f"No result is kept of what changed while it was tested: {listed}"
            )

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if not session.config.option.requirements_table or session.testsfailed:
            return None  # a file that can't be collected is reported by pytest itself
        missing = sorted(rows.rows_by_test(self._sections).keys() - self._nodes.keys())
        if missing:
            listed = "\n  ".join(missing)
            raise pytest.UsageError(f"{TEXTS} names tests that do not exist:\n  {listed}")
        standings = self._standings(session.config.option.requirements_results)
        kept = {test: each.result for test, each in standings.items() if each.result is not None}
        results.save_results(self._root / CHECKED_IN, kept)
        (self._root / TABLE).parent.mkdir(parents=True, exist_ok=True)
        (self._root / TABLE).write_text(render_page(self._sections, standings))
        self._listing = render_listing(self._sections, standings)
        counts = results.counts(rows.rows_of(self._sections), standings)
        if session.config.option.requirements_strict and (counts.stale or counts.open):
            raise session.Failed("a clause is stale or open")
        return True

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """After the output of pytest: the counts are the last line."""
        if self._listing:
            _write(config, self._listing)

    def _standings(self, elsewhere: Sequence[Path]) -> dict[str, results.ResultState]:
        """Of every named test, from what was kept here and elsewhere, and what is checked in."""
        kept = [results.load_history(path) for path in (self._root / KEPT, *elsewhere)]
        checked_in = results.load_results(self._root / CHECKED_IN)
        inputs = Inputs(self._root)
        standings: dict[str, results.ResultState] = {}
        for test, nodes in self._nodes.items():
            present = inputs.of(test.partition("::")[0]).inputs
            result = checked_in.get(test)
            for each in kept:
                found = results.of_all_parameters(nodes, each, present)
                result = results.better(result, found, present)
            standings[test] = results.ResultState(
                result, result is not None and result.inputs == present
            )
        return standings


def _disagreements(item: pytest.Item, named_by: set[str]) -> Iterator[str]:
    """A test carries the marks of exactly those rows whose clauses name it."""
    marked = set(row_ids(item))
    for row in named_by - marked:
        yield f"{item.nodeid} is named by a clause of {row} and lacks its mark"
    for row in marked - named_by:
        yield f"{item.nodeid} has the mark of {row} and is named by no clause of it"


def _told(disagreements: Iterable[str]) -> str:
    listed = "\n  ".join(sorted(set(disagreements)))
    return f"the marks of tests and {TEXTS} disagree:\n  {listed}"


def _write(config: pytest.Config, text: str) -> None:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reporter.write_line(text)
