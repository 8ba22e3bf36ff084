"""Writes tables of a state to Parquet files on a local disk. Owns the files; `state` owns their content."""

from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.output_file import completed
from quorum_pipeline.state.tables import STATE_TABLES, StateTable, Tables

_ROWS_AT_ONCE = 50_000
ARROW_TYPES = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "array<int>": pa.list_(pa.int32()),
    "array<string>": pa.list_(pa.string()),
}
"""Arrow types by the type names of tables."""


def write_tables(directory: Path, state: Tables) -> None:
    """Write `NAME.parquet` for each table. The files get their names when all tables are written.

    Raises PipelineError if a file already exists, OSError.
    """
    directory.mkdir(parents=True, exist_ok=True)
    written = [(table, directory / f"{table.name}.parquet") for table in STATE_TABLES]
    for _, path in written:
        if path.exists():
            raise PipelineError(f"{path} already exists; use an empty directory")
    with ExitStack() as names:
        for table, path in written:
            _write_table(names.enter_context(completed(path)), state, table)


def _write_table(path: Path, state: Tables, table: StateTable) -> None:
    schema = pa.schema([(name, ARROW_TYPES[kind]) for name, kind in table.columns.items()])
    rows = state.rows(table)
    with pq.ParquetWriter(path, schema) as writer:
        while some := list(islice(rows, _ROWS_AT_ONCE)):
            writer.write_table(pa.Table.from_pylist(some, schema=schema))
