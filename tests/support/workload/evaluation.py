"""The checks: lost acknowledged records, stale reads, unsafe voter changes. Pure functions over histories and logs.

Every finding is a sentence; no finding means that the property holds for this history. With one writer and one key the
linearizability check is exact: the key's value after each offset is known from the log.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from support.workload.history import (
    Acknowledged,
    Attempted,
    Event,
    Finished,
    Read,
    Refused,
    Unknown,
    decode_value,
)


@dataclass(frozen=True, slots=True)
class LoggedWrite:
    """A record of the workload in one replica's log."""

    offset: int
    epoch: int
    number: int
    attempt: int


@dataclass(frozen=True, slots=True)
class VoterSet:
    """A committed voters record; keys are (node id, replica UUID)."""

    offset: int
    epoch: int
    keys: frozenset[tuple[int, str]]


@dataclass(frozen=True, slots=True)
class StateSample:
    """The key's value in one replica's state after all records below `end_offset`."""

    end_offset: int
    number: int
    attempt: int


@dataclass(frozen=True, slots=True)
class ReplicaLog:
    """One replica's committed log, as far as the checks need it.

    It has the records start_offset <= o < end_offset; a snapshot took the place of those before.
    """

    name: str
    end_offset: int
    writes: tuple[LoggedWrite, ...]
    voter_sets: tuple[VoterSet, ...]
    start_offset: int = 0
    state: StateSample | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """All findings. `acknowledged` and `reads`: numbers of checked items."""

    acknowledged: int
    reads: int
    voter_changes: int
    lost: tuple[str, ...]
    stale: tuple[str, ...]
    diverged: tuple[str, ...]
    double_steps: tuple[str, ...]
    invented: tuple[str, ...]

    @property
    def problems(self) -> tuple[str, ...]:
        return self.lost + self.stale + self.diverged + self.double_steps + self.invented


def judge(
    writes: Sequence[Event],
    reads: Sequence[Event],
    logs: Sequence[ReplicaLog],
    *,
    recoveries: int = 0,
    alters: bool = False,
) -> Verdict:
    """All checks. `logs`: at least one surviving replica. `recoveries`: of a lost quorum, from a single survivor.

    The reference is the log with the smallest start offset, and of those the longest. A record that no replica has any more
    can't be checked, and counts as lost.
    """
    if not logs:
        raise ValueError("no replica's log to compare with")
    acknowledged = [event for event in writes if isinstance(event, Acknowledged)]
    observed = [event for event in reads if isinstance(event, Read)]
    reference = min(logs, key=lambda log: (log.start_offset, -log.end_offset))
    return Verdict(
        acknowledged=len(acknowledged),
        reads=len(observed),
        voter_changes=max(0, len(reference.voter_sets) - 1),
        lost=tuple(finding for log in logs for finding in lost_records(acknowledged, log))
        + tuple(unchecked(acknowledged, reference)),
        stale=tuple(stale_reads(writes, observed, reference)),
        diverged=tuple(f for log in logs for f in divergences(reference, log))
        + tuple(f for log in logs for f in wrong_states(reference, log)),
        double_steps=tuple(double_steps(reference.voter_sets, recoveries, alters=alters)),
        invented=tuple(invented_records(writes, reference)),
    )


def lost_records(acknowledged: Iterable[Acknowledged], log: ReplicaLog) -> list[str]:
    """Each acknowledged record from the log's start on has to be at its offset, in its epoch, in this log.

    Earlier records are only in its state.
    """
    logged = {write.offset: write for write in log.writes}
    findings = []
    for event in acknowledged:
        if event.offset < log.start_offset:
            continue
        expected = LoggedWrite(event.offset, event.epoch, event.number, event.attempt)
        found = logged.get(event.offset)
        if found != expected:
            findings.append(f"{log.name}: acknowledged {expected}, the log has {found}")
    return findings


def unchecked(acknowledged: Iterable[Acknowledged], reference: ReplicaLog) -> list[str]:
    """Acknowledged records that no replica has as a record any more: they can't be checked, which counts as a finding."""
    before = [event.offset for event in acknowledged if event.offset < reference.start_offset]
    if not before:
        return []
    text = (
        f"{len(before)} acknowledged records, up to offset {max(before)}, are in no replica's log any"
        f" more: the furthest, {reference.name}'s, starts at {reference.start_offset}. Give the quorum"
        " a larger metadata.max.retention.bytes for this check"
    )
    return [text]


def wrong_states(reference: ReplicaLog, log: ReplicaLog) -> list[str]:
    """The value in a replica's state is the one that the reference log had at that offset."""
    state = log.state
    if state is None or state.end_offset > reference.end_offset:
        return []
    before = [write for write in reference.writes if write.offset < state.end_offset]
    newest = max(before, key=lambda write: write.offset, default=None)
    if newest is not None and (newest.number, newest.attempt) == (state.number, state.attempt):
        return []
    return [f"{log.name}: {state}, but {reference.name}'s log has {newest} there"]


