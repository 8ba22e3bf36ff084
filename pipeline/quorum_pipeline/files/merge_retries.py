"""Repeats work on an archive whose directories were merged while it was done.

A merge deletes the directories that it replaces, also those that a task has yet to read; a writer that follows a log keeps
them for a while (`merged_parts.py`). Must not know Spark, nor what is done.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from quorum_pipeline.archive.layout import OffsetRange
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.archive_reader import ArchiveReader

_TRIES = 5
Result = TypeVar("Result")


def retry_on_merge(readers: Sequence[ArchiveReader], work: Callable[[], Result]) -> Result:
    """Return the result of work that reads these archives; the work begins again if ranges were merged meanwhile, also if it
    failed for that reason. Raises PipelineError if that happens each time; OSError, and errors of the work.
    """
    for _ in range(_TRIES):
        before = [reader.ranges() for reader in readers]
        try:
            found = work()
        except Exception:
            # Only tasks look for merged ranges where a writer keeps them.
            if all(
                set(kept) <= {*reader.ranges()}
                for reader, kept in zip(readers, before, strict=True)
            ):
                raise
            continue
        if _are_there(readers, before):
            return found
    names = ", ".join(reader.name for reader in readers)
    raise PipelineError(
        f"directories of {names} were merged each time they were read: run the command again after `archive --compact`"
    )


def _are_there(readers: Sequence[ArchiveReader], before: Sequence[list[OffsetRange]]) -> bool:
    """Return whether the ranges can still be read. Later ones may have been added."""
    return all(reader.are_readable(ranges) for reader, ranges in zip(readers, before, strict=True))
