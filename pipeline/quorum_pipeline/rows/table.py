"""The rows of a log: the common columns of every record. PURE.

Owns these columns, and the conversion of batches record by record (the reference path). Only the wanted offsets of a
batch are converted. Must not depend on files or Arrow (`arrow.py`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from quorum_node.records.batches import Batch, CorruptBatch, decode_records
from quorum_pipeline.rows.content import Content, control_content, metadata_content
from quorum_pipeline.rows.ddl import ddl_of
from quorum_pipeline.rows.declared import record_columns

COMMON_COLUMNS = {
    "offset": "bigint",
    "epoch": "int",
    "timestamp": "timestamp",
    "control": "boolean",
    "type": "string",
    "version": "int",
    "key": "string",
    "data": "string",
    "record_key": "binary",
    "value": "binary",
    "batch_offset": "bigint",
    "batch_crc": "bigint",
    "source": "string",
    "position": "bigint",
    "problem": "string",
}
"""Name → type. `data` is the record as JSON, `value` its bytes; `position` is that of its batch in `source`, in bytes; a row
with a `problem` could not be decoded."""
MAX_TIMESTAMP_MS = (1 << 63) // 1000 - 1
"""A `timestamp` is a number of microseconds: beyond this, or as far before 1970, it is null."""


def table_columns() -> dict[str, str]:
    """Return all columns and their types, in order."""
    return COMMON_COLUMNS | {column.name: column.type for column in record_columns()}


def table_ddl(*without: str) -> str:
    """Return all columns except those in `without` as DDL for a Spark schema."""
    found = table_columns().items()
    return ddl_of({name: kind for name, kind in found if name not in without})


@dataclass(slots=True)
class Rows:
    """Lists of equal length. `source`: file or address of the rows."""

    source: str
    offsets: list[int] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)
    timestamps_ms: list[int] = field(default_factory=list)
    controls: list[bool] = field(default_factory=list)
    contents: list[Content] = field(default_factory=list)
    record_keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    batch_offsets: list[int] = field(default_factory=list)
    batch_crcs: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.offsets)

    def add(self, batch: Batch, position: int, start_offset: int, end_offset: int) -> None:
        """Add the records of a batch from `start_offset` to `end_offset` (exclusive).

        A batch with a correct checksum whose records can't be decoded becomes one row with a problem.
        """
        header = batch.header
        try:
            records = decode_records(batch)
        except CorruptBatch as error:
            # A batch that begins in an earlier range already has a row there.
            lost = max(header.base_offset, start_offset)
            self.add_problem(lost, header.leader_epoch, position, error.reason)
            return
        if header.base_offset < start_offset or header.end_offset > end_offset:
            records = [each for each in records if start_offset <= each.offset < end_offset]
        count = len(records)
        self.offsets += [record.offset for record in records]
        self.epochs += [header.leader_epoch] * count
        self.timestamps_ms += [record.timestamp_ms for record in records]
        self.controls += [header.is_control] * count
        if header.is_control:
            self.contents += [control_content(record) for record in records]
        else:
            self.contents += [metadata_content(record.value) for record in records]
        self.record_keys += [record.key for record in records]
        self.values += [record.value for record in records]
        self.batch_offsets += [header.base_offset] * count
        self.batch_crcs += [header.crc] * count
        self.positions += [position] * count

    def add_problem(self, offset: int, epoch: int, position: int, problem: str) -> None:
        """Add a row for a place whose records can't be read."""
        self.offsets.append(offset)
        self.epochs.append(epoch)
        self.timestamps_ms.append(0)
        self.controls.append(False)
        self.contents.append(Content(None, None, None, problem))
        self.record_keys.append(None)
        self.values.append(None)
        self.batch_offsets.append(offset)
        self.batch_crcs.append(0)
        self.positions.append(position)

    def problems(self) -> Iterator[tuple[int, str]]:
        """Yield index and problem of each row that could not be decoded."""
        for index, content in enumerate(self.contents):
            if content.problem is not None:
                yield index, content.problem
