"""An audit of replicas and archives: verifies all checksums, and that all have the same history.

Each executor task reads a span and returns digests by block of offsets. The driver compares digests; the batches of
blocks that differ are read again and compared on executors, one block per task. The driver decodes no batch and stores
a few bytes per 65 536 offsets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quorum_pipeline.archive.layout import MARKER, QUARANTINE, RECORDS, OffsetRange
from quorum_pipeline.audit.digests import BEGIN, BLOCK, BLOCK_OFFSETS, FINISH, FROM, joined
from quorum_pipeline.audit.findings import Finding
from quorum_pipeline.audit.log_matching import (
    Comparison,
    Matching,
    ReplicaRange,
    agreement,
    compare,
    matching,
)
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.audited_archive import AuditRange
from quorum_pipeline.files.audited_span import Audited, AuditSpan, fingerprint_of
from quorum_pipeline.files.fetched import Fetched
from quorum_pipeline.files.log_directory import LogDirectory, open_log
from quorum_pipeline.files.log_span import lost_records
from quorum_pipeline.files.span_tasks import MAX_BYTES, MIN_BYTES, TASKS_PER_SLOT
from quorum_pipeline.redaction import redacted
from quorum_pipeline.spark.task_results import where

if TYPE_CHECKING:
    from quorum_pipeline.files.archive_reader import ArchiveReader
    from quorum_pipeline.spark.stages import Stages

_NO_END = (1 << 63) - 1
_RANGES_AHEAD = 8
"""Maximum number of an archive's ranges that one batch is in."""
_BATCH_RECORDS = 1 << 20
"""Maximum number of records of a batch: a record takes at least eight bytes, and a controller writes at most 8 MiB."""
_Files = tuple[list[str], list[tuple[str, str]]]
"""Files of an archive, and small files as pairs of name and text."""
Task = AuditSpan | AuditRange | Fetched


@dataclass(frozen=True, slots=True)
class Replica:
    """What is audited: the log in a directory, or an archive. `tasks` are in order of offsets; `ranges`: one per task of an archive."""

    name: str
    start_offset: int
    tasks: tuple[Task, ...]
    size_bytes: int
    log: LogDirectory | None = None
    reader: ArchiveReader | None = None
    ranges: tuple[OffsetRange, ...] = ()

    @property
    def is_archive(self) -> bool:
        """Whether it is an archive: that may end within a batch, and has no positions in the files of a log."""
        return self.log is None


@dataclass(frozen=True, slots=True)
class Read:
    """The result of one task: the replica that it read, the result, and the executor on which it ran."""

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
        """Number of batches of all replicas."""
        return sum(each.found.batches for each in self.reads)

    @property
    def suspects(self) -> set[str]:
        """Names of replicas with findings."""
        return {each.replica for each in self.findings}


