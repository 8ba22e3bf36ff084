"""The state of a log by the executors of a Spark cluster, in a process of its own: `python -m support.state_on_cluster MASTER LOG`.

A process has one Spark context, so each master needs a process. Prints one JSON object (`ClusterRun`). The driver decodes no record,
otherwise it fails.
"""

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from quorum_pipeline.spark.session import end_session, open_session
from quorum_pipeline.spark.spark_history import DirectorySource, JobHistory
from quorum_pipeline.spark.stages import SparkStages
from quorum_pipeline.state.moment import Moment
from support.driver_only import nothing_decoded_here

SPAN_BYTES = 300
_RUN_S = 280.0
_ALL_EXECUTORS_FIRST = {
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "240s",
}


@dataclass(frozen=True, slots=True)
class ClusterRun:
    """`tasks`: how many each executor completed. `records`: how many each task of the log reduced."""

    tasks: dict[str, int]
    records: list[int]
    snapshot_sha256: str


def run_on(master: str, log: Path) -> ClusterRun:
    """Start the process. Raises RuntimeError if it fails, TimeoutExpired."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    done = subprocess.run(
        [sys.executable, "-m", "support.state_on_cluster", master, str(log)],
        capture_output=True,
        text=True,
        timeout=_RUN_S,
        env={**os.environ, "PYTHONPATH": path},
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-4000:])
    return ClusterRun(**json.loads(done.stdout.splitlines()[-1]))


def _run(master: str, log: Path) -> ClusterRun:
    session = open_session("state on a cluster", master, _ALL_EXECUTORS_FIRST)
    context = session.sparkContext
    with (
        JobHistory(
            SparkStages(context), DirectorySource(log, SPAN_BYTES, worth_bytes=0)
        ) as history,
        nothing_decoded_here(),
    ):
        snapshot = b"".join(history.at(Moment()).snapshot())
        records = [each.summary.records for each in history.done]
    found = context._jsc.sc().statusStore().executorList(True)
    executors = [found.apply(number) for number in range(found.size())]
    tasks = {each.id(): each.completedTasks() for each in executors if each.id() != "driver"}
    end_session(session)
    return ClusterRun(tasks, records, hashlib.sha256(snapshot).hexdigest())


if __name__ == "__main__":
    print(json.dumps(asdict(_run(sys.argv[1], Path(sys.argv[2])))))
