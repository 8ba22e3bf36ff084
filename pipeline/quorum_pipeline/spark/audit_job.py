"""An audit of replicas and archives: all checksums, and whether they have the same history.

Each executor task reads a span and returns digests by block of offsets. The driver compares digests; the batches of
different blocks are read again and compared on executors, one block per task. The driver decodes no batch and holds a
few bytes per 65 536 offsets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quorum_pipeline.audit.digests import BEGIN, BLOCK, BLOCK_OFFSETS, FINISH, FROM, TO, joined
from quorum_pipeline.audit.findings import Finding
from quorum_pipeline.audit.log_matching import (
    Comparison,
    Matching,
    ReplicaRange,
    agreement,
    compare,
    matching,
)
from quorum_pipeline.files.audited_archive import AuditRange
from quorum_pipeline.files.audited_span import Audited, AuditSpan, mark_of
from quorum_pipeline.files.log_directory import LogDirectory, open_log
from quorum_pipeline.files.log_span import lost_records
from quorum_pipeline.files.span_tasks import LEAST_BYTES, MOST_BYTES, TASKS_PER_SLOT
from quorum_pipeline.spark.state_job import where

if TYPE_CHECKING:
    from quorum_pipeline.files.archive_reader import ArchiveReader
    from quorum_pipeline.spark.stages import Stages

_NO_END = (1 << 63) - 1
_RANGES_AHEAD = 8
"""A batch goes over no more ranges of an archive than these."""


@dataclass(frozen=True, slots=True)
class Replica:
    """What is audited: the log in a directory, or an archive. `tasks` in order."""

    name: str
    start_offset: int
    tasks: tuple[AuditSpan | AuditRange, ...]
    size_bytes: int
    log: LogDirectory | None = None
    reader: ArchiveReader | None = None
    root: Path | None = None

    @property
    def is_archive(self) -> bool:
        """It may end within a batch, and its files have no places that are a log's."""
        return self.log is None


@dataclass(frozen=True, slots=True)
class Read:
    """What one task has read of which replica, and on which executor."""

    replica: int
    task: int
    found: Audited
    executor: str


@dataclass(frozen=True, slots=True)
class LogAudit:
    """The outcome for logs. `drilled`: blocks whose batches were compared one by one."""

    matching: Matching
    findings: tuple[Finding, ...]
    ranges: tuple[ReplicaRange, ...]
    reads: tuple[Read, ...]
    blocks: int
    drilled: int

    @property
    def batches(self) -> int:
        """Of all replicas."""
        return sum(each.found.batches for each in self.reads)

    @property
    def suspects(self) -> set[str]:
        """Names of replicas in which something was found."""
        return {each.replica for each in self.findings}


