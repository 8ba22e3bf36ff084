"""A Parquet file of an archive with the delta of a run of records, or with a part of a state.

    kind, piece, offset, value    remaining records of a run (`compaction/offset_runs.py`), by its pieces (`state/compiled_span.py`)

Data without keys (`deltas/summary.py`) is JSON in the file's metadata. Owns this format. A file of format 1 has no ELR updates (`compaction/elr_updates.py`),
so that versions without them can read it; they refuse format 2. Pages have checksums. A file is synced before it gets its name. Must not know
Spark.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from quorum_node.json_text import read_json
from quorum_node.records.batches import DecodedRecord
from quorum_node.records.control import encode_control
from quorum_node.schema.primitives import MalformedRecord
from quorum_pipeline.compaction.offset_runs import OffsetRun, elr_update_counts, offset_run
from quorum_pipeline.deltas.span import Boundary
from quorum_pipeline.deltas.summary import Summary
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.sealed_file import opened, seal

_META = b"quorum_pipeline"
_WITHOUT_ELR_UPDATES, _WITH_ELR_UPDATES = FORMATS = 1, 2
_SCHEMA = pa.schema(
    {"kind": pa.uint8(), "piece": pa.uint8(), "offset": pa.int64(), "value": pa.binary()}
)
_STORED_APART = "voters", "wrong", "latest_ms"
_SUMMARY_FIELDS = [each.name for each in fields(Summary) if each.name not in _STORED_APART]


@dataclass(frozen=True, slots=True)
class StoredSpan:
    """Like `CompiledSpan`, read from a file."""

    boundary: Boundary | None
    is_open: bool
    rows_read: int
    parts: tuple[tuple[int, OffsetRun], ...]

    def pieces(self) -> Iterator[tuple[int, OffsetRun]]:
        """See CompiledSpan."""
        yield from self.parts


@dataclass(frozen=True, slots=True)
class DeltaHead:
    """The part of a delta that is not in its rows."""

    summary: Summary
    boundary: Boundary | None = None
    is_open: bool = False


def write_delta(
    directory: Path, stem: str, head: DeltaHead, pieces: Sequence[tuple[int, OffsetRun]]
) -> tuple[str, int]:
    """Write a file; return its name, which begins with `stem`, and its number of rows. Raises OSError."""
    tables = [_table(piece, run) for piece, run in pieces]
    table = pa.concat_tables(tables) if tables else _SCHEMA.empty_table()
    has_updates = any(elr_update_counts(run.run).any() for _, run in pieces)
    document = _document(head, _WITH_ELR_UPDATES if has_updates else _WITHOUT_ELR_UPDATES)
    table = table.replace_schema_metadata({_META: json.dumps(document).encode()})
    directory.mkdir(parents=True, exist_ok=True)
    unfinished = directory / f".{stem}.parquet"
    try:
        pq.write_table(table, unfinished, compression="zstd", write_page_checksum=True)
        return seal(unfinished, stem), len(table)
    finally:
        unfinished.unlink(missing_ok=True)


def head_of(footer: pq.FileMetaData) -> DeltaHead:
    """Decode the head from the footer of a file. Raises PipelineError."""
    return _head(footer.metadata)


def read_delta(path: Path) -> tuple[StoredSpan, Summary]:
    """Read a file. Raises PipelineError, OSError."""
    with opened(path) as file:
        head = _head(file.schema_arrow.metadata)
        table = file.read(use_threads=False)
        pieces = table.column("piece").to_numpy()
        parts = tuple((int(each), _run(table, pieces == each)) for each in np.unique(pieces))
    span = StoredSpan(head.boundary, head.is_open, len(table), parts)
    return span, head.summary


def _table(piece: int, run: OffsetRun) -> pa.Table:
    copy = run.copied()
    borders = np.concatenate([np.zeros(1, np.int64), copy.run.ends]).astype(np.int32)
    values = pa.Array.from_buffers(
        pa.binary(),
        len(run),
        [None, pa.py_buffer(borders.tobytes()), pa.py_buffer(copy.run.data.tobytes())],
    )
    columns = [
        pa.array(copy.run.kinds),
        pa.array(np.full(len(run), piece, np.uint8)),
        pa.array(run.offsets),
        values,
    ]
    return pa.Table.from_arrays(columns, schema=_SCHEMA)


def _run(table: pa.Table, mine: Any) -> OffsetRun:
    some = table.filter(pa.array(mine))
    values = some.column("value").combine_chunks()
    _, borders, data = values.buffers()
    places = np.frombuffer(borders, np.int32)[values.offset : values.offset + len(values) + 1]
    begin, end = int(places[0]), int(places[-1])
    return offset_run(
        np.frombuffer(bytearray(memoryview(data)[begin:end]), np.uint8),
        np.diff(places),
        some.column("kind").to_numpy().copy(),
        some.column("offset").to_numpy().copy(),
    )


def _document(head: DeltaHead, form: int) -> dict[str, Any]:
    summary, voters = head.summary, head.summary.voters
    document: dict[str, Any] = {
        "form": form, "latest_ms": summary.latest_ms, "is_open": head.is_open
    }  # fmt: skip
    document["summary"] = {name: getattr(summary, name) for name in _SUMMARY_FIELDS}
    if head.boundary is not None:
        document["boundary"] = [head.boundary.offset, head.boundary.ends]
    if voters is not None:
        assert voters.log_position is not None, "it was read from a log or a snapshot"
        offset, epoch = voters.log_position
        record = encode_control(voters)
        document["voters"] = [offset, epoch, _text(record.key or b""), _text(record.value or b"")]
    return document


def _head(metadata: Any) -> DeltaHead:
    try:
        document = read_json((metadata or {})[_META])
        if document["form"] not in FORMATS:
            raise PipelineError("it was written by a newer version of this program")
        summary = Summary(**document["summary"], latest_ms=document["latest_ms"])
        if "voters" in document:
            offset, epoch, key, value = document["voters"]
            record = DecodedRecord(offset, 0, b64decode(key), b64decode(value))
            formed = summary.has_formed
            summary = replace(summary.control(record, epoch), has_formed=formed)
        boundary = Boundary(*document["boundary"]) if "boundary" in document else None
        return DeltaHead(summary, boundary, document["is_open"])
    except (KeyError, ValueError, TypeError, MalformedRecord) as error:
        raise PipelineError(f"its metadata is damaged: {error}") from None


def _text(data: bytes) -> str:
    return b64encode(data).decode()
