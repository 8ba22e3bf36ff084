"""Jobs on the executors of a Spark cluster whose executors are processes of their own, and what happens when one is killed."""

import hashlib
from pathlib import Path

import pytest

from quorum_pipeline.state.difference import differences
from quorum_pipeline.state.moment import Moment
from support.audited import audit
from support.long_log import write_long_log
from support.replayed_directory import replay_directory
from support.state_on_cluster import SPAN_BYTES, run_on
from support.timelines import read_timeline
from support.written_log import LogWriter, broker, write_history

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture
def writer(tmp_path: Path) -> LogWriter:
    made = LogWriter(tmp_path, segment_bytes=2_000)
    write_history(made)
    for number in range(10, 110):
        made.append(broker(number))
    made.close()
    return made


@pytest.mark.requirement("SP-03", "SP-04", "SP-05")
def test_each_executor_gets_a_share_of_the_records_and_the_results_are_the_same(
    writer: LogWriter,
) -> None:
    """Scaling is shown by counts, which no other work on the machine changes: records of a task, of an executor."""
    end = writer.end_offset
    expected = hashlib.sha256(writer.image_bytes()).hexdigest()
    before, after = (replay_directory(writer.directory, Moment(offset=n)) for n in (end // 2, end))
    changed = len(list(differences(before, after)))
    events = len(read_timeline(writer.directory).events)
    batches = audit([writer.directory], span_bytes=SPAN_BYTES).batches
    assert changed
    assert events
    for executors in (1, 2, 4):
        run = run_on(f"local-cluster[{executors},1,1024]", writer.directory)
        assert (run.snapshot_sha256, run.differences) == (expected, changed)
        assert (run.events, run.findings) == (events, 0)
        assert len(run.tasks) == executors
        assert all(run.tasks.values()), f"{executors} executors completed {run.tasks} tasks"
        for job, records in run.records.items():
            total = batches if job == "audit" else end
            assert sum(records) == total, job
            assert len(records) > executors, job
            assert max(records) <= total // 3, f"a task of {job} has a large part of the log"
            shares = run.executors[job]
            assert len(shares) == executors, f"{job} ran on {shares}"
            assert max(shares) <= 2.5 * total / executors, f"{job}: {shares}"


@pytest.mark.requirement("SP-03")
@pytest.mark.parametrize("kill", ["reduce", "merge"])
def test_killed_executor_changes_no_result(writer: LogWriter, kill: str) -> None:
    """While it reduces a span, and when the reduced spans that it holds are to be merged: others do its work again."""
    run = run_on("local-cluster[2,1,1024]", writer.directory, kill)
    assert run.snapshot_sha256 == hashlib.sha256(writer.image_bytes()).hexdigest()


LONG_RECORDS, TASKS_OF_A_SLOT = 640_000, 4


@pytest.mark.parametrize("executors", [1, 2, 4])
def test_tasks_and_executors_read_equal_parts_of_a_long_log(executors: int, tmp_path: Path) -> None:
    """Four tasks a slot, all executors registered first. No batch is decoded by the driver."""
    end = write_long_log(tmp_path / "log", LONG_RECORDS)
    size_bytes = sum(each.stat().st_size for each in (tmp_path / "log").iterdir())
    span_bytes = -(-size_bytes // (executors * TASKS_OF_A_SLOT))
    run = run_on(f"local-cluster[{executors},1,1024]", tmp_path / "log", span_bytes=span_bytes)
    batches = audit([tmp_path / "log"]).batches
    print(run.records, run.executors)
    for job, records in run.records.items():
        total = batches if job == "audit" else end
        shares = run.executors[job]
        assert sum(records) == sum(shares) == total, job
        assert max(records) <= 1.1 * total / (executors * TASKS_OF_A_SLOT), f"{job}: {records}"
        assert max(shares) <= 1.5 * total / executors, f"{job}: {shares}"
