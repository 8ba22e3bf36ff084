"""What remains of ranges that were merged into others: it is kept for readers that have begun with it, then deleted.

Owns the order of the steps. A writer may be killed at each of them, and the next one continues. A plain reader of Parquet
must not see records twice, so that directories of records are moved to a name that it ignores. Elsewhere than in a mounted
file system they are deleted at once: a store would copy them, and executors list their files when a query begins.
"""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from quorum_pipeline.archive.layout import (
    DELTAS,
    MARKER,
    MERGED,
    QUARANTINE,
    RECORDS,
    OffsetRange,
    parse_directory,
)
from quorum_pipeline.files.archive_reader import ArchiveReader
from quorum_pipeline.files.sealed_file import sync_directory

_MERGED_RECORDS = f"{RECORDS}/{MERGED}"


def retire(
    reader: ArchiveReader,
    counting: Sequence[OffsetRange],
    keep_seconds: float,
    delete: Callable[[str], None],
) -> None:
    """Hide the records of ranges that were merged, and delete what was merged more than `keep_seconds` ago. `counting`: the valid
    ranges; `delete`: deletes a file or directory of a URI. Raises PipelineError, OSError.
    """
    for each in _replaced(reader.names(RECORDS), counting):
        if keep_seconds and reader.mounted is not None:
            _hide(reader.mounted / RECORDS, each)
        else:
            _delete(reader, RECORDS, each, delete)
    now = time.time()
    for table in (_MERGED_RECORDS, QUARANTINE, DELTAS):
        for each in _replaced(reader.names(table), counting):
            if not _is_kept(reader, counting, each, now - keep_seconds):
                _delete(reader, table, each, delete)


def _replaced(names: Iterable[str], counting: Sequence[OffsetRange]) -> list[OffsetRange]:
    """The ranges of these directories that are parts of valid ones, or of which a killed merge has left something."""
    valid, end = set(counting), counting[-1].end if counting else 0
    found = map(parse_directory, names)
    return [each for each in found if each and each not in valid and each.end <= end]


def _is_kept(
    reader: ArchiveReader, counting: Sequence[OffsetRange], part: OffsetRange, since: float
) -> bool:
    """Whether the valid range that contains a part was written after a time (seconds since 1970)."""
    found = (each for each in counting if each.start <= part.start and part.end <= each.end)
    return any(reader.marker(each).written_ms > since * 1000 for each in found)


def _hide(records: Path, range: OffsetRange) -> None:
    merged = records / MERGED
    merged.mkdir(exist_ok=True)
    os.rename(records / range.directory, merged / range.directory)
    for each in (merged, records):
        sync_directory(each)


def _delete(
    reader: ArchiveReader, table: str, range: OffsetRange, delete: Callable[[str], None]
) -> None:
    directory = f"{reader.uri}/{table}/{range.directory}"
    if table in (RECORDS, _MERGED_RECORDS):
        delete(f"{directory}/{MARKER}")  # it does not count any more
    delete(directory)
    if table == RECORDS and reader.mounted is None:
        # An earlier writer may have written its marker during the deletion.
        delete(directory)
