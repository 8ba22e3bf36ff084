"""Completes a directory of an archive after all tasks have written their parts.

Removes files of lost attempts, and writes the file with all columns. `archive_part.py` writes the parts.
"""

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from quorum_pipeline.errors import PipelineError

ALL_COLUMNS = "_common_metadata"
"""A file with all columns and no rows, from which readers of a directory, such as Spark, take the schema."""


@dataclass(slots=True)
class Part:
    """Numbers of rows by file in `records`, `quarantine` and `deltas` (at most one), and the range of offsets."""

    records: tuple[str, ...] = ()
    delta: str = ""
    delta_rows: int = 0
    quarantine: tuple[str, ...] = ()
    rows: int = 0
    quarantined: int = 0
    least: int | None = None
    most: int | None = None


def keep_only(directory: Path, names: set[str], schema: pa.Schema) -> None:
    """Remove files of lost attempts, and write the file with all columns. Raises PipelineError if a file is not visible
    from here.
    """
    for name in sorted(names):
        if not (directory / name).is_file():
            raise PipelineError(
                f"an executor wrote {directory / name}, which the driver can't see: all executors and the driver have "
                "to mount the archive's file system"
            )
    if directory.is_dir():
        for path in directory.iterdir():
            if path.name not in names:
                path.unlink(missing_ok=True)
        pq.write_metadata(schema, directory / ALL_COLUMNS)


def keep_deltas(directory: Path, names: set[str]) -> None:
    """Like `keep_only`; all files have the same columns. Raises PipelineError if a file is not visible from here."""
    for name in sorted(names):
        if not (directory / name).is_file():
            raise PipelineError(f"an executor wrote {directory / name}, which the driver can't see")
    if directory.is_dir():
        for path in directory.iterdir():
            if path.name not in names:
                path.unlink(missing_ok=True)
