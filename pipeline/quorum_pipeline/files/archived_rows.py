"""Records of an archive with all their columns, as Arrow batches.

Owns which files are read for a range of offsets, and that nothing is missing: the files are opened before the first row is
returned, so that a merge that replaces them meanwhile does no harm. Must not know Spark.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from quorum_pipeline.archive.damage import REPLACED
from quorum_pipeline.archive.layout import QUARANTINE, RECORDS, OffsetRange
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.archive_reader import ArchiveReader
from quorum_pipeline.files.local_files import LocalFiles
from quorum_pipeline.files.sealed_file import naming, open_sealed, parquet_files
from quorum_pipeline.rows.gathering import ROWS_AT_ONCE

_TRIES = 5
"""Each further try means that a merge was completed since the last one."""


@dataclass(frozen=True, slots=True)
class _Opened:
    path: Path
    file: pq.ParquetFile

    def batches(self, schema: pa.Schema, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Read the rows of these offsets. Raises PipelineError, OSError."""
        there = set(self.file.schema_arrow.names)
        names = [each.name for each in schema if each.name in there]
        with naming(self.path):
            for batch in self.file.iter_batches(ROWS_AT_ONCE, columns=[*{"offset", *names}]):
                offsets = batch.column("offset")
                wanted = pc.and_(pc.greater_equal(offsets, start), pc.less(offsets, end))
                some = batch.filter(wanted)
                if len(some):
                    yield _converted(some, schema)


def archived_rows(
    root: Path, start: int, end: int, schema: pa.Schema, *, keep_problems: bool
) -> Iterator[pa.RecordBatch]:
    """Read all records from `start` on and below `end`, in no particular order; columns that a file lacks are null.

    With `keep_problems` also the rows in quarantine. Raises PipelineError if records are missing, in quarantine without
    `keep_problems`, or damaged; OSError.
    """
    with ExitStack() as stack:
        records, quarantined = _opened(root, start, end, stack)
        if not keep_problems:
            _check_none(quarantined, start, end)
        for each in records + quarantined if keep_problems else records:
            yield from each.batches(schema, start, end)


def _opened(
    root: Path, start: int, end: int, stack: ExitStack
) -> tuple[list[_Opened], list[_Opened]]:
    """Open the files of records, and those of quarantined rows."""
    for left in reversed(range(_TRIES)):
        with ExitStack() as opening:
            try:
                found = _open_ranges(
                    ArchiveReader(LocalFiles(), str(root)), root, start, end, opening
                )
            except (FileNotFoundError, PipelineError):
                if not left:
                    raise
                continue
            stack.push(opening.pop_all())
            return found
    raise AssertionError("the last try returns or raises")


def _open_ranges(
    reader: ArchiveReader, root: Path, start: int, end: int, stack: ExitStack
) -> tuple[list[_Opened], list[_Opened]]:
    records, quarantined = list[_Opened](), list[_Opened]()
    for each in _covering(reader.ranges(), root, start, end):
        marker = reader.marker(each)
        found = _open_all(root / RECORDS / each.directory, stack)
        _check_count(each, root / RECORDS, found, marker.rows)
        apart = _open_all(root / QUARANTINE / each.directory, stack) if marker.quarantined else []
        _check_count(each, root / QUARANTINE, apart, marker.quarantined)
        records += found
        quarantined += apart
    return records, quarantined


def _covering(ranges: Sequence[OffsetRange], root: Path, start: int, end: int) -> list[OffsetRange]:
    """The ranges with offsets from `start` on and below `end`. Raises PipelineError if some are missing."""
    if not ranges or start < ranges[0].start or end > ranges[-1].end:
        held = f"offsets {ranges[0].start} to {ranges[-1].end}" if ranges else "no records"
        raise PipelineError(f"the archive at {root} has {held}, and not {start} to {end}")
    return [each for each in ranges if each.start < end and each.end > start]


def _open_all(directory: Path, stack: ExitStack) -> list[_Opened]:
    return [
        # Spark writes timestamps as INT96, by default read as nanoseconds, which end in the year 2262.
        _Opened(path, stack.enter_context(open_sealed(path, coerce_int96_timestamp_unit="us")))
        for path in parquet_files(directory)
    ]


def _check_count(range: OffsetRange, table: Path, files: Sequence[_Opened], expected: int) -> None:
    found = sum(each.file.metadata.num_rows for each in files)
    if found != expected:
        raise PipelineError(
            f"{table / range.directory} has {found} rows, and its marker says {expected}: {REPLACED}"
        )


def _check_none(quarantined: Sequence[_Opened], start: int, end: int) -> None:
    schema = pa.schema([("offset", pa.int64()), ("problem", pa.string())])
    for each in quarantined:
        for batch in each.batches(schema, start, end):
            offset, problem = (batch.column(name)[0].as_py() for name in schema.names)
            raise PipelineError(
                f"{each.path}: the record at offset {offset} is in quarantine ({problem}). Set onProblem to keep to read "
                "it as a row with a problem"
            )


def _converted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    arrays = [
        batch.column(each.name).cast(each.type, safe=False)
        if each.name in batch.schema.names
        else pa.nulls(len(batch), each.type)
        for each in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
