"""All jobs on the executors of a Spark cluster, in a process of its own: `python -m support.state_on_cluster MASTER LOG KILL BYTES`.

A process has one Spark context, so each master needs a process. Prints one JSON object (`ClusterRun`). The driver decodes no record,
otherwise it fails. KILL: `reduce` kills the first executor that reduces a span of the log, `merge` kills an executor whose spans are reduced.
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from quorum_pipeline.files.reduced_span import SpanTask
from quorum_pipeline.files.span_tasks import LogTasks
from quorum_pipeline.spark.audit_job import audit_logs, log_replica
from quorum_pipeline.spark.compacted_job import CompactedLog
from quorum_pipeline.spark.session import end_session, open_session
from quorum_pipeline.spark.spark_history import DirectorySource, JobHistory
from quorum_pipeline.spark.stages import SparkStages
from quorum_pipeline.spark.timeline_job import log_source, read_timeline
from quorum_pipeline.state.moment import Moment
from support.driver_only import nothing_decoded_here

SPAN_BYTES = 900
"""Bytes of the log that a task reads, by default."""
_RUN_S = 280.0
_ALL_EXECUTORS_FIRST = {
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "240s",
}


@dataclass(frozen=True, slots=True)
class ClusterRun:
    """`tasks`: how many each executor completed. `records`: by job, how many each task of the log read; `executors`: how many all
    tasks of one executor read.
    """

    tasks: dict[str, int]
    records: dict[str, list[int]]
    executors: dict[str, list[int]]
    snapshot_sha256: str
    differences: int
    events: int
    findings: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KillingTask(SpanTask):
    """A task that kills its executor the first time that one of them runs."""

    marker: str = field()

    def compacted(self) -> Any:
        try:
            os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return SpanTask(self.span, self.start_offset, self.end_offset).compacted()
        os.kill(parent_of(os.getppid()), signal.SIGKILL)
        signal.pause()
        raise AssertionError("its process ends with the executor")


@dataclass(frozen=True, slots=True)
class _Killing:
    """A log whose tasks kill an executor."""

    log: DirectorySource
    marker: str

    def plan(self, moments: Sequence[Moment], slots: int, *, compiled: bool) -> LogTasks | None:
        found = self.log.plan(moments, slots, compiled=compiled)
        assert found is not None, "logs of any size are worth it"
        tasks = tuple(
            KillingTask(each.span, each.start_offset, each.end_offset, marker=self.marker)
            for each in found.tasks
            if isinstance(each, SpanTask)
        )
        return replace(found, tasks=tasks)

    def buckets(self, slots: int) -> int:
        return self.log.buckets(slots)


def parent_of(pid: int) -> int:
    """Process id of the parent."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def executors_of(pid: int) -> list[int]:
    """Process ids of the executors that the JVM of a driver has started, and that run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            is_executor = b"CoarseGrainedExecutorBackend" in path.read_bytes()
            if is_executor and parent_of(int(path.parent.name)) == pid:
                found.append(int(path.parent.name))
        except FileNotFoundError:
            continue
    return sorted(found)


def run_on(master: str, log: Path, kill: str = "", span_bytes: int = SPAN_BYTES) -> ClusterRun:
    """Start the process. Raises RuntimeError if it fails, TimeoutExpired."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    done = subprocess.run(
        [sys.executable, "-m", "support.state_on_cluster", master, str(log), kill, str(span_bytes)],
        capture_output=True,
        text=True,
        timeout=_RUN_S,
        env={**os.environ, "PYTHONPATH": path},
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-4000:])
    return ClusterRun(**json.loads(done.stdout.splitlines()[-1]))


def _run(master: str, log: Path, kill: str, span_bytes: int) -> ClusterRun:
    session = open_session("jobs on a cluster", master, _ALL_EXECUTORS_FIRST)
    context = session.sparkContext
    stages, source = SparkStages(context), DirectorySource(log, span_bytes, worth_bytes=0)
    if kill:
        snapshot, differences = _state_with_a_kill(stages, source, kill, context), 0
        end_session(session)
        return ClusterRun({}, {}, {}, _sha256(snapshot), differences, 0, 0)
    with nothing_decoded_here():
        with JobHistory(stages, source) as history:
            snapshot = b"".join(history.at(Moment()).snapshot())
            state = [(each.executor, each.summary.records) for each in history.done]
        end = sum(records for _, records in state)
        with JobHistory(stages, source) as history:
            differences = sum(1 for _ in history.differences(end // 2, end))
            diff = [(each.executor, each.summary.records) for each in history.done]
        timeline = read_timeline(stages, log_source(log, stages.slots, span_bytes))
        audited = audit_logs(stages, [log_replica(log, stages.slots, span_bytes)])
    found = context._jsc.sc().statusStore().executorList(True)
    executors = [found.apply(number) for number in range(found.size())]
    tasks = {each.id(): each.completedTasks() for each in executors if each.id() != "driver"}
    jobs = {
        "state": state,
        "diff": diff,
        "timeline": [(each.executor, each.records) for each in timeline.reads],
        "audit": [(each.executor, each.found.batches) for each in audited.reads],
    }
    end_session(session)
    return ClusterRun(
        tasks,
        {name: [count for _, count in each] for name, each in jobs.items()},
        {name: _of_executors(each) for name, each in jobs.items()},
        _sha256(snapshot),
        differences,
        len(timeline.events),
        len(audited.findings),
    )


def _state_with_a_kill(
    stages: SparkStages, source: DirectorySource, kill: str, context: Any
) -> bytes:
    """The snapshot of the state at the end, although an executor is killed."""
    marker = source.path / "killed"
    if kill == "reduce":
        with JobHistory(stages, _Killing(source, str(marker))) as history:
            snapshot = b"".join(history.at(Moment()).snapshot())
            assert not history.one_by_one
        assert marker.exists(), "no executor was killed"
        return snapshot
    plan = source.plan((Moment(),), stages.slots, compiled=True)
    assert plan is not None
    with CompactedLog(stages, plan, source.buckets(stages.slots)) as reduced:
        victim, *_ = executors_of(context._gateway.proc.pid)
        os.kill(victim, signal.SIGKILL)
        return b"".join(reduced.state().snapshot())


def _of_executors(reads: Iterable[tuple[str, int]]) -> list[int]:
    found = Counter[str]()
    for executor, count in reads:
        found[executor] += count
    return sorted(found.values())


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


if __name__ == "__main__":
    print(json.dumps(asdict(_run(sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])))))
