"""Writes an archive of a log like the pipeline's workers, and reads states from it like commands, without Spark.

Owns the order in which a range is written. The content of the files is made by the production code.
"""

from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from quorum_pipeline.archive.layout import DELTAS, MARKER, QUARANTINE, RECORDS, Marker, OffsetRange
from quorum_pipeline.files.archive_part import write_part
from quorum_pipeline.files.archive_reader import ArchiveReader
from quorum_pipeline.files.archive_tasks import ArchiveSource
from quorum_pipeline.files.delta_builder import DeltaBuilder
from quorum_pipeline.files.local_files import LocalFiles
from quorum_pipeline.files.log_directory import open_log
from quorum_pipeline.files.log_rows import span_rows
from quorum_pipeline.files.written_parts import keep_only
from quorum_pipeline.rows.column_types import arrow_schema
from quorum_pipeline.rows.table import table_columns
from quorum_pipeline.spark.spark_history import JobHistory
from quorum_pipeline.spark.stages import StagesHere
from quorum_pipeline.spark.state_job import SparkState
from quorum_pipeline.state.moment import Moment

_COLUMNS = arrow_schema({name: kind for name, kind in table_columns().items() if name != "data"})


def write_archive(root: Path, log: Path, *borders: int, deltas: bool = False) -> list[Path]:
    """A range from each border to the next one, in as many parts as the log has segments; their directories."""
    ranges = [OffsetRange(start, end) for start, end in pairwise(borders)]
    return [_write_range(root, log, each, deltas=deltas) for each in ranges]


def _write_range(root: Path, log: Path, wanted: OffsetRange, *, deltas: bool) -> Path:
    records, apart, reported = (
        root / table / wanted.directory for table in (RECORDS, QUARANTINE, DELTAS)
    )
    parts, delta_rows = [], 0
    for number, span in enumerate(open_log(log).spans(wanted.start, 1 << 30)):
        rows = span_rows(span, wanted.start, wanted.end, keep_problems=True)
        tap = DeltaBuilder()
        rows = tap.through(rows)
        parts.append(write_part(rows, _COLUMNS, f"part-{number}", records, apart))
        delta_rows += tap.write(reported)[1] if deltas else 0
    keep_only(records, {name for part in parts for name in part.records}, _COLUMNS)
    keep_only(apart, {name for part in parts for name in part.quarantine}, _COLUMNS)
    rows_of = (sum(each.rows for each in parts), sum(each.quarantined for each in parts))
    marker = Marker(*rows_of, delta_rows)
    (records / MARKER).write_text(marker.text())
    return records


def archived_state(root: Path, moment: Moment) -> SparkState:
    """The state at a moment, as commands have it without Spark. Raises PipelineError."""
    reader = ArchiveReader(LocalFiles(), str(root))
    with (
        TemporaryDirectory() as scratch,
        JobHistory(StagesHere(2), ArchiveSource(reader, Path(scratch))) as history,
    ):
        return history.at(moment)
