"""Pytest plugin: writes the dated result of the long set as a page of documentation.

A test adds a figure to its line with `record_property("p95 seconds", 21.4)`.
"""

import os
import platform
from datetime import UTC, datetime
from pathlib import Path

import pytest

from support.requirement_plugin import commit_id
from support.stages import without_group


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("requirements")
    group.addoption("--long-run-report", type=Path, help="write a dated page of results there")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.long_run_report is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(LongRunPlugin(config), "long-run")


class LongRunPlugin:
    """One line per test with its outcome, its duration and the figures it recorded."""

    def __init__(self, config: pytest.Config) -> None:
        self._root = config.rootpath
        self._page = config.rootpath / config.option.long_run_report
        self._lines: list[str] = []
        self._failed = 0
        self._begun = datetime.now(UTC)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.passed:
            return
        self._failed += report.failed
        figures = ", ".join(f"{name} {value}" for name, value in report.user_properties)
        test = f"`{without_group(report.nodeid)}`"
        cells = (test, report.outcome, f"{report.duration:.1f}", figures)
        self._lines.append(f"| {' | '.join(cells)} |")

    def pytest_sessionfinish(self) -> None:
        if not self._lines:
            return
        took = datetime.now(UTC) - self._begun
        head = [
            "# The long set, as it ran last",
            "",
            "Written by `make test-long`.",
            "",
            f"- {self._begun:%Y-%m-%d %H:%M} UTC, commit {commit_id(self._root)}",
            f"- {machine()}",
            f"- {len(self._lines)} results, {self._failed} failed, {took.total_seconds():.0f} s",
            "",
            "| test | result | seconds | figures |",
            "|---|---|---|---|",
        ]
        self._page.write_text("\n".join([*head, *sorted(self._lines)]) + "\n")


def machine() -> str:
    """Cores, memory and interpreter: what a reader needs to compare figures."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}"
    )
