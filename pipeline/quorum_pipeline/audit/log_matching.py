"""Log matching: all replicas have the same batch at an offset. PURE.

Owns the comparison by (first offset, end offset, epoch, CRC), and the decision which replica is wrong: one that
differs from more replicas than it agrees with. Offset and epoch are compared separately because the CRC does not
cover them. First the digests of blocks are compared, then the batches of different blocks, each block independently.
Batches after the last one on which a majority agrees were never committed: they may differ and are no finding. Nor is the
end of the log of a diverged replica (`divergence.py`).
Source: KIP-595, "Log"; the log matching property of Raft.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from quorum_node.quorum_arithmetic import majority
from quorum_pipeline.audit.digests import BLOCK, BLOCK_OFFSETS, COUNT, DIGEST, TO, Table
from quorum_pipeline.audit.divergence import Divergence, diverged_replicas
from quorum_pipeline.audit.findings import Finding

MAX_PER_BLOCK = 1000
"""Maximum number of reported batches of one block; of further ones only the number."""


class BatchFingerprint(NamedTuple):
    """A batch in a replica's log with a verified checksum. `position`: None if its file does not have it."""

    base_offset: int
    end_offset: int
    epoch: int
    crc: int
    file: str
    position: int | None

    @property
    def identity(self) -> tuple[int, int, int]:
        """The values that have to be equal on all replicas at one first offset."""
        return self.end_offset, self.epoch, self.crc


@dataclass(frozen=True, slots=True)
class ReplicaRange:
    """Offsets of a replica's log. `damaged`: unreadable ranges, which were reported before."""

    name: str
    start_offset: int
    end_offset: int
    damaged: tuple[tuple[int, int], ...] = ()
    backs: tuple[tuple[BatchFingerprint, int], ...] = ()
    """Batches of an earlier epoch than the one before them, with that epoch."""
    is_cut: bool = False
    last_epoch: int = 0
    """Epoch of the last batch."""
    known_end: int = 0
    """Below this offset all records were committed, as far as the replica itself knows."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """The comparison of complete blocks, and the blocks whose batches have to be compared. `same_to`: for each replica, first
    offset of the last block in which it has the same batches as the others, -1 if there is none.
    """

    committed_end: int
    compared: int
    blocks: tuple[int, ...]
    same_to: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of a block's batches. `committed_end`: offset up to which a majority agrees. `compared`: number of batches
    that more than one replica has.

    `differing`: by first offset, the batches there by the replica's number. `lacking`: offset and number of replicas without
    one. `more`: number of further ones, by the replicas that have another batch than a majority, or none. `divergences`: see Divergence.
    """

    committed_end: int
    compared: int
    differing: tuple[tuple[int, tuple[tuple[int, BatchFingerprint], ...]], ...] = ()
    lacking: tuple[tuple[int, int], ...] = ()
    more: tuple[tuple[frozenset[int], int], ...] = ()
    divergences: tuple[tuple[int, Divergence], ...] = ()


@dataclass(frozen=True, slots=True)
class Matching:
    """The overall result. `committed_end`: offset up to which a majority agrees. `compared`: number of batches that more than one
    replica has. `sound_ends`: offset up to which each replica has the same history as a majority, or its end.
    """

    committed_end: int
    compared: int
    findings: tuple[Finding, ...]
    tails: tuple[str, ...]
    """Descriptions of batches of replicas that were not committed."""
    sound_ends: tuple[int, ...] = ()


