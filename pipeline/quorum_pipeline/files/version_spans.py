"""Records of a span of a log, or of a range of an archive, for the versions of rows.

Runs wherever the files are readable, and reads nothing outside of the span. Damage and missing records are errors.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from quorum_node.records.batches import CorruptBatch
from quorum_pipeline.archive.layout import RECORDS
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.archive_reader import ArchiveReader
from quorum_pipeline.files.archive_tasks import Groups
from quorum_pipeline.files.archived_records import read_records
from quorum_pipeline.files.log_directory import LogDirectory, LogSpan
from quorum_pipeline.files.log_span import Damage, read_span
from quorum_pipeline.files.snapshot_file import SnapshotFile, first_snapshot
from quorum_pipeline.state.log_record import LogRecord, misplaced, missing, records_of_batch

SPAN_BYTES = 4 << 20
"""Bytes of a log that one task reads: about 65 000 records."""
SPAN_RECORDS = 65_536
"""Records of an archive that one task reads."""


@dataclass(frozen=True, slots=True)
class LogRecords:
    """Records of a span from `start` on and below `end`."""

    span: LogSpan
    start: int
    end: int

    def records(self) -> Iterator[LogRecord]:
        """Yield the records in order. Raises PipelineError on damage, OSError."""
        expected = self.start
        for each in read_span(self.span):
            if isinstance(each, Damage):
                if each.offset >= self.end:
                    return
                raise PipelineError(str(each))
            header = each.batch.header
            if header.end_offset <= self.start:
                continue
            if header.base_offset >= self.end:
                break
            if max(header.base_offset, self.start) != expected:
                raise PipelineError(f"{self.span.path}: {misplaced(header.base_offset, expected)}")
            try:
                yield from records_of_batch(each.batch, self.start, self.end)
            except CorruptBatch as error:
                raise PipelineError(f"{self.span.path}, offset {expected}: {error}") from None
            expected = header.end_offset
        if expected < self.end:
            raise PipelineError(f"{self.span.path}: {missing(expected, self.end)}")


@dataclass(frozen=True, slots=True)
class ArchivedRecords:
    """Records of a range from `start` on and below `end`."""

    directory: Path
    start: int
    end: int

    def under(self, root: Path) -> "ArchivedRecords":
        """See `fetched.ArchiveTask`."""
        return replace(self, directory=root / self.directory)

    def records(self) -> Iterator[LogRecord]:
        """Yield the records in order. Raises PipelineError, also if some are missing, OSError."""
        expected = self.start
        for each in read_records(self.directory, 1, self.start, self.end):
            some = each.from_offset(self.start).before_offset(self.end)
            wrong = some.first_wrong(expected)
            if wrong is not None:
                found = int(some.offsets[wrong])
                raise PipelineError(f"{self.directory}: {misplaced(found, expected + wrong)}")
            expected += len(some)
            yield from map(some.record, range(len(some)))
        if expected != self.end:
            raise PipelineError(f"{self.directory}: {missing(expected, self.end)}")


class VersionTask(Protocol):
    """Reads records from `start` on and below `end`."""

    @property
    def start(self) -> int:
        """See above."""

    @property
    def end(self) -> int:
        """See above."""

    def records(self) -> Iterator[LogRecord]:
        """Yield the records in order. Raises PipelineError, OSError."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """The start of versions: an empty state, or that of a snapshot with the time `time_ms`."""

    offset: int
    time_ms: int | None


def beginning(snapshot: SnapshotFile | None) -> Beginning:
    """Return the start after a snapshot, or at the first record. Raises PipelineError, OSError."""
    if snapshot is None:
        return Beginning(0, None)
    return Beginning(snapshot.id.end_offset, snapshot.bounds().last_contained_log_timestamp_ms)


def log_beginning(log: LogDirectory) -> Beginning:
    """Return the start of a log. Raises PipelineError if no snapshot covers the records before it, OSError."""
    return beginning(first_snapshot(log))


def log_tasks(log: LogDirectory, start: int, end: int) -> list[VersionTask]:
    """Split the records from `start` on and below `end` into tasks."""
    found: list[VersionTask] = []
    for span in log.spans(start, SPAN_BYTES, end):
        begin = max(span.base_offset, start)
        stop = end if span.end_offset is None else min(span.end_offset, end)
        if begin < stop:
            found.append(LogRecords(span, begin, stop))
    return found


def archive_tasks(reader: ArchiveReader, start: int, end: int, groups: Groups) -> list[VersionTask]:
    """Split records of an archive into tasks. `groups`: files of ranges that were looked up before. Raises PipelineError, OSError.

    A task that gets its files has those of one group, as each task would fetch them again.
    """
    found: list[VersionTask] = []
    for each in reader.ranges():
        first, last = max(each.start, start), min(each.end, end)
        if first >= last:
            continue
        directory = Path(RECORDS) / each.directory
        if reader.mounted is not None:
            for begin in range(first, last, SPAN_RECORDS):
                task = ArchivedRecords(directory, begin, min(begin + SPAN_RECORDS, last))
                found.append(reader.task(task, ()))
            continue
        if each not in groups:
            groups[each] = reader.groups(each)
        for group in groups[each]:
            begin, stop = max(group.start, first), min(group.end, last)
            if begin < stop:
                found.append(reader.task(ArchivedRecords(directory, begin, stop), group.files))
    return found
