"""A part of an archive: the Parquet files that one task writes into local directories.

Owns the files and their metadata. A file gets its name when it is complete. Must not know Spark, nor which parts
count. Records of one type have separate files with only their columns: a file of all types has 140 columns, almost
all empty in every row, and takes several times as long to write and read. Other records, and blocks too small for
several files, go to one file with all columns.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from quorum_pipeline.files.sealed_file import seal
from quorum_pipeline.files.written_parts import Part
from quorum_pipeline.rows.arrow import record_batch
from quorum_pipeline.rows.gathering import ROWS_AT_ONCE, AnyRows
from quorum_pipeline.rows.vectorized_arrow import type_schema
from quorum_pipeline.rows.vectorized_rows import VectorizedRows

_CODEC = "snappy"
"""Fast compression; merged files are compressed more strongly (`spark/session.py`)."""
WORTH_FILES_ROWS = 10_000
"""Minimum size of a block that is written by type."""
_RISING = {
    "offset", "epoch", "timestamp", "version", "batch_offset", "batch_crc", "position"
}  # fmt: skip
"""Columns whose neighbouring values are similar."""
_BOUNDS = ["offset", "epoch", "timestamp", "type"]
"""Columns that readers filter by: only these have minimum and maximum statistics."""


@dataclass(slots=True)
class _Files:
    """One for each schema."""

    directory: Path
    stem: str
    names: tuple[str, ...] = ()
    """Names of the complete files."""
    _writers: dict[pa.Schema, pq.ParquetWriter] = field(default_factory=dict)

    def add(self, batch: pa.RecordBatch) -> None:
        writer = self._writers.get(batch.schema)
        if writer is None:
            self.directory.mkdir(parents=True, exist_ok=True)
            path = self._unfinished(self._stem(len(self._writers)))
            writer = pq.ParquetWriter(path, batch.schema, **_options(batch.schema))
            self._writers[batch.schema] = writer
        writer.write_batch(batch)

    def close(self, *, whole: bool) -> None:
        try:
            for writer in self._writers.values():
                writer.close()
            if whole:
                self.names = tuple(seal(self._unfinished(each), each) for each in self._stems())
        finally:
            for each in self._stems():
                self._unfinished(each).unlink(missing_ok=True)

    def _stems(self) -> Iterator[str]:
        return map(self._stem, range(len(self._writers)))

    def _stem(self, number: int) -> str:
        return f"{self.stem}-{number}"

    def _unfinished(self, stem: str) -> Path:
        # Spark and Hadoop ignore hidden files in a directory.
        return self.directory / f".{stem}.parquet"


def write_part(
    blocks: Iterable[AnyRows], schema: pa.Schema, stem: str, records: Path, quarantine: Path
) -> Part:
    """Write all rows to files whose names begin with `stem`; rows with a problem go to separate files.

    Raises OSError, and errors of the iterator `blocks`; then no file remains.
    """
    part = Part()
    good, bad = _Files(records, stem), _Files(quarantine, stem)
    whole = False
    try:
        for rows in blocks:
            for batch in _batches(rows, schema):
                _add(part, batch, good, bad)
        whole = True
    finally:
        try:
            good.close(whole=whole)
        finally:
            bad.close(whole=whole)
    part.records, part.quarantine = good.names, bad.names
    return part


def _batches(rows: AnyRows, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    if isinstance(rows, VectorizedRows) and len(rows) >= WORTH_FILES_ROWS:
        for some in rows.by_group():
            yield record_batch(some, type_schema(some, schema) or schema)
    else:
        yield record_batch(rows, schema)


def _options(schema: pa.Schema) -> dict[str, Any]:
    """Options of the Parquet writer. Fields of records get dictionaries, as their values repeat. Common columns increase or are
    unique, so a dictionary would only cost time."""
    dictionaries = [
        leaf
        for each in schema
        if pa.types.is_dictionary(each.type) or pa.types.is_struct(each.type)
        for leaf in _leaves(each.name, each.type)
    ]
    return {
        "compression": _CODEC,
        "use_dictionary": dictionaries,
        "write_page_checksum": True,
        "column_encoding": dict.fromkeys(_RISING & set(schema.names), "DELTA_BINARY_PACKED"),
        "write_statistics": [each for each in _BOUNDS if each in schema.names],
        # One page per column and block: the cost of a page does not depend on its content.
        "max_rows_per_page": ROWS_AT_ONCE,
        # Parquet's own schema is complete. With Arrow's schema beside it, readers would build
        # dictionaries again.
        "store_schema": False,
    }


def _leaves(path: str, kind: pa.DataType) -> list[str]:
    """Names of the Parquet columns of an Arrow column."""
    if pa.types.is_struct(kind):
        return [leaf for each in kind for leaf in _leaves(f"{path}.{each.name}", each.type)]
    if pa.types.is_list(kind):
        return _leaves(f"{path}.list.element", kind.value_type)
    return [path]


def _add(part: Part, batch: pa.RecordBatch, good: _Files, bad: _Files) -> None:
    offsets = pc.min_max(batch.column("offset")).as_py()
    part.least = min(offsets["min"], offsets["min"] if part.least is None else part.least)
    part.most = max(offsets["max"], offsets["max"] if part.most is None else part.most)
    if "problem" not in batch.schema.names:
        part.rows += len(batch)
        good.add(batch)
        return
    problem = batch.column("problem")
    part.rows += problem.null_count
    part.quarantined += len(problem) - problem.null_count
    if problem.null_count == len(problem):
        good.add(batch)
        return
    if problem.null_count:
        good.add(batch.filter(pc.is_null(problem)))
    bad.add(batch.filter(pc.is_valid(problem)))