def divergences(reference: ReplicaLog, log: ReplicaLog) -> list[str]:
    """Two committed logs must agree on all offsets that both have."""
    start_offset = max(reference.start_offset, log.start_offset)
    end_offset = min(reference.end_offset, log.end_offset)
    ours = _records_between(log, start_offset, end_offset)
    theirs = _records_between(reference, start_offset, end_offset)
    return [
        f"{log.name} and {reference.name} differ: only one has {record}"
        for record in sorted(ours ^ theirs, key=lambda record: record.offset)
    ]


def _records_between(
    log: ReplicaLog, start_offset: int, end_offset: int
) -> set[LoggedWrite | VoterSet]:
    records: list[LoggedWrite | VoterSet] = [*log.writes, *log.voter_sets]
    return {record for record in records if start_offset <= record.offset < end_offset}


def stale_reads(writes: Sequence[Event], reads: Sequence[Read], reference: ReplicaLog) -> list[str]:
    """Reads that no single order of operations explains.

    A read is explained if its value is the key's value at a point of the log behind every write that was acknowledged
    before the read began, and the write of that value began before the read ended. The claimed end offset and the value
    are both checked.
    """
    by_end = sorted((e for e in writes if isinstance(e, Acknowledged)), key=lambda e: e.end_ms)
    ends = [event.end_ms for event in by_end]
    highest: list[int] = []
    for event in by_end:
        highest.append(max(event.offset, highest[-1] if highest else -1))
    began = {(e.number, e.attempt): e.start_ms for e in writes if isinstance(e, Attempted)}
    spans = _value_spans(reference)
    findings = []
    for read in reads:
        before = bisect_right(ends, read.start_ms)
        required = highest[before - 1] if before else -1
        problem = _read_problem(read, required, spans, began)
        if problem:
            findings.append(f"{problem}: {read}, acknowledged before up to offset {required}")
    return findings


def _value_spans(log: ReplicaLog) -> dict[tuple[int, int], list[tuple[int, float]]]:
    """(number, attempt) → the ranges [offset, end offset) of the log in which the key had it."""
    spans: dict[tuple[int, int], list[tuple[int, float]]] = {}
    ordered = sorted(log.writes, key=lambda write: write.offset)
    for index, write in enumerate(ordered):
        end = ordered[index + 1].offset if index + 1 < len(ordered) else float("inf")
        spans.setdefault((write.number, write.attempt), []).append((write.offset, end))
    return spans


def _read_problem(
    read: Read,
    required: int,
    spans: Mapping[tuple[int, int], list[tuple[int, float]]],
    began: Mapping[tuple[int, int], float],
) -> str | None:
    if read.value is None:
        return None if required < 0 else "stale read of nothing"
    if read.end_offset <= required:
        return "stale read"
    key = decode_value(read.value)
    if key not in spans:
        return "read of a value that was never committed"
    if all(end <= required for _, end in spans[key]):
        return "stale read"
    if key in began and began[key] > read.end_ms:
        return "read of a value that was not written yet"
    return None


def double_steps(
    voter_sets: Sequence[VoterSet], recoveries: int = 0, *, alters: bool = False
) -> list[str]:
    """Consecutive committed voter sets must differ by exactly one replica key.

    `alters`: they may be equal, as an AlterQuorum changes only the target voters at first. A recovery leaves a single voter, of an id that was one, under a new UUID.
    """
    findings = []
    for before, after in pairwise(sorted(voter_sets, key=lambda voters: voters.offset)):
        changed = before.keys ^ after.keys
        alone = len(after.keys) == 1 and after.keys.isdisjoint(before.keys)
        if alone and {each[0] for each in after.keys} <= {each[0] for each in before.keys}:
            recoveries -= 1
            if recoveries >= 0:
                continue
        if len(changed) != 1 and not (alters and not changed):
            findings.append(
                f"the voter sets at offsets {before.offset} and {after.offset} differ by "
                f"{len(changed)} replicas: {sorted(changed)}"
            )
    return findings


def invented_records(writes: Sequence[Event], log: ReplicaLog) -> list[str]:
    """Records in the log that were never sent, or that were refused.

    A killed writer leaves one attempt that it could not record.
    """
    tried = {(e.number, e.attempt): e for e in writes if isinstance(e, Attempted)}
    complete = any(isinstance(event, Finished) for event in writes)
    newest = max(tried, default=(0, 0))
    findings = []
    for write in log.writes:
        key = (write.number, write.attempt)
        if key not in tried and (complete or key < newest):
            findings.append(f"{log.name}: {write} was never sent")
        if isinstance(tried.get(key), Refused):
            findings.append(f"{log.name}: {write} was refused, yet committed")
    return findings


def longest_gap_ms(writes: Iterable[Event], *, start_ms: float, end_ms: float) -> float:
    """Longest time without an acknowledgement within the window; the edges of the window count as acknowledgements."""
    moments = [start_ms, end_ms]
    moments += [
        event.end_ms
        for event in writes
        if isinstance(event, Acknowledged) and start_ms < event.end_ms < end_ms
    ]
    moments.sort()
    return max(later - earlier for earlier, later in pairwise(moments))


def unknown_outcomes(writes: Iterable[Event]) -> int:
    """Repeated attempts whose outcome was unknown."""
    return sum(isinstance(event, Unknown) for event in writes)
