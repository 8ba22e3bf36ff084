"""Log matching: whoever has a batch at an offset has the same one as all others. PURE.

Owns the comparison by (first offset, end offset, epoch, CRC) and the decision who is wrong: who differs from more others
than agree with it. The CRC doesn't cover offset and epoch; so they are compared themselves, and every bit counts.

What only a minority has at the end of its log was never committed. It may differ, and is no finding.
Source: KIP-595, "Log"; the log matching property of Raft.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from quorum_node.quorum_arithmetic import majority
from quorum_pipeline.audit.findings import Finding


class BatchMark(NamedTuple):
    """A batch in a replica's log, whose checksum was verified; `file` counts the files of the replica."""

    base_offset: int
    end_offset: int
    epoch: int
    crc: int
    file: int
    position: int

    @property
    def identity(self) -> tuple[int, int, int]:
        """What has to be the same on all replicas, at one first offset."""
        return self.end_offset, self.epoch, self.crc


@dataclass(slots=True)
class ReplicaLog:
    """All of one log. `damaged`: ranges of offsets that could not be read, told already."""

    name: str
    start_offset: int
    files: list[str] = field(default_factory=list)
    marks: list[BatchMark] = field(default_factory=list)
    damaged: list[tuple[int, int]] = field(default_factory=list)

    @property
    def end_offset(self) -> int:
        """Behind its last batch."""
        return self.marks[-1].end_offset if self.marks else self.start_offset


@dataclass(frozen=True, slots=True)
class Matching:
    """`committed_end`: so far a majority of the replicas agree. `compared`: batches that more than one has."""

    committed_end: int
    compared: int
    findings: tuple[Finding, ...]
    tails: tuple[str, ...]
    """What replicas have beyond it, in words."""


def match_logs(replicas: Sequence[ReplicaLog]) -> Matching:
    """Compare them all."""
    by_offset: dict[int, list[tuple[int, BatchMark]]] = {}
    for number, replica in enumerate(replicas):
        for mark in replica.marks:
            by_offset.setdefault(mark.base_offset, []).append((number, mark))
    needed = majority(len(replicas))
    committed_end, compared = 0, 0
    differing: list[tuple[int, list[tuple[int, BatchMark]]]] = []
    for offset in sorted(by_offset):
        found = by_offset[offset]
        counts = Counter(mark.identity for _, mark in found)
        identity, most = counts.most_common(1)[0]
        if most >= needed:
            committed_end = max(committed_end, identity[0])
        compared += len(found) > 1
        if len(counts) > 1:
            differing.append((offset, found))
    findings = [*_differences(replicas, differing, committed_end)]
    findings += _lacking(replicas, by_offset, committed_end)
    # An epoch that differs makes the next one go back: that would be told twice.
    named = {each.replica for each in findings}
    for replica in replicas:
        if replica.name not in named:
            findings += _epochs_going_back(replica)
    tails = tuple(
        f"{replica.name} has offsets {committed_end} to {replica.end_offset} that no majority has"
        for replica in replicas
        if replica.end_offset > committed_end and len(replicas) > 1
    )
    return Matching(committed_end, compared, tuple(findings), tails)


def _epochs_going_back(replica: ReplicaLog) -> Iterable[Finding]:
    epoch = 0
    for mark in replica.marks:
        if mark.epoch < epoch:
            what = f"epoch {mark.epoch} after epoch {epoch}"
            yield _finding(replica, mark, what)
        epoch = mark.epoch


def _differences(
    replicas: Sequence[ReplicaLog],
    differing: Iterable[tuple[int, list[tuple[int, BatchMark]]]],
    committed_end: int,
) -> Iterable[Finding]:
    for offset, found in differing:
        if offset >= committed_end:
            continue
        ranked = Counter(mark.identity for _, mark in found).most_common()
        right = ranked[0][0] if ranked[0][1] > ranked[1][1] else None
        for number, mark in found:
            if mark.identity != right:
                others = [replicas[n].name for n, each in found if each.identity != mark.identity]
                what = f"{_words(mark, found)} than on {', '.join(others)}"
                yield _finding(replicas[number], mark, what)


def _words(mark: BatchMark, found: list[tuple[int, BatchMark]]) -> str:
    """In what it differs."""
    other = next(each for _, each in found if each.identity != mark.identity)
    parts = []
    if mark.epoch != other.epoch:
        parts.append(f"epoch {mark.epoch}, not {other.epoch}")
    if mark.crc != other.crc:
        parts.append(f"CRC {mark.crc:08x}, not {other.crc:08x}")
    if mark.end_offset != other.end_offset:
        parts.append(f"end offset {mark.end_offset}, not {other.end_offset}")
    return f"another batch ({'; '.join(parts)})"


def _lacking(
    replicas: Sequence[ReplicaLog],
    by_offset: dict[int, list[tuple[int, BatchMark]]],
    committed_end: int,
) -> Iterable[Finding]:
    """A batch that a majority has, missing within a log that goes on behind it; damage was told before."""
    needed = majority(len(replicas))
    for offset in sorted(by_offset):
        found = by_offset[offset]
        if len(found) < needed or offset >= committed_end:
            continue
        have = {number for number, _ in found}
        for number, replica in enumerate(replicas):
            within = replica.start_offset <= offset < replica.end_offset
            told = any(begin <= offset < end for begin, end in replica.damaged)
            if within and number not in have and not told:
                yield Finding(replica.name, "", None, offset, "the batch is missing")


def _finding(replica: ReplicaLog, mark: BatchMark, what: str) -> Finding:
    return Finding(replica.name, replica.files[mark.file], mark.position, mark.base_offset, what)
