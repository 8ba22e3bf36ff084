"""Rows of a state, or the changes between two, as Arrow batches, made in one task on any machine that can read the files.

Owns the columns of changes: `_change_type` as in Delta's change feed, and `_commit_version`, the offset of the later state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from quorum_pipeline.archive.layout import RECORDS
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.rows.ddl import ddl_of
from quorum_pipeline.state.tables import Row, StateTable

if TYPE_CHECKING:
    import pyarrow as pa

    from quorum_pipeline.spark.options import TableOptions
    from quorum_pipeline.spark.spark_history import JobHistory
    from quorum_pipeline.spark.stages import Stages
    from quorum_pipeline.spark.state_job import SparkState
    from quorum_pipeline.state.difference import Difference
    from quorum_pipeline.state.moment import Moment

CHANGE_COLUMNS = {"_change_type": "string", "_commit_version": "bigint"}
INSERT, DELETE, BEFORE, AFTER = "insert", "delete", "update_preimage", "update_postimage"
_ROWS_AT_ONCE = 50_000


def table_ddl(table: StateTable, more: dict[str, str] | None = None) -> str:
    """Return the columns of a table, and `more`, as DDL for a Spark schema."""
    return ddl_of(table.columns | (more or {}))


@contextmanager
def opened(options: TableOptions, stages: Stages) -> Iterator[JobHistory]:
    """Open the history of the archive or log at a path, or of a running quorum. Raises PipelineError."""
    from quorum_pipeline.files.archive_reader import ArchiveReader
    from quorum_pipeline.files.archive_tasks import ArchiveSource
    from quorum_pipeline.files.local_files import LocalFiles
    from quorum_pipeline.live.live_tasks import LiveSource
    from quorum_pipeline.spark.spark_history import DirectorySource, JobHistory

    if options.controllers is not None:
        yield JobHistory(stages, LiveSource(options.controllers))
        return
    path = options.path
    assert path is not None, "its options were checked"
    with TemporaryDirectory(prefix="quorum-pipeline-") as scratch:
        if (path / RECORDS).is_dir():
            reader = ArchiveReader(LocalFiles(), str(path))
            yield JobHistory(stages, ArchiveSource(reader, Path(scratch)))
        else:
            yield JobHistory(stages, DirectorySource(path))


def state_rows(options: TableOptions) -> Iterator[Row]:
    """Yield the rows of a state in order. Raises PipelineError."""
    from quorum_pipeline.spark.stages import StagesHere

    with opened(options, StagesHere(1)) as history, history:
        yield from history.at(options.moments[0]).rows(options.table)


def states_between(history: JobHistory, moments: Sequence[Moment]) -> list[SparkState]:
    """Return the states at two moments. A time is that of an offset, at which the log may be read in one pass.

    Raises PipelineError, also if the second one is earlier; Spark's errors.
    """
    from quorum_pipeline.state.moment import Moment

    start, end = (
        each if each.time_ms is None else Moment(offset=history.at(each).end_offset)
        for each in moments
    )
    assert start.offset is not None, "it was specified"
    if end.offset is not None and end.offset < start.offset:
        raise PipelineError(
            f"the wanted changes start at offset {start.offset}, after their end at {end.offset}"
        )
    return history.states((start, end))


def change_rows(options: TableOptions) -> Iterator[Row]:
    """Yield the changes of a table; the old row comes before the new one. Raises PipelineError."""
    from quorum_pipeline.spark.stages import StagesHere

    with opened(options, StagesHere(1)) as history, history:
        before, after = states_between(history, options.moments)
        for each in after.differences(before, [options.table]):
            yield from rows_of_difference(each, after.end_offset)


def rows_of_difference(each: Difference, version: int) -> Iterator[Row]:
    """Yield the rows of a difference."""
    is_update = each.before is not None and each.after is not None
    if each.before is not None:
        kind = BEFORE if is_update else DELETE
        yield each.before | {"_change_type": kind, "_commit_version": version}
    if each.after is not None:
        kind = AFTER if is_update else INSERT
        yield each.after | {"_change_type": kind, "_commit_version": version}


def batches(rows: Iterator[Row], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Convert rows to Arrow batches with only the columns of the schema."""
    import pyarrow as pa

    while some := list(islice(rows, _ROWS_AT_ONCE)):
        yield pa.RecordBatch.from_pylist(some, schema=schema)
