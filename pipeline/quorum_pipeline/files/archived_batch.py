"""The batch of a log that contained an archived record, to check that an archive and a log have the same history.

Reads that one row. Must not know Spark. Source: KIP-595, "Log": logs with the same record at one offset have the same
earlier records.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow.compute as pc
import pyarrow.parquet as pq

from quorum_pipeline.files.sealed_file import naming, open_sealed, parquet_files

_OFFSET = "offset"
_IDENTITY = ("epoch", "batch_crc")


class BatchIdentity(NamedTuple):
    """Identifies a batch among all batches with its offset."""

    epoch: int
    crc: int

    def __str__(self) -> str:
        return f"epoch {self.epoch}, CRC {self.crc:08x}"


def archived_batch(directory: Path, offset: int) -> BatchIdentity | None:
    """Return the identity of the batch with this offset; None if the record is not in the directory. Raises PipelineError, OSError."""
    for path in parquet_files(directory):
        with open_sealed(path) as file, naming(path):
            for number in _row_groups(file.metadata, offset):
                found = _in_group(file, number, offset)
                if found is not None:
                    return identity(*found)
    return None


def _row_groups(footer: pq.FileMetaData, offset: int) -> Iterator[int]:
    """Yield the numbers of the row groups that may contain an offset."""
    column = footer.schema.to_arrow_schema().get_field_index(_OFFSET)
    for number in range(footer.num_row_groups if column >= 0 else 0):
        statistics = footer.row_group(number).column(column).statistics
        if (
            statistics is None
            or not statistics.has_min_max
            or statistics.min <= offset <= statistics.max
        ):
            yield number


def _in_group(file: pq.ParquetFile, number: int, offset: int) -> list[int | None] | None:
    """Return epoch and CRC at an offset of a row group, None for a missing one; None if the group does not contain the offset."""
    there = file.schema_arrow.names
    names = [name for name in (_OFFSET, *_IDENTITY) if name in there]
    table = file.read_row_group(number, columns=names, use_threads=False)
    place = pc.index(table.column(_OFFSET), offset).as_py()
    if place < 0:
        return None
    return [table.column(name)[place].as_py() if name in names else None for name in _IDENTITY]


def identity(epoch: int | None, batch_crc: int | None) -> BatchIdentity | None:
    """Return the identity; None if the archive lacks a part of it."""
    if epoch is None or batch_crc is None:
        return None
    return BatchIdentity(epoch, batch_crc)
