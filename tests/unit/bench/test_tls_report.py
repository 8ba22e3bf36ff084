"""The benchmark's section on mutual TLS: ratios within a round, and which targets count as reached."""

import sys
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).resolve().parents[3] / "bench"
sys.path.insert(0, str(BENCH))

import tls_report  # noqa: E402
from page import section_of  # noqa: E402


def loads(p50_ms: float, per_second: float) -> list[dict[str, Any]]:
    """The same latency and throughput of one and of a hundred clients."""
    figures = {"p50_ms": p50_ms, "p99_ms": 2 * p50_ms, "per_second": per_second}
    return [{"clients": clients, **figures} for clients in (1, 100)]


def a_round(
    system: str, number: int, plain: tuple[float, float], tls: tuple[float, float]
) -> dict[str, Any]:
    entry = {"system": system, "number": number, "failed": ""}
    return {**entry, "plain": loads(*plain), "tls": loads(*tls)}


def document(*rounds: dict[str, Any], held_ms: float = 0.5) -> dict[str, Any]:
    held = {"bytes": 8 << 20, "median_ms": held_ms, "max_ms": 2 * held_ms}
    ports = dict.fromkeys(tls_report.PORTS, held)
    return {
        "rounds": list(rounds),
        "seconds": 1.0,
        "date": "2026-11-27",
        "interpreter": "Python",
        "holds": {"plain": ports, "tls": ports},
    }


def measured(found: dict[str, Any]) -> dict[str, float | None]:
    return {name: value for name, value, _, _ in tls_report.targets(found)}


def test_tls_is_compared_with_clear_text_within_a_round() -> None:
    """A spell in which everything took ten times as long changes no ratio."""
    found = document(
        a_round("metadataquorum", 0, (1.0, 1000.0), (1.04, 950.0)),
        a_round("metadataquorum", 1, (10.0, 100.0), (10.4, 95.0)),
        a_round("metadataquorum", 2, (1.0, 1000.0), (1.2, 500.0)),
    )
    assert tls_report.cost(found, "metadataquorum", 1, "p50_ms") == pytest.approx(1.04)
    assert tls_report.cost(found, "metadataquorum", 100, "per_second") == pytest.approx(0.95)
    assert tls_report.cost(found, "etcd", 1, "p50_ms") is None


def test_ratio_to_etcd_is_compared_with_that_without_tls() -> None:
    ours, theirs = ((1.0, 1000.0), (1.1, 900.0)), ((2.0, 500.0), (2.4, 400.0))
    found = document(
        a_round("metadataquorum", 0, *ours),
        a_round("etcd", 0, *theirs),
        # etcd was lost in this round, which counts for no ratio
        a_round("metadataquorum", 1, (1.0, 1000.0), (9.0, 100.0)),
        {**a_round("etcd", 1, *theirs), "tls": [], "failed": "TimeoutError()"},
    )
    assert tls_report.against_etcd(found, 1, "p50_ms") == pytest.approx(1.1 / 1.2)
    assert tls_report.against_etcd(found, 100, "per_second") == pytest.approx(0.9 / 0.8)
    assert "**Failed:** etcd" in tls_report.section(found)


def test_section_has_a_row_of_each_system_and_judges_the_targets() -> None:
    ours, theirs = ((1.0, 1000.0), (1.04, 950.0)), ((2.0, 500.0), (2.2, 440.0))
    rounds = [a_round("metadataquorum", 0, *ours), a_round("etcd", 0, *theirs)]
    good = tls_report.section(document(*rounds))
    assert section_of(f"# Page\n\n{good}", tls_report.HEADING)
    assert "| MetadataQuorum, TLS : plain | 1.040 |" in good
    assert "missed" not in good
    bad = tls_report.section(document(*rounds, held_ms=1.5))
    assert bad.count("**missed**") == 2
    slow = [a_round("metadataquorum", 0, (1.0, 1000.0), (1.3, 800.0)), rounds[1]]
    assert tls_report.section(document(*slow)).count("**missed**") == 4


def test_what_was_not_measured_is_no_reached_target() -> None:
    found = document(a_round("etcd", 0, (2.0, 500.0), (2.2, 440.0)))
    del found["holds"]
    assert set(measured(found).values()) == {None}
    assert "reached" not in tls_report.section(found)
