"""States by the executors of a Spark cluster whose executors are processes of their own."""

import hashlib
from pathlib import Path

import pytest

from support.state_on_cluster import run_on
from support.written_log import LogWriter, broker, write_history


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.requirement("SP-03")
def test_each_executor_gets_a_share_of_the_records_and_the_state_is_the_same(
    tmp_path: Path,
) -> None:
    """Scaling is shown by counts, which no other work on the machine changes: records of a task, tasks of an executor."""
    writer = LogWriter(tmp_path, segment_bytes=2_000)
    write_history(writer)
    for number in range(10, 110):
        writer.append(broker(number))
    expected = hashlib.sha256(writer.image_bytes()).hexdigest()
    writer.close()
    for executors in (1, 2, 4):
        run = run_on(f"local-cluster[{executors},1,1024]", writer.directory)
        assert run.snapshot_sha256 == expected
        assert len(run.tasks) == executors
        assert all(run.tasks.values()), f"{executors} executors completed {run.tasks} tasks"
        assert sum(run.records) == writer.end_offset
        assert len(run.records) > executors
        assert max(run.records) <= writer.end_offset // 3, "a task has a large part of the log"
