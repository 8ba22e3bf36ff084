"""Peak memory of a job on Spark, in a process of its own: `python -m support.memory_on_spark JOB LOG [SPAN_BYTES]`.

Prints one JSON object (`Memory`). The kernel counts the peak of each Python worker; it is asked in the workers that ran the job.
"""

import json
import os
import resource
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from quorum_pipeline.files.log_directory import open_log
from quorum_pipeline.spark.archive import Archive
from quorum_pipeline.spark.archive_job import ArchiveJob
from quorum_pipeline.spark.audit_job import audit_logs, log_replica
from quorum_pipeline.spark.session import end_session, open_session
from quorum_pipeline.spark.spark_history import DirectorySource, JobHistory
from quorum_pipeline.spark.stages import SparkStages
from quorum_pipeline.spark.timeline_job import log_source, read_timeline
from quorum_pipeline.state.moment import Moment

_RUN_SECONDS = 3_000.0
_HEAP = "1g"
_QUESTIONS = 16
"""Tasks that ask for the peak: more than there are workers, each of which gets some."""


@dataclass(frozen=True, slots=True)
class Memory:
    """`records`, or batches for an audit, and `tasks` that the job read; `worker_kib`: peak of the largest Python worker; `heap_bytes`:
    limit of the driver's JVM; `driver_kib`: peak of the Python driver.
    """

    records: int
    tasks: int
    worker_kib: int
    heap_bytes: int
    driver_kib: int


def memory_of(job: str, log: Path, span_bytes: int | None = None) -> Memory:
    """Start the process. Raises RuntimeError if it fails, TimeoutExpired."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    more = [] if span_bytes is None else [str(span_bytes)]
    done = subprocess.run(
        [sys.executable, "-m", "support.memory_on_spark", job, str(log), *more],
        capture_output=True,
        text=True,
        timeout=_RUN_SECONDS,
        env={**os.environ, "PYTHONPATH": path},
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-4000:])
    return Memory(**json.loads(done.stdout.splitlines()[-1]))


def _run(job: str, log: Path, span_bytes: int | None) -> Memory:
    session = open_session("memory", "local[2]", {"spark.driver.memory": _HEAP}, rows_in_jvm=False)
    context = session.sparkContext
    reads = _archived(session, log) if job == "archive" else _reads(job, context, log, span_bytes)
    asked = context.parallelize(range(_QUESTIONS), _QUESTIONS)
    worker_kib = max(asked.map(_peak_kib).collect())
    jvm: Any = context._jvm
    heap_bytes = jvm.java.lang.Runtime.getRuntime().maxMemory()
    end_session(session)
    return Memory(sum(reads), len(reads), worker_kib, heap_bytes, _peak_kib(0))


def _reads(job: str, context: SparkContext, log: Path, span_bytes: int | None) -> list[int]:
    """Run a job; return how many records each task read."""
    stages = SparkStages(context)
    if job == "state":
        with JobHistory(stages, DirectorySource(log, span_bytes, worth_bytes=0)) as history:
            history.at(Moment())
            assert not history.one_by_one
            return [each.summary.records for each in history.done]
    if job == "timeline":
        found = read_timeline(stages, log_source(log, stages.slots, span_bytes))
        return [each.records for each in found.reads]
    audited = audit_logs(stages, [log_replica(log, stages.slots, span_bytes)])
    assert not audited.findings
    return [each.found.batches for each in audited.reads]


def _archived(session: SparkSession, log: Path) -> list[int]:
    with TemporaryDirectory(prefix="memory-") as scratch:
        archive = Archive(session, f"{scratch}/archive")
        ArchiveJob(archive, open_log(log), 1 << 40, None).run(lambda end: None, lambda text: None)
        return [archive.marker(each).rows for each in archive.contents().ranges]


def _peak_kib(number: int) -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    size = int(sys.argv[3]) if len(sys.argv) > 3 else None
    print(json.dumps(asdict(_run(sys.argv[1], Path(sys.argv[2]), size))))
