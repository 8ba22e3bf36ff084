"""An archive of a log as the pipeline's workers write it, without Spark: for what reads archives.

Owns the order in which a range is written. What is in its files is decided by the same code as in production.
"""

from itertools import pairwise
from pathlib import Path

from quorum_pipeline.archive.layout import MARKER, QUARANTINE, RECORDS, Marker, OffsetRange
from quorum_pipeline.files.archive_part import write_part
from quorum_pipeline.files.log_directory import open_log
from quorum_pipeline.files.log_rows import span_rows
from quorum_pipeline.files.written_parts import keep_only
from quorum_pipeline.rows.column_types import arrow_schema
from quorum_pipeline.rows.table import table_columns

_COLUMNS = arrow_schema({name: kind for name, kind in table_columns().items() if name != "data"})


def write_archive(root: Path, log: Path, *borders: int) -> list[Path]:
    """A range from each border to the next one, in as many parts as the log has segments; their directories."""
    return [_write_range(root, log, OffsetRange(start, end)) for start, end in pairwise(borders)]


def _write_range(root: Path, log: Path, wanted: OffsetRange) -> Path:
    records, apart = (root / table / wanted.directory for table in (RECORDS, QUARANTINE))
    parts = []
    for number, span in enumerate(open_log(log).spans(wanted.start, 1 << 30)):
        rows = span_rows(span, wanted.start, wanted.end, keep_problems=True)
        parts.append(write_part(rows, _COLUMNS, f"part-{number}", records, apart))
    keep_only(records, {name for part in parts for name in part.records}, _COLUMNS)
    keep_only(apart, {name for part in parts for name in part.quarantine}, _COLUMNS)
    marker = Marker(sum(each.rows for each in parts), sum(each.quarantined for each in parts))
    (records / MARKER).write_text(marker.text())
    return records
