"""Audits the snapshots of replicas: each is complete, and snapshots of the same offset agree with each other and the log.

The reference is the longest log without findings that reaches a snapshot; Snapshot(K, N) == Snapshot(J, N) (K595-30). States are compared by
a digest of their records in normalized order (`audit/normalized_order.py`), computed on executors bucket by bucket.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quorum_pipeline.audit.findings import Finding
from quorum_pipeline.audit.normalized_order import with_sorted_lists
from quorum_pipeline.deltas.contradiction import Contradiction
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.archive_tasks import ArchiveSource, snapshot_task
from quorum_pipeline.files.reduced_span import BEFORE_THE_LOG, SnapshotTask
from quorum_pipeline.files.snapshot_file import SnapshotFile, first_snapshot
from quorum_pipeline.spark.spark_history import WORTH_BYTES, DirectorySource, JobHistory, Source
from quorum_pipeline.state.moment import Moment

if TYPE_CHECKING:
    from quorum_pipeline.spark.audit_job import LogAudit, Replica
    from quorum_pipeline.spark.stages import Stages
    from quorum_pipeline.spark.state_job import SparkState


@dataclass(frozen=True, slots=True)
class SnapshotAudit:
    """`snapshots`: number of complete ones; `replayed`: how many of them were compared with a log."""

    snapshots: int
    replayed: int
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class _Snapshot:
    replica: str
    file: SnapshotFile
    state: int

    def finding(self, what: str) -> Finding:
        """Return a finding about the whole snapshot."""
        return Finding(self.replica, self.file.path.name, None, self.file.id.end_offset, what)


@dataclass(frozen=True, slots=True)
class _SnapshotPlan:
    """Like `LogTasks`, for one snapshot without later records."""

    file: SnapshotFile
    tasks: tuple[Any, ...]
    cuts: tuple[int, ...]

    @property
    def name(self) -> str:
        """Path of the file."""
        return str(self.file.path)

    @property
    def start_offset(self) -> int:
        """End offset of the snapshot."""
        return self.file.id.end_offset

    def error(self, wrong: Contradiction) -> PipelineError:
        """Return the error for a contradiction, with its file and offset."""
        offset = wrong.offset - BEFORE_THE_LOG
        return PipelineError(f"{self.file.path}, offset {offset}: {wrong.reason}")


@dataclass(frozen=True, slots=True)
class SnapshotSource:
    """One snapshot, as a history of one moment. `task`: the task that reads it; by default one that reads the file."""

    file: SnapshotFile
    task: Any = None

    def plan(
        self, moments: Sequence[Moment], slots: int, *, compiled: bool
    ) -> _SnapshotPlan | None:
        """See Source."""
        if compiled and self.file.path.stat().st_size < WORTH_BYTES:
            return None
        task = self.task or SnapshotTask(self.file)
        return _SnapshotPlan(self.file, (task,), (1,) * len(moments))

    def buckets(self, slots: int) -> int:
        """See Source."""
        return max(slots, 2)


def audit_snapshots(
    stages: Stages, replicas: Sequence[Replica], logs: LogAudit, scratch: Path
) -> SnapshotAudit:
    """Audit the snapshots of replicas. Raises PipelineError, OSError, and Spark's errors."""
    files = [(each.name, *file) for each in replicas for file in _files(each, scratch)]
    stages.describe(f"verify {len(files)} snapshots")
    tasks = [(number, each[-1]) for number, each in enumerate(files)]
    damaged = dict(stages.parallelize(tasks).flatMap(_damage).collect()) if tasks else {}
    findings: list[Finding] = []
    whole: list[_Snapshot] = []
    for number, (name, file, task) in enumerate(files):
        if number in damaged:
            position, what = damaged[number]
            findings.append(Finding(name, file.path.name, position, file.id.end_offset, what))
            continue
        try:
            with JobHistory(stages, SnapshotSource(file, task)) as history:
                whole.append(_Snapshot(name, file, state_digest(history.at(Moment()))))
        except PipelineError as error:
            place = file.path.name, None, file.id.end_offset
            findings.append(Finding(name, *place, str(error)))
    findings += _outliers(whole)
    suspects = logs.suspects | {each.replica for each in findings}
    replayed, differing = _replay(stages, replicas, logs, suspects, whole, scratch)
    return SnapshotAudit(len(whole), replayed, (*findings, *differing))