def log_replica(path: Path, slots: int, span_bytes: int | None = None) -> Replica:
    """Return the log in a directory as a replica. Raises PipelineError if there is no log."""
    log = open_log(path)
    total = sum(each.size_bytes for each in log.segments)
    target = span_bytes or min(max(total // (slots * TASKS_PER_SLOT), MIN_BYTES), MAX_BYTES)
    tasks = tuple(AuditSpan(each) for each in log.spans(log.start_offset, target))
    return Replica(str(path), log.start_offset, tasks, total, log)


def archive_replica(name: str, reader: ArchiveReader) -> Replica:
    """Return an archive as a replica. Raises PipelineError."""
    found = reader.contents()
    tasks = tuple(_archive_tasks(reader, found.ranges))
    size_bytes = reader.size_bytes()
    return Replica(
        redacted(name), found.start, tasks, size_bytes, reader=reader, ranges=found.ranges
    )


def _archive_tasks(reader: ArchiveReader, ranges: tuple[OffsetRange, ...]) -> Iterator[Any]:
    heads: dict[OffsetRange, _Files] = {}
    for number in range(len(ranges)):
        ahead = ranges[number : number + _RANGES_AHEAD]
        task = AuditRange(Path(), ahead)
        if reader.mounted is not None:
            yield reader.task(task, ())
            continue
        files, texts = _all_of(reader, ahead[0])
        files += reader.parquet_files(f"{QUARANTINE}/{ahead[0].directory}")
        for each in _holding_a_batch(ahead[1:]):
            if each not in heads:
                heads[each] = _head_of(reader, each)
            files, texts = files + heads[each][0], texts + heads[each][1]
        yield reader.task(task, files, texts)


def _all_of(reader: ArchiveReader, range: OffsetRange) -> _Files:
    """Return the record files of a range, and the marker against which they are verified."""
    directory = f"{RECORDS}/{range.directory}"
    marker = f"{directory}/{MARKER}"
    return reader.parquet_files(directory), [(marker, reader.text(marker) or "")]


def _head_of(reader: ArchiveReader, range: OffsetRange) -> _Files:
    """Return the files of its first records, which may contain the end of the previous range's last batch."""
    try:
        return [*reader.groups(range)[0].files], []
    except (PipelineError, IndexError):
        return _all_of(reader, range)  # the task that reads it reports the error


def _holding_a_batch(ranges: Sequence[OffsetRange]) -> Iterator[OffsetRange]:
    """Yield the ranges that may contain the end of a batch."""
    records = 0
    for each in ranges:
        if records >= _BATCH_RECORDS:
            return
        yield each
        records += len(each)


def audit_logs(stages: Stages, replicas: Sequence[Replica]) -> LogAudit:
    """Audit the logs of replicas. Raises PipelineError, OSError, and Spark's errors."""
    items = [
        (number, place, task)
        for number, each in enumerate(replicas)
        for place, task in enumerate(each.tasks)
    ]
    stages.describe(f"digests of {len(replicas)} logs in {len(items)} spans")
    reads: list[Read] = sorted(
        stages.parallelize(items).flatMap(_digests).collect(),
        key=lambda each: (each.replica, each.task),
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
    findings += [each for replica in replicas for each in (*_lost(replica), *_beginning(replica))]
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


def _beginning(replica: Replica) -> Iterator[Finding]:
    """Yield a finding if the first records are missing, and no snapshot has the state before the others."""
    known = 0
    if replica.log is not None and replica.log.snapshots:
        known = replica.log.snapshots[-1].end_offset
    elif replica.reader is not None:
        known = replica.reader.known_end()
    if known < replica.start_offset:
        what = f"the records of offsets {known} to {replica.start_offset} are missing, and no snapshot has their state"
        yield Finding(replica.name, "", None, known, what)


def _range(replica: Replica, reads: Sequence[Read]) -> ReplicaRange:
    """Join the results of a replica's tasks."""
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
        epoch,
        0 if replica.log is None else replica.log.known_committed_end(),
    )


def _compare_blocks(
    stages: Stages,
    replicas: Sequence[Replica],
    ranges: Sequence[ReplicaRange],
    reads: Sequence[Read],
    blocks: Sequence[int],
) -> list[Comparison]:
    """Compare the batches of blocks that differ."""
    wanted = set(blocks)
    items = []
    for each in reads:
        replica = replicas[each.replica]
        task = replica.tasks[each.task]
        for row in each.found.blocks.tolist():
            if row[BLOCK] not in wanted:
                continue
            what: tuple[int, ...] = (row[BEGIN], row[FINISH], row[FROM])
            if replica.is_archive:
                low, high = row[BLOCK] * BLOCK_OFFSETS, (row[BLOCK] + 1) * BLOCK_OFFSETS
                mine = replica.ranges[each.task]
                what = (max(low, mine.start), min(high, mine.end))
            items.append((row[BLOCK], each.replica, each.found.place, task, what))
    if not items:
        return []
    stages.describe(f"batches of {len(blocks)} blocks that differ")
    batches = stages.parallelize(items).flatMap(_batches)
    found = batches.groupByKey().mapValues(partial(_compare, tuple(ranges))).collect()
    return [each for _, each in sorted(found, key=lambda keyed: keyed[0])]


# -- on executors


def _digests(item: tuple[int, int, Task]) -> Iterator[Read]:
    number, place, task = item
    yield Read(number, place, task.audited(), where())


def _batches(
    item: tuple[int, int, str, Task, tuple[int, ...]],
) -> Iterator[tuple[int, tuple[int, str, bool, Any]]]:
    """Yield the batches of a block within one task's span. Only batches of a log have a position in a file."""
    block, replica, place, task, what = item
    yield block, (replica, place, isinstance(task, AuditSpan), task.block(*what))


def _compare(
    ranges: tuple[ReplicaRange, ...], tables: Sequence[tuple[int, str, bool, Any]]
) -> Comparison:
    batches = (
        (number, (fingerprint_of(place, row, placed=placed) for row in table))
        for number, place, placed, table in tables
    )
    return compare(ranges, batches)