def agreement(replicas: Sequence[ReplicaRange], tables: Sequence[Table]) -> Agreement:
    """Compare blocks; a table for each replica, with one row for each of its blocks."""
    every = [table[:, BLOCK] for table in tables if len(table)]
    if not every:
        return Agreement(0, 0, ())
    numbers = np.unique(np.concatenate(every))
    shape = (len(replicas), len(numbers))
    has, found = np.zeros(shape, np.bool_), np.zeros((*shape, 3), np.int64)
    for place, (replica, table) in enumerate(zip(replicas, tables, strict=True)):
        begins, ends = numbers * BLOCK_OFFSETS, (numbers + 1) * BLOCK_OFFSETS
        has[place] = (begins < replica.end_offset) & (ends > replica.start_offset)
        rows = np.searchsorted(numbers, table[:, BLOCK])
        has[place, rows] = True
        found[place, rows] = table[:, [COUNT, DIGEST, TO]]
    whole = (np.argmax(has, axis=0), np.arange(len(numbers)))
    same = (~has | (found[..., :2] == found[whole][:, :2]).all(axis=2)).all(axis=0)
    sharing = has.sum(axis=0)
    agreed = found[whole][same & (sharing >= majority(len(replicas)))]
    compared = found[whole][same & (sharing > 1)]
    last_same = np.where(has & same, numbers * BLOCK_OFFSETS, -1).max(axis=1)
    return Agreement(
        int(agreed[:, 2].max(initial=0)),
        int(compared[:, 0].sum()),
        tuple(numbers[~same].tolist()),
        tuple(last_same.tolist()),
    )


def compare(
    replicas: Sequence[ReplicaRange], batches: Iterable[tuple[int, Iterable[BatchFingerprint]]]
) -> Comparison:
    """Compare the batches of one block; `batches`: by the replica's number."""
    by_offset: dict[int, list[tuple[int, BatchFingerprint]]] = {}
    for number, some in batches:
        for batch in some:
            by_offset.setdefault(batch.base_offset, []).append((number, batch))
    needed = majority(len(replicas))
    committed_end, compared, more = 0, 0, Counter[frozenset[int]]()
    divergences = [Divergence() for _ in replicas]
    differing: list[tuple[int, tuple[tuple[int, BatchFingerprint], ...]]] = []
    lacking: list[tuple[int, int]] = []
    for offset in sorted(by_offset):
        found = _cut_to_others(replicas, sorted(by_offset[offset]))
        counts = Counter(batch.identity for _, batch in found)
        identity, most = counts.most_common(1)[0]
        if most >= needed:
            committed_end = max(committed_end, identity[0])
        compared += len(found) > 1
        wanting = [*_wanting(replicas, offset, found)] if len(found) >= needed else []
        if most >= needed:
            right = next(batch for _, batch in found if batch.identity == identity)
            for number, batch in found:
                divergences[number].compare(offset, batch, right)
            for _, number in wanting:
                divergences[number].add_missing(offset)
        if len(counts) > 1 or wanting:
            if len(differing) + len(lacking) >= MAX_PER_BLOCK:
                others = {number for number, batch in found if batch.identity != identity}
                more[frozenset(others | {number for _, number in wanting})] += 1
                continue
            differing += [(offset, tuple(found))] if len(counts) > 1 else []
            lacking += wanting
    known = tuple((number, each) for number, each in enumerate(divergences) if each.is_known)
    return Comparison(
        committed_end, compared, tuple(differing), tuple(lacking), tuple(more.items()), known
    )


def _cut_to_others(
    replicas: Sequence[ReplicaRange], found: list[tuple[int, BatchFingerprint]]
) -> list[tuple[int, BatchFingerprint]]:
    """Cut an archive's last batch, which may be incomplete, to the end of the same batch of others."""
    ends = {(batch.epoch, batch.crc): batch.end_offset for _, batch in sorted(found, key=_end)}
    return [
        (number, batch._replace(end_offset=ends[batch.epoch, batch.crc]))
        if replicas[number].is_cut and batch.end_offset == replicas[number].end_offset
        else (number, batch)
        for number, batch in found
    ]


def _end(numbered: tuple[int, BatchFingerprint]) -> int:
    return numbered[1].end_offset