def _files(replica: Replica, scratch: Path) -> Iterator[tuple[SnapshotFile, Any]]:
    """Yield a replica's snapshots with the tasks that read them on executors."""
    if replica.log is not None:
        for each in replica.log.snapshots:
            file = SnapshotFile(replica.log.path / each.file_name, each)
            yield file, SnapshotTask(file)
    elif replica.reader is not None and (found := replica.reader.snapshot(scratch)) is not None:
        yield found, snapshot_task(replica.reader, SnapshotTask(found))


def _outliers(whole: Sequence[_Snapshot]) -> Iterator[Finding]:
    """Yield findings for snapshots that differ from most of the same id; for all of that id if no state is the most frequent."""
    by_id: dict[object, list[_Snapshot]] = {}
    for snapshot in whole:
        by_id.setdefault(snapshot.file.id, []).append(snapshot)
    for same in by_id.values():
        states = [each.state for each in same]
        counts = {state: states.count(state) for state in states}
        if len(counts) == 1 or same[0].file.id.end_offset == 0:
            continue
        most = max(counts.values())
        unsure = list(counts.values()).count(most) > 1
        for each in same:
            if unsure or counts[each.state] < most:
                others = ", ".join(other.replica for other in same if other.state != each.state)
                yield each.finding(f"its state differs from the same snapshot on {others}")


def _replay(
    stages: Stages,
    replicas: Sequence[Replica],
    logs: LogAudit,
    suspects: set[str],
    snapshots: Sequence[_Snapshot],
    scratch: Path,
) -> tuple[int, list[Finding]]:
    """Compare each snapshot with the state at its end offset, by the longest log without findings that has it.

    Returns the number of compared snapshots, and findings.
    """
    sound = [
        (each, end)
        for each, end in zip(replicas, logs.matching.sound_ends, strict=True)
        if each.name not in suspects
    ]
    expected: dict[int, tuple[int, str]] = {}
    findings: list[Finding] = []
    for replica, end in sorted(sound, key=lambda each: (each[0].start_offset, -each[1])):
        offsets = sorted({each.file.id.end_offset for each in snapshots} - expected.keys())
        try:
            begin = _begin(replica, scratch)
            moments = [Moment(offset=each) for each in offsets if begin < each <= end]
            if not moments:
                continue
            with JobHistory(stages, _source(replica, scratch)) as history:
                for state in history.states(moments):
                    expected[state.end_offset] = state_digest(state), replica.name
        except PipelineError as error:
            findings.append(Finding(replica.name, "", None, replica.start_offset, str(error)))
    judged = [
        (each, *expected[n]) for each in snapshots if (n := each.file.id.end_offset) in expected
    ]
    findings += [
        each.finding(f"its state differs from that of the log of {name} at its end")
        for each, state, name in judged
        if each.state != state
    ]
    return len(judged), findings


def _begin(replica: Replica, scratch: Path) -> int:
    """Return the end offset of the snapshot before the log's first record, or the log's start offset."""
    if replica.log is not None:
        first = first_snapshot(replica.log)
    else:
        assert replica.reader is not None, "a replica is one of the two"
        first = replica.reader.snapshot(scratch)
    return replica.start_offset if first is None else first.id.end_offset


def _source(replica: Replica, scratch: Path) -> Source:
    if replica.log is not None:
        return DirectorySource(replica.log.path, from_first=True)
    assert replica.reader is not None, "a replica is one of the two"
    return ArchiveSource(replica.reader, scratch)


def state_digest(state: SparkState) -> int:
    """Return a digest that is independent of the order of lists whose order has no meaning. It includes the voters."""
    found = state.digest(_number)
    for voter in state.voters.voters if state.voters else ():
        found += _hash(repr((voter.key, voter.endpoints)).encode())
    return found % (1 << 64)


# -- on executors


def _number(value: bytes) -> int:
    return _hash(with_sorted_lists(value))


def _hash(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big")


def _damage(item: tuple[int, Any]) -> Iterator[tuple[int, tuple[int | None, str]]]:
    """Yield the damage of a snapshot, if there is any."""
    number, task = item
    found = task.damage()
    if found is not None:
        yield number, found
