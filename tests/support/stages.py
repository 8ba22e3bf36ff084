"""Pytest plugin: one run in stages. Says what begins, how long each stage took, and the sum.

A stage is a folder of tests/. Stages run in the order below, cheap ones first. Folders that need
more than Python mark their tests, so that nobody can forget to.
"""

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from _pytest.terminal import TerminalReporter

STAGES = {
    "tidy": "lint, types, import contracts, style",
    "unit": "unit tests",
    "scenarios": "scenarios of the Raft core",
    "simulation": "simulation of whole quorums",
    "crash": "crash tests of the log on a real directory",
    "cluster": "local processes, real disk and network",
    "interop": "stock Apache Kafka",
    "harness": "the operator against kube-apiserver and etcd",
    "e2e": "the whole product on kind",
}
MARKED = ("interop", "harness", "e2e")

# A second goes by before pytest counts; `make` hands over when the command was typed.
STARTED_VARIABLE = "STAGES_STARTED_AT"


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(StagePlugin(config), "stages")


@dataclass(slots=True)
class Stage:
    name: str
    tests: int
    begun: float = field(default_factory=time.monotonic)
    failed: int = 0
    duration_s: float = 0.0


class StagePlugin:
    """Orders the tests, marks them by folder, and times the folders."""

    def __init__(self, config: pytest.Config) -> None:
        self._tests = config.rootpath / "tests"
        self._config = config
        self._counts: dict[str, int] = {}
        self._done: list[Stage] = []
        self._stage: Stage | None = None
        self._started = float(os.environ.get(STARTED_VARIABLE) or time.time())

    def _stage_name(self, path: Path) -> str:
        inside = path.relative_to(self._tests) if path.is_relative_to(self._tests) else path
        return inside.parts[0] if len(inside.parts) > 1 else "tests"

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        order = {name: position for position, name in enumerate(STAGES)}
        items.sort(key=lambda item: order.get(self._stage_name(item.path), len(order)))
        for item in items:
            name = self._stage_name(item.path)
            if name in MARKED:
                item.add_marker(name)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            name = self._stage_name(item.path)
            self._counts[name] = self._counts.get(name, 0) + 1

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> object:
        name = self._stage_name(item.path)
        if self._stage is None or self._stage.name != name:
            self._begin(name)
        try:
            return (yield)
        finally:
            if nextitem is None or self._stage_name(nextitem.path) != name:
                self._end()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and self._stage is not None:
            self._stage.failed += 1

    def _begin(self, name: str) -> None:
        self._stage = Stage(name, self._counts.get(name, 0))
        reporter = self._reporter()
        if reporter is not None and len(self._counts) > 1:
            so_far = f"{time.time() - self._started:.0f} s so far"
            headline = f"{name}: {STAGES.get(name, name)} ({self._stage.tests} tests, {so_far})"
            reporter.ensure_newline()
            reporter.section(headline, sep="-", bold=True)

    def _end(self) -> None:
        stage, self._stage = self._stage, None
        if stage is not None:
            stage.duration_s = time.monotonic() - stage.begun
            self._done.append(stage)

    def _reporter(self) -> TerminalReporter | None:
        return self._config.pluginmanager.get_plugin("terminalreporter")

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        if len(self._done) < 2:
            return
        terminalreporter.section("stages")
        for stage in self._done:
            verdict = f"{stage.failed} failed" if stage.failed else "ok"
            terminalreporter.write_line(
                f"{stage.name:<12} {stage.tests:>5} tests {stage.duration_s:>8.1f} s  {verdict}"
            )
        total = time.time() - self._started
        terminalreporter.write_line(f"{'total':<12} {'':>11} {total:>8.1f} s")
