"""The benchmark's section on the pipeline: every job that ran on Spark is in the table, and has its target."""

import sys
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).resolve().parents[3] / "bench"
sys.path.insert(0, str(BENCH))

import pipeline_report  # noqa: E402

FEW, MANY = 2_000_000, 10_000_000


def figures(records: int, seconds: float) -> dict[str, Any]:
    return {
        "records": records,
        "seconds": seconds,
        "per_second": records / seconds,
        "cpu_seconds": seconds,
        "cpu_us_each": 1e6 * seconds / records,
        "peak_mb": {"command": 100.0},
    }


@pytest.mark.parametrize(("small_seconds", "reached"), [(5.0, True), (7.0, False)])
def test_jobs_are_rows_of_the_table_and_have_targets(small_seconds: float, reached: bool) -> None:
    jobs = {
        f"{name} {records}": figures(records, small_seconds if records == FEW else 10.0)
        for records in (FEW, MANY)
        for name in pipeline_report.JOBS
    }
    found = {
        "date": "2026-11-30",
        "failed": {},
        "readers": {pipeline_report.DUMP: figures(MANY, 40.0)},
        "jobs": jobs,
    }
    lines = pipeline_report.section(found).splitlines()
    for name in pipeline_report.JOBS:
        rows = [each for each in lines if each.startswith(f"| `{name}`, local[2], ")]
        assert len(rows) == 2
        assert any("10 000 000 records" in each for each in rows)
        (target,) = (each for each in lines if each.startswith(f"| {name} through Spark: "))
        assert target.split("|")[2:4] == [" 4.00 ", " reached "]
    (small,) = (each for each in lines if each.startswith("| state of 2 M records through Spark"))
    assert small.endswith("| reached |") is reached
