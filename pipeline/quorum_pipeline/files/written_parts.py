"""What tasks have written: a directory of an archive when all its parts are there.

Owns what is left in it, and the file that tells all columns. The writing itself is `archive_part.py`, which the driver does not need.
"""

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from quorum_pipeline.errors import PipelineError

ALL_COLUMNS = "_common_metadata"
"""A file with every column and no row: readers of a directory, Spark among them, take the schema from it."""


@dataclass(slots=True)
class Part:
    """How many rows are in which files of `records`, `quarantine` and `deltas` (one at most), and between which offsets."""

    records: tuple[str, ...] = ()
    delta: str = ""
    delta_rows: int = 0
    quarantine: tuple[str, ...] = ()
    rows: int = 0
    quarantined: int = 0
    least: int | None = None
    most: int | None = None


def keep_only(directory: Path, names: set[str], schema: pa.Schema) -> None:
    """Removes all other files, which lost attempts left, and tells all columns. Raises PipelineError if a file can't be seen from here."""
    for name in sorted(names):
        if not (directory / name).is_file():
            raise PipelineError(
                f"an executor wrote {directory / name}, which is not there for the driver: all of them have to mount"
                " the file system of the archive"
            )
    if directory.is_dir():
        for path in directory.iterdir():
            if path.name not in names:
                path.unlink(missing_ok=True)
        pq.write_metadata(schema, directory / ALL_COLUMNS)


def keep_deltas(directory: Path, names: set[str]) -> None:
    """As `keep_only`; all files have the same columns. Raises PipelineError if a file can't be seen from here."""
    for name in sorted(names):
        if not (directory / name).is_file():
            raise PipelineError(
                f"an executor wrote {directory / name}, which is not there for the driver"
            )
    if directory.is_dir():
        for path in directory.iterdir():
            if path.name not in names:
                path.unlink(missing_ok=True)
