"""An audit of replicas: reads every log and every snapshot of each, whole, and compares them.

Owns the reading and what is compared with what: logs with logs (`audit/log_matching.py`), snapshots of one id with each other, and
each snapshot with the state that the log amounts to at its end, Snapshot(K, N) == Snapshot(J, N) (K595-30). States are compared by the
records that they amount to, in one order (`audit/one_order.py`): stock Kafka writes the same state in another one.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from crc32c import crc32c

from quorum_pipeline.audit.findings import Finding
from quorum_pipeline.audit.log_matching import BatchMark, Matching, ReplicaLog, match_logs
from quorum_pipeline.audit.one_order import in_one_order
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.log_directory import LogDirectory, open_log
from quorum_pipeline.files.log_span import Damage, PlacedBatch, read_span, read_whole
from quorum_pipeline.files.snapshot_file import DamagedSnapshot, SnapshotFile, first_snapshot
from quorum_pipeline.state.replayed import Replayed

_WHOLE_SEGMENT = 1 << 62
_NO_END = (1 << 63) - 1
Told = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Audit:
    """The outcome. `snapshots` were verified; `replayed` of them compared with the log."""

    matching: Matching
    batches: int
    bytes: int
    snapshots: int
    replayed: int
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class _Replica:
    name: str
    directory: LogDirectory


def audit(paths: Sequence[Path], told: Told = lambda text: None) -> Audit:
    """Raises PipelineError if a path is no log, OSError."""
    replicas = [_Replica(str(path), open_log(path)) for path in paths]
    logs: list[ReplicaLog] = []
    findings: list[Finding] = []
    for replica in replicas:
        told(f"reading the log of {replica.name}")
        log, damaged = _read_log(replica)
        logs.append(log)
        findings += damaged
    matching = match_logs(logs)
    findings += matching.findings
    states, more = _read_snapshots(replicas, told)
    findings += more
    replayed, differing = _replay(replicas, {each.replica for each in findings}, states, told)
    return Audit(
        matching,
        sum(len(log.marks) for log in logs),
        sum(segment.size_bytes for r in replicas for segment in r.directory.segments),
        len(states),
        replayed,
        (*findings, *differing),
    )


def _read_log(replica: _Replica) -> tuple[ReplicaLog, list[Finding]]:
    directory = replica.directory
    log = ReplicaLog(replica.name, directory.start_offset)
    findings: list[Finding] = []
    unread_from: int | None = None
    for span in directory.spans(directory.start_offset, _WHOLE_SEGMENT):
        name = Path(span.path).name
        log.files.append(name)
        for found in read_span(span):
            if isinstance(found, Damage):
                unread_from = found.offset if unread_from is None else unread_from
                findings.append(
                    Finding(replica.name, name, found.position, found.offset, found.reason)
                )
                continue
            mark = _mark(found, len(log.files) - 1)
            log.marks.append(mark)
            if unread_from is not None:
                log.damaged.append((unread_from, mark.base_offset))
                unread_from = None
    if unread_from is not None:
        log.damaged.append((unread_from, _NO_END))
    return log, findings


def _mark(placed: PlacedBatch, file: int) -> BatchMark:
    header = placed.batch.header
    return BatchMark(
        header.base_offset,
        header.end_offset,
        header.leader_epoch,
        header.crc,
        file,
        placed.position,
    )


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """A whole snapshot; `state` is the CRC of the records that it amounts to."""

    replica: str
    file: SnapshotFile
    state: int


def _read_snapshots(
    replicas: Sequence[_Replica], told: Told
) -> tuple[list[_Snapshot], list[Finding]]:
    whole: list[_Snapshot] = []
    findings: list[Finding] = []
    for replica in replicas:
        for each in replica.directory.snapshots:
            file = SnapshotFile(replica.directory.path / each.file_name, each)
            told(f"reading snapshot {each} of {replica.name}")
            try:
                whole.append(_Snapshot(replica.name, file, _loaded(file)))
            except PipelineError as error:
                position, what = None, str(error)
                if isinstance(error, DamagedSnapshot):
                    position, what = error.position, error.reason
                place = file.path.name, position, each.end_offset
                findings.append(Finding(replica.name, *place, what))
    by_id: dict[object, list[_Snapshot]] = {}
    for snapshot in whole:
        by_id.setdefault(snapshot.file.id, []).append(snapshot)
    for same in by_id.values():
        states = {snapshot.state for snapshot in same}
        if len(states) > 1 and same[0].file.id.end_offset > 0:
            findings += _odd_ones(same)
    return whole, findings


def _odd_ones(same: Sequence[_Snapshot]) -> Iterator[Finding]:
    """Those that fewer replicas have than another; all of them if nobody is in the majority."""
    counts = {state: sum(each.state == state for each in same) for state in {e.state for e in same}}
    most = max(counts.values())
    unsure = list(counts.values()).count(most) > 1
    for each in same:
        if unsure or counts[each.state] < most:
            others = ", ".join(other.replica for other in same if other.state != each.state)
            what = f"another state than the same snapshot on {others}"
            end_offset = each.file.id.end_offset
            yield Finding(each.replica, each.file.path.name, None, end_offset, what)


def _replay(
    replicas: Sequence[_Replica], suspects: set[str], snapshots: Sequence[_Snapshot], told: Told
) -> tuple[int, list[Finding]]:
    """Replay the longest log that nothing was found in, and compare at the end of each snapshot."""
    sound = [replica for replica in replicas if replica.name not in suspects]
    if not sound or not snapshots:
        return 0, []
    best = min(sound, key=lambda each: each.directory.start_offset)
    wanted: dict[int, list[_Snapshot]] = {}
    for each in snapshots:
        wanted.setdefault(each.file.id.end_offset, []).append(each)
    told(f"replaying the log of {best.name}")
    findings: list[Finding] = []
    replayed = 0
    try:
        for state in _states_at(best.directory, set(wanted)):
            expected = _state_crc(state)
            for each in wanted[state.end_offset]:
                replayed += 1
                if each.state != expected:
                    what = f"another state than the log of {best.name} amounts to at its end"
                    name = each.file.path.name
                    findings.append(Finding(each.replica, name, None, state.end_offset, what))
    except PipelineError as error:
        start = best.directory.start_offset
        findings.append(Finding(best.name, "", None, start, str(error)))
    return replayed, findings


def _states_at(directory: LogDirectory, offsets: set[int]) -> Iterator[Replayed]:
    """The state at each of these offsets that the log goes through."""
    state = Replayed()
    file = first_snapshot(directory)
    if file is not None:
        state.begin(file.id, (batch for _, batch in file.batches()), file.bounds())
    for span in directory.spans(state.end_offset, _WHOLE_SEGMENT):
        for placed in read_whole(span):
            if placed.batch.header.end_offset > state.end_offset:
                state.batch(placed.batch, _WHOLE_SEGMENT)
                if state.end_offset in offsets:
                    yield state


def _loaded(file: SnapshotFile) -> int:
    bounds = file.bounds()
    state = Replayed()
    state.begin(file.id, (batch for _, batch in file.batches()), bounds)
    return _state_crc(state)


def _state_crc(state: Replayed) -> int:
    crc = 0
    for value in state.image.snapshot_records():
        crc = crc32c(in_one_order(value), crc)
    for voter in sorted(state.voters.voters if state.voters else (), key=str):
        crc = crc32c(repr((voter.key, voter.endpoints)).encode(), crc)
    return crc
