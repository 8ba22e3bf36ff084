"""States and changes as DataFrames: as `metadata_state` and `metadata_changes`, but computed by executors, so of any size.

    from quorum_pipeline.spark.frames import changes_frame, state_frame

    state_frame(spark, path="/var/lib/archive", table="partitions", versionAsOf="9000000").groupBy("leader").count().show()

The options are those of these data sources; the path may also be the URI of an archive in any file system that Hadoop
supports. The session needs a context. Spark Connect has none: use the data sources there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import DataFrame, SparkSession

from quorum_pipeline.files.archive_reader import ArchiveReader
from quorum_pipeline.files.archive_tasks import ArchiveSource
from quorum_pipeline.spark.hadoop_files import HadoopFiles
from quorum_pipeline.spark.options import TableOptions, changes_options, state_options
from quorum_pipeline.spark.spark_history import JobHistory
from quorum_pipeline.spark.stages import SparkStages
from quorum_pipeline.spark.table_rows import (
    CHANGE_COLUMNS,
    opened,
    rows_of_difference,
    states_between,
    table_ddl,
)
from quorum_pipeline.state.difference import Difference


def state_frame(session: SparkSession, **options: str) -> DataFrame:
    """Return a table of a state; options as for `metadata_state`. The merged state stays on executors. Raises PipelineError."""
    found = state_options(options, anywhere=True)
    stages = SparkStages(session.sparkContext)
    with _opened(found, stages) as history:
        state = history.at(found.moments[0])
    is_whole = found.table.name == "voters"
    rows = (
        stages.parallelize([*state.rows(found.table)])
        if is_whole
        else state.table_rows(found.table)
    )
    names = tuple(found.table.columns)
    return session.createDataFrame(rows.map(partial(_ordered, names)), table_ddl(found.table))


def changes_frame(session: SparkSession, **options: str) -> DataFrame:
    """Return the changes of a table; options as for `metadata_changes`. Raises PipelineError."""
    found = changes_options(options, anywhere=True)
    stages = SparkStages(session.sparkContext)
    with _opened(found, stages) as history:
        before, after = states_between(history, found.moments)
    if found.table.name == "voters":
        rows = stages.parallelize([*after.differences(before, [found.table])])
    else:
        rows = after.difference_rows(before, [found.table]).values()
    names = (*found.table.columns, *CHANGE_COLUMNS)
    changed = rows.flatMap(partial(_rows_of_difference, after.end_offset)).map(
        partial(_ordered, names)
    )
    return session.createDataFrame(changed, table_ddl(found.table, CHANGE_COLUMNS))


@contextmanager
def _opened(options: TableOptions, stages: SparkStages) -> Iterator[JobHistory]:
    if options.path is not None or options.controllers is not None:
        with opened(options, stages) as history:
            yield history
        return
    reader = ArchiveReader(HadoopFiles(stages.context), options.uri)
    with TemporaryDirectory(prefix="quorum-pipeline-") as scratch:
        yield JobHistory(stages, ArchiveSource(reader, Path(scratch)))


# -- on executors


def _ordered(names: tuple[str, ...], row: dict[str, object]) -> tuple[object, ...]:
    return tuple(row[name] for name in names)


def _rows_of_difference(version: int, difference: Difference) -> Iterator[dict[str, object]]:
    yield from rows_of_difference(difference, version)
