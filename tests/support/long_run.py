"""Pytest plugin: writes the dated result of the long set as a page of documentation.

A test adds a figure to its line with `record_property("p95 seconds", 21.4)`.
"""

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("requirements")
    group.addoption("--long-run-report", type=Path, help="write a dated page of results there")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.long_run_report is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(LongRunPlugin(config), "long-run")


class LongRunPlugin:
    """One line per test: outcome, duration, the figures that it recorded, time and commit.

    A partial run replaces the lines of its tests: the page always shows the last run of each test.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._page = config.rootpath / config.option.long_run_report
        self._ran = f"{datetime.now(UTC):%Y-%m-%d %H:%M} {commit_id(config.rootpath)}"
        self._lines: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.passed:
            return
        figures = ", ".join(f"{name} {value}" for name, value in report.user_properties)
        test = f"`{report.nodeid}`"
        if report.when == "teardown" and test in self._lines:
            test += " (teardown)"
        cells = (test, report.outcome, f"{report.duration:.1f}", self._ran, figures)
        self._lines[test] = f"| {' | '.join(cells)} |"

    def pytest_sessionfinish(self) -> None:
        if not self._lines:
            return
        lines = {**lines_of(self._page), **self._lines}
        passed = sum("| passed |" in line for line in lines.values())
        head = [
            "# Results of the long set",
            "",
            "Written by `make test-long`; a partial run updates the rows of its tests. Terms are in the [glossary](../reference/glossary.md).",
            "",
            f"- {machine()}",
            f"- {passed} of {len(lines)} passed",
            "",
            "| test | result | seconds | ran (UTC), commit | figures |",
            "|---|---|---|---|---|",
        ]
        ordered = [lines[test] for test in sorted(lines)]
        self._page.write_text("\n".join([*head, *ordered]) + "\n")


def lines_of(page: Path) -> dict[str, str]:
    """The lines of an earlier run by test."""
    if not page.exists():
        return {}
    lines = [line for line in page.read_text().splitlines() if line.startswith("| `")]
    return {line.split(" | ", 1)[0].removeprefix("| "): line for line in lines}


def machine() -> str:
    """Cores, memory and interpreter, for the comparison of figures."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}"
    )


def commit_id(root: Path) -> str:
    """The commit that was tested, with `+` if the work tree differed from it."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty=+", "--abbrev=10", "--exclude=*"],
            cwd=root,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip()
