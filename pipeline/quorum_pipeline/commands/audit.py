"""`quorum-pipeline audit`: checks whether replicas have the same history, and reports which one differs, and where."""

import argparse
import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from quorum_pipeline.commands.histories import (
    SCRATCH,
    add_spark,
    mounted,
    opened_stages,
    reader_of,
)
from quorum_pipeline.commands.progress import Progress
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.local_files import size_of
from quorum_pipeline.files.merge_retries import retry_on_merge
from quorum_pipeline.redaction import redacted
from quorum_pipeline.spark.audit_job import (
    LogAudit,
    Replica,
    archive_replica,
    audit_logs,
    log_replica,
)
from quorum_pipeline.spark.audit_snapshots import SnapshotAudit, audit_snapshots


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """See `--help`."""
    parser.add_argument("log", type=Path, nargs="*", help="directories of the replicas' logs")
    parser.add_argument(
        "--archive",
        metavar="URI",
        action="append",
        default=[],
        help="an archive, as an additional replica",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object for each finding")
    add_spark(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return 1 if there are findings. Raises PipelineError."""
    if not arguments.log and not arguments.archive:
        raise PipelineError("specify directories of logs, or --archive")
    progress = Progress("auditing", "bytes")
    roots = [mounted(each) for each in arguments.archive]
    size_bytes = sum(size_of(each) for each in (*arguments.log, *roots) if each is not None)
    with (
        opened_stages(arguments, progress, size_bytes, elsewhere=None in roots) as stages,
        TemporaryDirectory(prefix=SCRATCH) as scratch,
    ):
        readers = [reader_of(each, stages) for each in arguments.archive]

        def audited() -> tuple[list[Replica], LogAudit, SnapshotAudit]:
            replicas = [log_replica(each, stages.slots) for each in arguments.log]
            replicas += map(archive_replica, arguments.archive, readers)
            _check_different(replicas)
            progress.report(f"reading {len(replicas)} logs {stages.place}")
            logs = audit_logs(stages, replicas)
            progress.report("reading their snapshots")
            return replicas, logs, audit_snapshots(stages, replicas, logs, Path(scratch))

        replicas, logs, snapshots = retry_on_merge(readers, audited)
        place = stages.place
    findings = (*logs.findings, *snapshots.findings)
    for found in findings:
        print(redacted(json.dumps(asdict(found)) if arguments.json else f"FOUND {found}"))
    if not arguments.json:
        _print_result(replicas, logs, snapshots)
        print(f"  {how(logs, place)}; {progress.seconds:.1f} s")
        print("no problems found" if not findings else f"{len(findings)} findings")
    return 1 if findings else 0


def _check_different(replicas: list[Replica]) -> None:
    """Raise PipelineError if a replica was given twice: it would be a majority with itself."""
    places = dict[str, str]()
    for each in replicas:
        path = each.log.path if each.log is not None else each.reader and each.reader.mounted
        place = str(path.resolve()) if path else each.name
        if place in places:
            raise PipelineError(
                f"{places[place]} and {each.name} are the same directory: specify each replica once"
            )
        places[place] = each.name


def _print_result(replicas: list[Replica], logs: LogAudit, snapshots: SnapshotAudit) -> None:
    for tail in logs.matching.tails:
        print(f"note: {redacted(tail)}; it was not committed there")
    size_bytes = sum(each.size_bytes for each in replicas)
    print(
        f"{len(replicas)} logs, {size_bytes:,} bytes, {logs.batches:,} batches, {logs.matching.compared:,} of them"
        f" compared; agreed on by a majority up to offset {logs.matching.committed_end};"
        f" {snapshots.snapshots} snapshots, {snapshots.replayed} of them compared with the log"
    )


def how(logs: LogAudit, place: str) -> str:
    """Describe the distribution of the work. `place`: where the job ran."""
    batches = [each.found.batches for each in logs.reads]
    executors = Counter[str]()
    for each in logs.reads:
        executors[each.executor] += each.found.batches
    return (
        f"{place}: {logs.blocks:,} blocks, {logs.drilled:,} of them compared batch by batch; {len(batches):,} tasks,"
        f" {max(batches, default=0):,} batches at most in one and {max(executors.values(), default=0):,} on one of"
        f" {len(executors):,} executors"
    )
