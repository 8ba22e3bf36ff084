"""Memory of jobs on Spark does not grow with the length of the log, nor the driver's with the number of tasks beyond its heap."""

from pathlib import Path

import pytest

from support.long_log import write_long_log
from support.memory_on_spark import memory_of

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

RECORDS = 1_000_000
MOST_GROWTH = 1.25
TASKS = 20_000


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A log, and one of four times its length, of clusters of the same size."""
    root = tmp_path_factory.mktemp("logs")
    write_long_log(root / "short", RECORDS)
    write_long_log(root / "long", 4 * RECORDS)
    return root / "short", root / "long"


@pytest.mark.parametrize("job", ["state", "timeline", "audit", "archive"])
def test_workers_need_no_more_memory_for_a_log_four_times_as_long(
    job: str, logs: tuple[Path, Path]
) -> None:
    short, long = (memory_of(job, each) for each in logs)
    assert long.records > 3.9 * short.records
    print(f"{job}: {short.worker_kib >> 10} and {long.worker_kib >> 10} MiB in the largest worker")
    assert long.worker_kib <= MOST_GROWTH * short.worker_kib, f"{short}, {long}"


def test_driver_with_a_heap_of_one_gigabyte_plans_and_merges_twenty_thousand_tasks(
    tmp_path: Path,
) -> None:
    end = write_long_log(tmp_path / "log", 5 * TASKS, batch_records=5)
    found = memory_of("state", tmp_path / "log", span_bytes=1)
    print(f"{found.tasks:,} tasks, {found.driver_kib >> 10} MiB in the Python driver")
    assert found.records == end
    assert found.tasks >= TASKS
    assert found.heap_bytes <= 1 << 30