def _wanting(
    replicas: Sequence[ReplicaRange], offset: int, found: Sequence[tuple[int, BatchFingerprint]]
) -> Iterator[tuple[int, int]]:
    """Replicas that lack a batch in the middle of their log; damage was reported before."""
    have = {number for number, _ in found}
    for number, replica in enumerate(replicas):
        within = replica.start_offset <= offset < replica.end_offset
        is_reported = any(begin <= offset < end for begin, end in replica.damaged)
        if within and number not in have and not is_reported:
            yield offset, number


def matching(
    replicas: Sequence[ReplicaRange], agreed: Agreement, compared: Sequence[Comparison]
) -> Matching:
    """Return the overall result. `compared`: in order of offsets."""
    committed_end = max([agreed.committed_end, *(each.committed_end for each in compared)])
    diverged = diverged_replicas(replicas, agreed.same_to, [each.divergences for each in compared])
    findings = [*_differences(replicas, compared, committed_end, diverged)]
    findings += [
        Finding(replicas[number].name, "", None, offset, "the batch is missing")
        for each in compared
        for offset, number in each.lacking
        if offset < committed_end and number not in diverged
    ]
    # A differing epoch makes the next epoch decrease, which would be reported a second time.
    named = {each.replica for each in findings}
    for replica in replicas:
        if replica.name not in named:
            findings += [
                _finding(replica, batch, f"epoch {batch.epoch} after epoch {before}")
                for batch, before in replica.backs
            ]
    tails = [
        f"{replica.name} has offsets {committed_end} to {replica.end_offset}, which no majority has"
        for number, replica in enumerate(replicas)
        if replica.end_offset > committed_end and len(replicas) > 1 and number not in diverged
    ]
    tails += [
        f"{replicas[number].name} has offsets {offset} to {replicas[number].end_offset}, where a majority has records of later epochs"
        for number, offset in diverged.items()
    ]
    count = agreed.compared + sum(each.compared for each in compared)
    ends = tuple(diverged.get(n, each.end_offset) for n, each in enumerate(replicas))
    return Matching(committed_end, count, tuple(findings), tuple(tails), ends)


def _differences(
    replicas: Sequence[ReplicaRange],
    compared: Sequence[Comparison],
    committed_end: int,
    diverged: Mapping[int, int],
) -> Iterator[Finding]:
    """Yield findings. `diverged`: diverged replicas, which have no more than the end of an old log that is different."""
    for each in compared:
        for offset, found in each.differing:
            if offset >= committed_end:
                continue
            ranked = Counter(batch.identity for _, batch in found).most_common()
            right = ranked[0][0] if ranked[0][1] > ranked[1][1] else None
            for number, batch in found:
                if batch.identity != right and number not in diverged:
                    others = [replicas[n].name for n, e in found if e.identity != batch.identity]
                    what = f"{_words(batch, found)} than on {', '.join(others)}"
                    yield _finding(replicas[number], batch, what)
        last = max([offset for offset, _ in (*each.differing, *each.lacking)], default=0)
        more = sum(count for numbers, count in each.more if not numbers <= diverged.keys())
        if more and last < committed_end:
            what = f"{more:,} more batches of its block differ after this one"
            yield Finding("several replicas", "", None, last, what)


def _words(batch: BatchFingerprint, found: Sequence[tuple[int, BatchFingerprint]]) -> str:
    """Description of the difference."""
    other = next(each for _, each in found if each.identity != batch.identity)
    parts = []
    if batch.epoch != other.epoch:
        parts.append(f"epoch {batch.epoch}, not {other.epoch}")
    if batch.crc != other.crc:
        parts.append(f"CRC {batch.crc:08x}, not {other.crc:08x}")
    if batch.end_offset != other.end_offset:
        parts.append(f"end offset {batch.end_offset}, not {other.end_offset}")
    return f"a different batch ({'; '.join(parts)})"


def _finding(replica: ReplicaRange, batch: BatchFingerprint, what: str) -> Finding:
    return Finding(replica.name, batch.file, batch.position, batch.base_offset, what)
