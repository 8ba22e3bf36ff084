"""The batch of a log that contained an archived record, to check that an archive and a log have the same history.

Reads that one row. Must not know Spark. Source: KIP-595, "Log": logs with the same record at one offset have the same
earlier records.
"""

from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds

from quorum_pipeline.files.sealed_file import check_footer, naming, parquet_files

COLUMNS = ("offset", "epoch", "batch_crc")
_SCHEMA = pa.schema({"offset": pa.int64(), "epoch": pa.int32(), "batch_crc": pa.int64()})


class BatchIdentity(NamedTuple):
    """Identifies a batch among all batches with its offset."""

    epoch: int
    crc: int

    def __str__(self) -> str:
        return f"epoch {self.epoch}, CRC {self.crc:08x}"


def archived_batch(directory: Path, offset: int) -> BatchIdentity | None:
    """Return the identity of the batch with this offset; None if the record is not in the directory. Raises PipelineError, OSError."""
    paths = parquet_files(directory)
    for path in paths:
        with naming(path):
            check_footer(path)
    with naming(directory):
        dataset = ds.dataset([*map(str, paths)], schema=_SCHEMA, format="parquet")
        wanted = ds.field("offset") == offset
        found = dataset.to_table(columns=list(COLUMNS[1:]), filter=wanted)
    return next((identity(**row) for row in found.to_pylist()), None)


def identity(epoch: int | None, batch_crc: int | None) -> BatchIdentity | None:
    """Return the identity; None if the archive lacks a part of it."""
    if epoch is None or batch_crc is None:
        return None
    return BatchIdentity(epoch, batch_crc)
