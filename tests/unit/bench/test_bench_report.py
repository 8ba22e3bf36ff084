"""The benchmark's report: ratios within a round, failed rounds, and which interpreter ran."""

import sys
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).resolve().parents[3] / "bench"
sys.path.insert(0, str(BENCH))

import interpreter  # noqa: E402
import report  # noqa: E402
from against import AFTER, BEFORE, ratio  # noqa: E402
from interpreter import Interpreter  # noqa: E402
from progress import Progress  # noqa: E402


def a_round(system: str, number: int, p50_ms: float | None, failed: str = "") -> dict[str, Any]:
    load = {"clients": 1, "p50_ms": p50_ms, "p99_ms": p50_ms, "per_second": 1.0}
    return {
        "system": system,
        "number": number,
        "loads": [] if p50_ms is None else [load],
        "faults": {"SIGSTOP": [1000.0 * (number + 1)]},
        "failed": failed,
        "resident_mb": 1.0,
    }


@pytest.mark.requirement("K595-32")
def test_lost_round_of_one_system_is_reported_and_does_not_shift_others() -> None:
    ours = [a_round(report.OURS, number, figure) for number, figure in enumerate((1.0, 5.0, 3.0))]
    theirs = [
        a_round("etcd", 0, None, "TimeoutError('etcd is not whole')"),
        a_round("etcd", 1, 10.0),
        a_round("etcd", 2, 10.0),
    ]
    results = report.Results({"rounds": [*ours, *theirs]})
    assert results.ratio("etcd", 1, "p50_ms") == pytest.approx(0.4)
    assert results.fault_ratio("etcd", "SIGSTOP") == 1.0
    assert results.fault_ratio("zookeeper", "SIGSTOP") is None
    (reported,) = results.failures
    assert reported.startswith("etcd 3.")
    assert "round 1: TimeoutError" in reported


@pytest.mark.parametrize(
    ("configured", "base", "why"),
    [
        (
            "'--enable-optimizations' '--with-lto'",
            "/usr/local",
            "configured with --enable-optimizations and --with-lto",
        ),
        ("'--enable-shared' '--prefix=/root/x'", "/root/x", ""),
        ("'--enable-shared' '--prefix=/usr'", "/usr", "a distribution's build"),
    ],
)
def test_builds_are_distinguished(configured: str, base: str, why: str) -> None:
    assert interpreter.reason(configured, base) == why


def test_another_interpreter_is_used_only_if_equally_optimized_and_faster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = {"slow": 1.0, "fast": 0.8, "slower": 1.1, "other": 0.1}
    monkeypatch.setattr(interpreter, "loop_seconds", seconds.__getitem__)
    calling = Interpreter("slow", "3.11.7", "")
    fast, slower = Interpreter("fast", "3.11.2", "x"), Interpreter("slower", "3.11.9", "x")
    newer, plain = Interpreter("other", "3.13.0", "x"), Interpreter("other", "3.11.1", "")
    chosen = interpreter.choose(calling, [newer, plain, slower, fast])
    assert chosen.path == "fast"
    assert "0.80 ×" in interpreter.sentence(chosen)
    assert interpreter.choose(calling, [newer, plain, slower]) == calling
    assert "without profile" in interpreter.sentence(calling)
    optimised = Interpreter("slow", "3.11.7", "configured with --enable-optimizations")
    assert interpreter.choose(optimised, [fast]) == optimised


def test_before_and_after_are_compared_within_a_round() -> None:
    """A spell in which everything took ten times as long changes no ratio."""

    def figures(value: float) -> dict[str, Any]:
        return {"1": {"cpu_us": value}}

    pairs = [(100, 104), (1000, 1040), (100, 90), (10, 11), (100, 104)]
    rounds = [{BEFORE: figures(before), AFTER: figures(after)} for before, after in pairs]
    assert ratio(rounds, 1, "cpu_us") == pytest.approx(1.04)


def test_remaining_time_is_estimated_from_earlier_parts() -> None:
    progress = Progress({"a": 100.0, "b": 10.0}, rounds=2)
    assert progress.left_seconds() == 220
    with progress.part("a", 0):
        pass
    assert progress.left_seconds() == pytest.approx(20, abs=1)
