"""Pytest plugin: runs the tests in stages. Prints the start of each stage, its duration and CPU, and the sum.

A stage is a folder of tests/. Stages run in the order below, fast ones first. Folders that need more than Python mark their tests
automatically.

With workers (`pytest -n`), the stages run side by side, as `parallel_stages` hands them out.
"""

import os
import time
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass

import pytest
from _pytest.terminal import TerminalReporter

from support.cpu_time import spent_cpu_s
from support.parallel_stages import (
    FIRST,
    StageScheduling,
    group_of,
    order_of_start,
    stage_of,
)

STAGES = {
    "tidy": "lint, types, import contracts, style",
    "unit": "unit tests",
    "scenarios": "scenarios of the Raft core",
    "fuzz": "decoders and readers against made-up bytes",
    "simulation": "simulation of whole quorums",
    "crash": "crash tests of the log on a real directory",
    "processes": "local processes, real disk and network",
    "pipeline": "the pipeline on a real Spark",
    "linearizability": "histories of local processes under faults, checked by porcupine",
    "interop": "stock Apache Kafka",
    "envtest": "the operator against kube-apiserver and etcd",
    "e2e": "the whole product on kind",
}
MARKED = ("interop", "envtest", "e2e")
COUNTED_EVERY_S = 1.0

# Pytest starts to count after a second; `make` passes the time at which the command was entered.
STARTED_VARIABLE = "STAGES_STARTED_AT"


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(StageOrder(config), "stage-order")
    if hasattr(config, "workerinput"):
        return  # the process that distributes the tests also reports them
    parallel_stages = bool(config.getoption("numprocesses", default=None))
    reporter = ParallelStages(config) if parallel_stages else SequentialStages(config)
    config.pluginmanager.register(reporter, "stages")


@dataclass(slots=True)
class Stage:
    name: str
    tests: int
    begun: float | None = None
    ended: int = 0
    failed: int = 0
    duration_s: float = 0.0
    cpu_s: float = 0.0

    @property
    def verdict(self) -> str:
        return f"{self.failed} failed" if self.failed else "ok"


class StageOrder:
    """Orders the tests and marks them by folder."""

    def __init__(self, config: pytest.Config) -> None:
        self._parallel_stages = hasattr(config, "workerinput")
        self._counted_cpu_s = 0.0
        self._counted_at = 0.0

    def pytest_collection_finish(self) -> None:
        self._counted_cpu_s, self._counted_at = spent_cpu_s(), time.monotonic()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """The last report of a test has the CPU that was spent since it was last counted; workers hand it over with the report.
        To count it beside running servers takes milliseconds, so it is not done for every short test."""
        report = yield
        if report.when == "teardown" and time.monotonic() - self._counted_at >= COUNTED_EVERY_S:
            spent = spent_cpu_s()
            report.cpu_s, self._counted_cpu_s = spent - self._counted_cpu_s, spent  # type: ignore[attr-defined]
            self._counted_at = time.monotonic()
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        order = {name: position for position, name in enumerate(STAGES)}
        if self._parallel_stages:
            order |= {name: position - len(FIRST) for position, name in enumerate(FIRST)}
            ranks = order_of_start(
                (each.nodeid, each.get_closest_marker("slow") is not None) for each in items
            )
            items.sort(key=lambda item: ranks[group_of(item.nodeid)])
        items.sort(key=lambda item: order.get(stage_of(item.nodeid), len(order)))
        for item in items:
            name = stage_of(item.nodeid)
            if name in MARKED:
                item.add_marker(name)


class Stages:
    """The results of every stage, and the table at the end."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._stages: dict[str, Stage] = {}
        self._started = float(os.environ.get(STARTED_VARIABLE) or time.time())

    def _expect(self, node_ids: Iterable[str]) -> None:
        counts = Counter(map(stage_of, node_ids))
        self._stages = {name: Stage(name, count) for name, count in counts.items()}

    def _so_far(self) -> str:
        return f"{time.time() - self._started:.0f} s so far"

    def _say(self, line: str) -> None:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if isinstance(reporter, TerminalReporter) and len(self._stages) > 1:
            reporter.ensure_newline()
            reporter.section(line, sep="-", bold=True)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        stage = self._stages.get(stage_of(report.nodeid))
        if stage is not None:
            stage.failed += report.failed
            stage.cpu_s += getattr(report, "cpu_s", 0.0)

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        if len(self._stages) < 2:
            return
        terminalreporter.section("stages")
        for stage in self._stages.values():
            terminalreporter.write_line(
                f"{stage.name:<15} {stage.tests:>5} tests {stage.duration_s:>8.1f} s"
                f" {stage.cpu_s:>8.1f} s CPU  {stage.verdict}"
            )
        total = time.time() - self._started
        cpu = sum(stage.cpu_s for stage in self._stages.values())
        terminalreporter.write_line(f"{'total':<15} {'':>11} {total:>8.1f} s {cpu:>8.1f} s CPU")


class SequentialStages(Stages):
    """Stages in sequence: the duration of each is the elapsed time."""

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._expect(item.nodeid for item in session.items)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> object:
        stage = self._stages[stage_of(item.nodeid)]
        if stage.begun is None:
            stage.begun = time.monotonic()
            what = STAGES.get(stage.name, stage.name)
            self._say(f"{stage.name}: {what} ({stage.tests} tests, {self._so_far()})")
        try:
            return (yield)
        finally:
            if nextitem is None or stage_of(nextitem.nodeid) != stage.name:
                stage.duration_s = time.monotonic() - stage.begun


class ParallelStages(Stages):
    """Stages in parallel: the duration of each is the sum of its tests."""

    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: object) -> StageScheduling:
        return StageScheduling(config, log)

    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        if not self._stages:
            self._expect(ids)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        super().pytest_runtest_logreport(report)
        stage = self._stages.get(stage_of(report.nodeid))
        if stage is None:
            return
        stage.duration_s += report.duration
        stage.ended += report.when == "teardown"
        if stage.ended == stage.tests and report.when == "teardown":
            what = STAGES.get(stage.name, stage.name)
            self._say(
                f"{stage.name}: {what}: {stage.verdict} ({stage.tests} tests, {self._so_far()})"
            )
