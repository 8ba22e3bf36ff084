"""Where the records of a range are after they were merged into another range, for readers that have begun with them.

A writer that follows a log moves the directory of such a range to `_merged`, and deletes it later. Must not know Spark.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from quorum_pipeline.archive.layout import MERGED, parse_directory

Result = TypeVar("Result")


def moved(path: Path) -> Path | None:
    """Return the path of a directory of records, or of a file in it, after a merge; None for other paths."""
    for directory in (path, path.parent):
        if parse_directory(directory.name) is not None and directory.parent.name != MERGED:
            return directory.parent / MERGED / directory.name / path.relative_to(directory)
    return None


def current(directory: Path) -> Path:
    """Return where the directory of a range is: where it was, or where it was moved to."""
    elsewhere = moved(directory)
    if elsewhere is None or directory.is_dir() or not elsewhere.is_dir():
        return directory
    return elsewhere


def read_current(path: Path, read: Callable[[Path], Result]) -> Result:
    """Return what `read` returns for a file; it is called again if the file was moved meanwhile. Raises errors of `read`."""
    try:
        return read(path)
    except FileNotFoundError:
        elsewhere = moved(path)
        if elsewhere is None or not elsewhere.exists():
            raise
        return read(elsewhere)
