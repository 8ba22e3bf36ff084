"""Writes the records of a log on the executors that decode them: each task writes its own files, in parallel.

Owns the path from tasks to the files of an archive's directory. Rows never leave the Python worker that decodes them: the
JVM would convert every column of every record to a value and back. On a file system that every executor mounts the worker
writes there, elsewhere it makes whole files, which Spark writes (`stored_files.py`). Spark schedules the tasks and repeats
those that were lost.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import SparkContext

from quorum_pipeline.archive.layout import DELTAS, QUARANTINE, RECORDS
from quorum_pipeline.files.written_parts import ALL_COLUMNS, Part, keep_deltas, keep_only
from quorum_pipeline.spark.fetched_rows import local_directory
from quorum_pipeline.spark.origins import DecodingTask, LogTask
from quorum_pipeline.spark.stored_files import FileStore, file_rows


def write_tasks(
    context: SparkContext,
    tasks: Sequence[LogTask],
    schema: pa.Schema,
    records: Path,
    quarantine: Path,
    deltas: Path,
) -> list[Part]:
    """Write records and their delta; return the written parts. Files of lost attempts are removed.

    Raises Spark's errors, and PipelineError.
    """
    writer = _Writer(schema, records, quarantine, deltas)
    parts = context.parallelize(tasks, len(tasks)).mapPartitions(writer).collect()
    records.mkdir(parents=True, exist_ok=True)
    keep_only(records, {name for each in parts for name in each.records}, schema)
    keep_only(quarantine, {name for each in parts for name in each.quarantine}, schema)
    keep_deltas(deltas, {each.delta for each in parts if each.delta})
    return parts


def store_tasks(
    store: FileStore,
    tasks: Sequence[LogTask],
    schema: pa.Schema,
    scratch: str,
    targets: Mapping[str, str],
) -> Part:
    """Like `write_tasks`, for a file system that executors do not mount; return the sum of the parts.

    `targets`: directories of records, quarantine and deltas. Raises Spark's errors, and PipelineError.
    """
    context = store.session.sparkContext
    made = context.parallelize(tasks, len(tasks)).mapPartitions(_Maker(schema))
    found = store.write(made, scratch, targets)
    with TemporaryDirectory(prefix="quorum-pipeline-") as here:
        path = Path(here) / ALL_COLUMNS
        pq.write_metadata(schema, path)
        for place, names in ((RECORDS, found.records), (QUARANTINE, found.quarantine)):
            if names or place == RECORDS:
                store.files.upload(str(path), f"{targets[place]}/{ALL_COLUMNS}")
    return found


@dataclass(frozen=True, slots=True)
class Stage:
    """A Spark stage: number of its tasks, of those that have ended, and of those that are running on an executor."""

    id: int
    tasks: int
    done: int
    active: int


def stages(context: SparkContext) -> list[Stage]:
    """Return the active stages."""
    tracker = context.statusTracker()
    found = map(tracker.getStageInfo, sorted(tracker.getActiveStageIds()))
    return [
        Stage(each.stageId, each.numTasks, each.numCompletedTasks, each.numActiveTasks)
        for each in found
        if each is not None
    ]


@dataclass(frozen=True)
class _Writer:
    schema: pa.Schema
    records: Path
    quarantine: Path
    deltas: Path

    def __call__(self, tasks: Iterable[LogTask]) -> Iterator[Part]:
        """Write tasks, on an executor. Each file name is used once, so that no part refers to a file of a lost attempt."""
        from quorum_pipeline.files.archive_part import write_part
        from quorum_pipeline.files.delta_builder import DeltaBuilder

        for task in tasks:
            assert isinstance(task, DecodingTask), "a log is archived, not an archive"
            tap, stem = DeltaBuilder(), f"part-{uuid4()}"
            blocks = tap.through(task.rows(keep_problems=True))
            part = write_part(blocks, self.schema, stem, self.records, self.quarantine)
            part.delta, part.delta_rows = tap.write(self.deltas)
            yield part


@dataclass(frozen=True)
class _Maker:
    schema: pa.Schema

    def __call__(self, tasks: Iterable[LogTask]) -> Iterator[tuple[Any, ...]]:
        """Execute tasks, on an executor; yield their files (`stored_files.file_rows`)."""
        with TemporaryDirectory(prefix="quorum-pipeline-", dir=local_directory()) as scratch:
            root = Path(scratch)
            write = _Writer(self.schema, root / RECORDS, root / QUARANTINE, root / DELTAS)
            for part in write(tasks):
                yield from file_rows(part, root)
