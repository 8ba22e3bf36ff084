"""A range of an archive for an audit: the batches of its records, like the log of a replica.

Every page of every file is read and its checksum verified; quarantined records count as damage. A range may begin and
end within a batch: the batch belongs to the range of its first record, and its end is in the following ones.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from quorum_pipeline.archive.layout import MARKER, QUARANTINE, RECORDS, OffsetRange
from quorum_pipeline.audit.digests import BASE, BATCH_COLUMNS, CRC, END, EPOCH, NO_BATCHES, Table
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.archived_records import file_groups
from quorum_pipeline.files.audited_span import Audited
from quorum_pipeline.files.merged_parts import current
from quorum_pipeline.files.sealed_file import opened

_COLUMNS = ("offset", "batch_offset", "epoch", "batch_crc")
_OFFSET, _BATCH, _EPOCH, _CRC = range(4)


@dataclass(frozen=True, slots=True)
class AuditRange:
    """An audit of the first of these contiguous ranges."""

    root: Path
    ranges: tuple[OffsetRange, ...]

    def under(self, root: Path) -> "AuditRange":
        """See `fetched.ArchiveTask`."""
        return AuditRange(root / self.root, self.ranges)

    @property
    def place(self) -> str:
        """The directory's name in the archive."""
        return f"{RECORDS}/{self.ranges[0].directory}"

    def audited(self) -> Audited:
        """Audit the range. Raises OSError."""
        found = Audited(self.place)
        try:
            self._check_there()
            for offset, problem in self._quarantine():
                found.damaged(None, offset, f"in quarantine: {problem}")
            for batches in self._batches(self.ranges[0].start, self.ranges[0].end, whole=True):
                found.add(batches, placed=False)
        except PipelineError as error:
            found.damaged(None, found.end_offset or self.ranges[0].start, str(error))
        return found

    def block(self, begin: int, end: int) -> Table:
        """Return the batches of batches whose first offset is in this range, up to damage, which was reported. Raises
        OSError.
        """
        found = [NO_BATCHES]
        with suppress(PipelineError):
            found.extend(self._batches(begin, end, whole=False))
        return np.concatenate(found)

    def _check_there(self) -> None:
        """Raise PipelineError without the marker: a directory that is not there would be taken for one without records."""
        marker = self.root / self.place / MARKER
        if not (current(marker.parent) / MARKER).is_file():
            raise PipelineError(
                f"there is no {marker}: the directory was removed, or is not mounted where this task ran"
            )

    def _batches(self, begin: int, end: int, *, whole: bool) -> Iterator[Table]:
        """Yield batches. `whole`: read all columns, so that damage in any of them is found."""
        open_row: Table | None = None
        for rows in self._rows(begin, end, whole=whole):
            batches = _batches_of(rows)
            if open_row is not None and len(batches) and batches[0, BASE] == open_row[BASE]:
                batches[0, EPOCH], batches[0, CRC] = open_row[EPOCH], open_row[CRC]
            elif open_row is not None:
                batches = np.concatenate([open_row[np.newaxis], batches])
            behind = batches[:, BASE] >= end
            mine = batches[(batches[:, BASE] >= begin) & ~behind]
            if behind.any():
                yield mine
                return
            yield mine[:-1]
            open_row = mine[-1] if len(mine) else None
        if open_row is not None:
            yield open_row[np.newaxis]

    def _rows(self, begin: int, end: int, *, whole: bool) -> Iterator[Table]:
        """Yield the rows of each group of files in order, also beyond `end` while the caller continues."""
        for number, each in enumerate(self.ranges):
            if each.end <= begin:
                continue
            first = begin if number == 0 and whole else max(begin, each.start)
            for group in file_groups(self.root / RECORDS / each.directory, first, 1 << 62):
                yield _read(group, whole=whole and number == 0)

    def _quarantine(self) -> Iterator[tuple[int, str]]:
        directory = self.root / QUARANTINE / self.ranges[0].directory
        for path in sorted(directory.glob("*.parquet")):
            with opened(path) as file:
                found = file.read(["offset", "problem"])
            for row in found.sort_by("offset").to_pylist():
                yield row["offset"], row["problem"]


def _read(group: Sequence[Path], *, whole: bool) -> Table:
    found = []
    for path in group:
        with opened(path) as file:
            names = file.schema_arrow.names
            if lacking := set(_COLUMNS) - set(names):
                raise PipelineError(f"there is no column {min(lacking)!r}: no batch is known")
            if whole:
                for number in range(file.num_row_groups):
                    file.read_row_group(number, use_threads=False)
            table = file.read(list(_COLUMNS), use_threads=False)
        if any(table.column(name).null_count for name in _COLUMNS):
            raise PipelineError(f"{path}: some records do not contain their batch")
        columns = [table.column(name).cast(pa.int64()).to_numpy() for name in _COLUMNS]
        found.append(np.column_stack(columns))
    rows: Table = np.concatenate(found)
    return rows[np.argsort(rows[:, _OFFSET], kind="stable")]


def _batches_of(rows: Table) -> Table:
    """Return a batch for each batch, without its size in bytes."""
    if not len(rows):
        return NO_BATCHES
    firsts = np.flatnonzero(np.diff(rows[:, _BATCH], prepend=-1))
    lasts = np.append(firsts[1:], len(rows)) - 1
    found: Table = np.zeros((len(firsts), len(BATCH_COLUMNS)), np.int64)
    found[:, BASE], found[:, END] = rows[firsts, _BATCH], rows[lasts, _OFFSET] + 1
    found[:, EPOCH], found[:, CRC] = rows[firsts, _EPOCH], rows[firsts, _CRC]
    return found
