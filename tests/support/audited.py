"""Runs an audit like the command, with stages of the caller: in this process, or in Spark."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from quorum_pipeline.audit.findings import Finding
from quorum_pipeline.audit.log_matching import Matching
from quorum_pipeline.files.archive_reader import ArchiveReader
from quorum_pipeline.files.local_files import LocalFiles
from quorum_pipeline.spark.audit_job import LogAudit, archive_replica, audit_logs, log_replica
from quorum_pipeline.spark.audit_snapshots import audit_snapshots
from quorum_pipeline.spark.stages import Stages, StagesHere


@dataclass(frozen=True, slots=True)
class Audit:
    """The outcome."""

    logs: LogAudit
    snapshots: int
    replayed: int
    findings: tuple[Finding, ...]

    @property
    def matching(self) -> Matching:
        return self.logs.matching

    @property
    def batches(self) -> int:
        return self.logs.batches


def audit(
    paths: list[Path],
    archives: tuple[Path | ArchiveReader, ...] = (),
    span_bytes: int | None = None,
    stages: Stages | None = None,
) -> Audit:
    stages = stages or StagesHere(2)
    replicas = [log_replica(path, stages.slots, span_bytes) for path in paths]
    for each in archives:
        reader = each if isinstance(each, ArchiveReader) else ArchiveReader(LocalFiles(), str(each))
        replicas.append(archive_replica(reader.uri, reader))
    logs = audit_logs(stages, replicas)
    with TemporaryDirectory() as scratch:
        found = audit_snapshots(stages, replicas, logs, Path(scratch))
    return Audit(logs, found.snapshots, found.replayed, (*logs.findings, *found.findings))