def log_replica(path: Path, slots: int, span_bytes: int | None = None) -> Replica:
    """Raises PipelineError if it is no log."""
    log = open_log(path)
    total = sum(each.size_bytes for each in log.segments)
    target = span_bytes or min(max(total // (slots * TASKS_PER_SLOT), LEAST_BYTES), MOST_BYTES)
    tasks = tuple(AuditSpan(each) for each in log.spans(log.start_offset, target))
    return Replica(str(path), log.start_offset, tasks, total, log)


def archive_replica(name: str, reader: ArchiveReader, root: Path) -> Replica:
    """Raises PipelineError."""
    found = reader.contents()
    ranges = found.ranges
    tasks = tuple(
        AuditRange(root, ranges[number : number + _RANGES_AHEAD]) for number in range(len(ranges))
    )
    size_bytes = sum(path.stat().st_size for path in root.glob("records/*/*.parquet"))
    return Replica(name, found.start, tasks, size_bytes, reader=reader, root=root)


def audit_logs(stages: Stages, replicas: Sequence[Replica]) -> LogAudit:
    """Raises PipelineError, OSError, and what Spark raises."""
    items = [
        (number, place, task)
        for number, each in enumerate(replicas)
        for place, task in enumerate(each.tasks)
    ]
    stages.describe(f"digests of {len(replicas)} logs in {len(items)} spans")
    reads: list[Read] = sorted(
        stages.rows(items).flatMap(_digests).collect(), key=lambda each: (each.replica, each.task)
    )
    of_replica = [[each for each in reads if each.replica == n] for n in range(len(replicas))]
    ranges = [_range(each, mine) for each, mine in zip(replicas, of_replica, strict=True)]
    tables = [joined([each.found.blocks for each in mine]) for mine in of_replica]
    agreed = agreement(ranges, tables)
    compared = _compare_blocks(stages, replicas, ranges, reads, agreed.blocks)
    matched = matching(ranges, agreed, compared)
    findings = [
        finding
        for replica, mine in zip(replicas, of_replica, strict=True)
        for each in mine
        for finding in _damage(replica.name, each.found)
    ]
    findings += [each for replica in replicas for each in _lost(replica)]
    return LogAudit(
        matched,
        (*findings, *matched.findings),
        tuple(ranges),
        tuple(reads),
        len({number for table in tables for number in table[:, BLOCK].tolist()}),
        len(agreed.blocks),
    )


def _damage(name: str, found: Audited) -> Iterator[Finding]:
    for position, offset, reason in found.damages:
        yield Finding(name, found.place, position, offset, reason)
    if found.more:
        yield Finding(name, found.place, None, None, f"{found.more:,} more damaged ranges")


def _lost(replica: Replica) -> Iterator[Finding]:
    damage = None if replica.log is None else lost_records(replica.log)
    if damage is not None:
        yield Finding(replica.name, damage.path, damage.position, damage.offset, damage.reason)


def _range(replica: Replica, reads: Sequence[Read]) -> ReplicaRange:
    """What its tasks have read, joined up."""
    end, epoch = replica.start_offset, 0
    damaged, backs = list[tuple[int, int]](), list[Any]()
    unread: list[int] = []
    for each in reads:
        found = each.found
        if found.first is not None:
            damaged += [(start, found.first.base_offset) for start in unread]
            unread = []
            if found.first.epoch < epoch:
                backs.append((found.first, epoch))
            epoch = found.last_epoch
        backs += found.backs
        damaged += [(start, stop) for start, stop in found.unread if stop is not None]
        unread += [start for start, stop in found.unread if stop is None]
        end = end if found.end_offset is None else found.end_offset
    damaged += [(start, _NO_END) for start in unread]
    return ReplicaRange(
        replica.name,
        replica.start_offset,
        end,
        tuple(damaged),
        tuple(backs),
        replica.is_archive,
    )


def _compare_blocks(
    stages: Stages,
    replicas: Sequence[Replica],
    ranges: Sequence[ReplicaRange],
    reads: Sequence[Read],
    blocks: Sequence[int],
) -> list[Comparison]:
    """Batch by batch."""
    wanted = set(blocks)
    items = []
    for each in reads:
        task = replicas[each.replica].tasks[each.task]
        for row in each.found.blocks.tolist():
            if row[BLOCK] in wanted:
                place = (row[FROM], row[TO], row[BEGIN], row[FINISH])
                items.append((row[BLOCK], each.replica, each.found.place, task, place))
    if not items:
        return []
    stages.describe(f"batches of {len(blocks)} blocks that differ")
    marks = stages.rows(items).flatMap(_marks)
    found = marks.groupByKey().mapValues(partial(_compare, tuple(ranges))).collect()
    return [each for _, each in sorted(found, key=lambda keyed: keyed[0])]


# -- on executors


def _digests(item: tuple[int, int, AuditSpan | AuditRange]) -> Iterator[Read]:
    number, place, task = item
    yield Read(number, place, task.audited(), where())


def _marks(
    item: tuple[int, int, str, AuditSpan | AuditRange, tuple[int, int, int, int]],
) -> Iterator[tuple[int, tuple[int, str, bool, Any]]]:
    block, replica, place, task, (first, _, begin, finish) = item
    if isinstance(task, AuditSpan):
        yield block, (replica, place, True, task.block(begin, finish, first))
        return
    low, high = block * BLOCK_OFFSETS, (block + 1) * BLOCK_OFFSETS
    mine = task.ranges[0]
    marks = task.block(max(low, mine.start), min(high, mine.end))
    yield block, (replica, place, False, marks)


def _compare(
    ranges: tuple[ReplicaRange, ...], tables: Sequence[tuple[int, str, bool, Any]]
) -> Comparison:
    marks = (
        (number, (mark_of(place, row, placed=placed) for row in table))
        for number, place, placed, table in tables
    )
    return compare(ranges, marks)
