"""`make steady`: which earlier runs count, and what ends a series."""

from pathlib import Path

import pytest

from support import steady_runs
from support.steady_runs import Run, busy_core, rows_of, run, write


def result(target: str, *, passed: bool = True) -> str:
    return Run(target, passed, 12.3, "2026-11-28 04:00", "7 passed in 12.3s").row()


def test_runs_of_the_same_tree_are_kept_unless_one_failed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    assert rows_of(page, "abc") == []
    write(page, "abc", [result("test-local"), result("e2e")])
    assert rows_of(page, "abc") == [result("test-local"), result("e2e")]
    assert rows_of(page, "another") == []
    write(page, "abc", [result("test-local"), result("e2e", passed=False)])
    assert rows_of(page, "abc") == []


@pytest.mark.parametrize("command", ["echo '= 3 passed in 1.5s ='", "false"])
def test_run_reports_the_exit_code_and_the_last_summary(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Makefile").write_text(f"some:\n\t@{command}\n")
    monkeypatch.setattr(steady_runs, "_ROOT", tmp_path)
    found = run("some")
    assert found.passed is (command != "false")
    assert ("3 passed" in found.summary) is found.passed


def test_series_ends_with_the_first_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began: list[str] = []

    def made(target: str) -> Run:
        began.append(target)
        return Run(target, len(began) < 2, 1.0, "2026-11-28 04:00", "")

    page = tmp_path / "page.md"
    monkeypatch.setattr(steady_runs, "run", made)
    monkeypatch.setattr("sys.argv", ["steady", "--page", str(page), "--local", "3", "--kind", "1"])
    assert steady_runs.main() == 1
    assert began == ["test-local"] * 2
    assert "1 of 2 passed" in page.read_text()
    assert steady_runs.main() == 1
    assert len(began) == 3, "the series begins again"
    assert "0 of 1 passed" in page.read_text(), "an earlier pass does not count after a failure"


def test_busy_core_ends_with_the_series() -> None:
    with busy_core() as process:
        assert process.poll() is None
    assert process.returncode is not None
