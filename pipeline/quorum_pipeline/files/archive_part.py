"""A part of an archive: what one task writes, as Parquet files in directories of this machine.

Owns the files and what is said of them. A file has its name when it is whole. Must not know Spark, nor which parts count.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from quorum_pipeline.errors import PipelineError
from quorum_pipeline.rows.arrow import record_batch
from quorum_pipeline.rows.gathering import AnyRows

_CODEC = "zstd"


@dataclass(slots=True)
class Part:
    """How many rows are in which file of `records` and `quarantine` (None: there is no such file), and between which offsets."""

    records: str
    quarantine: str | None = None
    rows: int = 0
    quarantined: int = 0
    least: int | None = None
    most: int | None = None


@dataclass(slots=True)
class _Table:
    directory: Path
    name: str
    schema: pa.Schema
    _writer: pq.ParquetWriter | None = field(default=None, init=False)

    @property
    def _unfinished(self) -> Path:
        # Readers of a directory pass over such a name.
        return self.directory / f".{self.name}"

    def open(self) -> None:
        if self._writer is None:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(self._unfinished, self.schema, compression=_CODEC)

    def add(self, batch: pa.RecordBatch) -> None:
        self.open()
        assert self._writer is not None
        self._writer.write_batch(batch)

    def close(self, *, whole: bool) -> None:
        if self._writer is None:
            return
        try:
            self._writer.close()
            if whole:
                os.replace(self._unfinished, self.directory / self.name)
        finally:
            self._unfinished.unlink(missing_ok=True)


def write_part(
    blocks: Iterable[AnyRows], schema: pa.Schema, name: str, records: Path, quarantine: Path
) -> Part:
    """All rows, those with a problem apart from the others. Raises OSError, and what the rows raise; nothing is left then.

    A file of records is made even if there are none: a directory with no file at all would have no columns.
    """
    part = Part(name)
    tables = _Table(records, name, schema), _Table(quarantine, name, schema)
    whole = False
    try:
        tables[0].open()
        for rows in blocks:
            _add(part, record_batch(rows, schema), tables)
        whole = True
    finally:
        for table in tables:
            table.close(whole=whole)
    return part


def keep_only(directory: Path, names: set[str]) -> None:
    """Removes all other files, which lost attempts left. Raises PipelineError if one of these can't be seen from here."""
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


def _add(part: Part, batch: pa.RecordBatch, tables: tuple[_Table, _Table]) -> None:
    good, bad = tables
    offsets = pc.min_max(batch.column("offset")).as_py()
    part.least = min(offsets["min"], offsets["min"] if part.least is None else part.least)
    part.most = max(offsets["max"], offsets["max"] if part.most is None else part.most)
    problem = batch.column("problem")
    part.rows += problem.null_count
    part.quarantined += len(problem) - problem.null_count
    if problem.null_count == len(problem):
        good.add(batch)
        return
    good.add(batch.filter(pc.is_null(problem)))
    bad.add(batch.filter(pc.is_valid(problem)))
    part.quarantine = bad.name
