"""Reads a span of a log, a range of an archive, or a snapshot for a timeline.

Runs wherever the files are. Damage is reported and stops the reading; unknown records are ignored.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.archived_records import file_groups
from quorum_pipeline.files.log_directory import LogSpan
from quorum_pipeline.files.log_rows import UNKNOWN_EPOCH, span_rows
from quorum_pipeline.files.sealed_file import opened
from quorum_pipeline.files.snapshot_file import SnapshotFile
from quorum_pipeline.rows.arrow import record_batch
from quorum_pipeline.rows.column_types import arrow_schema
from quorum_pipeline.rows.gathering import AnyRows
from quorum_pipeline.rows.table import Rows
from quorum_pipeline.state.log_columns import first_wrong
from quorum_pipeline.state.log_record import misplaced, missing
from quorum_pipeline.timeline.span import COLUMNS, Part, TimelineSpan

SCHEMA = arrow_schema(COLUMNS)
_NO_END = (1 << 63) - 1
_NARROW = 1 << 17
"""Rows of an archive that are processed together."""


@dataclass(frozen=True, slots=True)
class LogTask:
    """A span of a log."""

    span: LogSpan

    def read(self) -> TimelineSpan:
        """Read the span. Raises PipelineError on damage, OSError."""
        return timeline_span(span_rows(self.span, 0, _NO_END, keep_problems=True))


@dataclass(frozen=True, slots=True)
class RangeTask:
    """The records of an archive from `start` on and below `end`: all records of a directory."""

    directory: Path
    start: int
    end: int

    def under(self, root: Path) -> "RangeTask":
        """See `fetched.ArchiveTask`."""
        return replace(self, directory=root / self.directory)

    def read(self) -> TimelineSpan:
        """Read the range. Raises PipelineError, also if records are missing, and OSError."""
        found, expected = TimelineSpan(), self.start
        for group in file_groups(self.directory, 0, _NO_END):
            table = pa.concat_tables([_read(path) for path in group])
            if len(group) > 1:
                table = table.sort_by("offset")
            for batch in table.combine_chunks().to_batches(max_chunksize=_NARROW):
                offsets = batch.column("offset").to_numpy(zero_copy_only=False)
                wrong = first_wrong(offsets, expected)
                if wrong is not None:
                    raise PipelineError(
                        f"{self.directory}: {misplaced(offsets[wrong], expected + wrong)}"
                    )
                expected += len(batch)
                found.add(batch)
        if expected != self.end:
            raise PipelineError(f"{self.directory}: {missing(expected, self.end)}")
        return found


@dataclass(frozen=True, slots=True)
class KnownTask:
    """A snapshot before the first record of a log: the state at its start."""

    file: SnapshotFile

    def under(self, root: Path) -> "KnownTask":
        """See `fetched.ArchiveTask`."""
        return KnownTask(replace(self.file, path=root / self.file.path))

    def read(self) -> TimelineSpan:
        """Read its records, as if they were at its end offset. Raises PipelineError, OSError."""
        offset, epoch = self.file.id.end_offset, self.file.id.epoch
        time_ms = self.file.bounds().last_contained_log_timestamp_ms
        found = TimelineSpan()
        for position, batch in self.file.batches():
            if batch.header.is_control:
                continue
            rows = Rows(str(self.file.path))
            rows.add(batch, position, 0, _NO_END)
            rows.offsets = [offset] * len(rows)
            rows.epochs = [epoch] * len(rows)
            rows.timestamps_ms = [time_ms] * len(rows)
            found.add(record_batch(rows, SCHEMA))
        head = found.pieces[0]
        head.drop_repetitions()
        edges = head.edges.filter(head.edges.column("on"))
        known = pa.array(np.ones(len(edges), np.bool_))
        edges = edges.set_column(edges.schema.get_field_index("known"), "known", known)
        created = [_without_times(each) for each in head.created]
        found.pieces[0] = Part(edges, created, [], [replace(e, known=True) for e in head.brokers])
        found.first = found.last = None
        return found


def _without_times(created: pa.Table) -> pa.Table:
    place = created.schema.get_field_index("time_ms")
    return created.set_column(place, "time_ms", pa.nulls(len(created), pa.int64()))


def timeline_span(blocks: Iterable[AnyRows]) -> TimelineSpan:
    """Return what a timeline needs of consecutive rows. Raises PipelineError if batches could not be read."""
    found = TimelineSpan()
    for rows in blocks:
        if isinstance(rows, Rows):
            _check_readable(rows)
        found.add(record_batch(rows, SCHEMA))
    return found


def _check_readable(rows: Rows) -> None:
    """Raise PipelineError if batches could not be read."""
    for row, (content, epoch, value) in enumerate(
        zip(rows.contents, rows.epochs, rows.values, strict=True)
    ):
        if content.problem is not None and (value is None or epoch == UNKNOWN_EPOCH):
            place = f"byte {rows.positions[row]}, offset {rows.offsets[row]}"
            raise PipelineError(f"{rows.source} is damaged at {place}: {content.problem}")


def _read(path: Path) -> pa.Table:
    """Read the required columns; missing ones are null."""
    with opened(path, coerce_int96_timestamp_unit="us") as file:
        have = file.schema_arrow
        wanted = []
        for field in SCHEMA:
            if field.name not in have.names:
                continue
            if pa.types.is_struct(field.type):
                inner = {each.name for each in have.field(field.name).type}
                wanted += [f"{field.name}.{e.name}" for e in field.type if e.name in inner]
            elif field.name not in ("record_key", "value") or _is_for_objects(have.names):
                wanted.append(field.name)
        table = file.read(wanted, use_threads=False)
    columns = [_uniform(table, field) for field in SCHEMA]
    return pa.table(columns, schema=SCHEMA)


def _is_for_objects(names: list[str]) -> bool:
    """Whether the file may contain records that are decoded to objects: not in a file with only partitions or topics."""
    typed = {"partition", "partition_change", "topic", "remove_topic", "config"}
    return not typed & set(names) or "leader_change" in names


def _uniform(table: pa.Table, field: pa.Field) -> pa.ChunkedArray | pa.Array:
    if field.name not in table.column_names:
        return pa.nulls(len(table), field.type)
    column = table.column(field.name)
    if not pa.types.is_struct(field.type):
        return column.cast(field.type, safe=False)
    return pa.chunked_array([_struct(each, field.type) for each in column.chunks], field.type)


def _struct(column: pa.StructArray, kind: pa.StructType) -> pa.StructArray:
    have = {each.name for each in column.type}
    parts = [
        column.field(each.name).cast(each.type)
        if each.name in have
        else pa.nulls(len(column), each.type)
        for each in kind
    ]
    return pa.StructArray.from_arrays(parts, fields=list(kind), mask=column.is_null())
