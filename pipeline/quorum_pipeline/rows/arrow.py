"""Converts rows to Arrow record batches with only the requested columns. PURE.

Owns the conversion of rows that were decoded one by one; `vectorized_arrow.py` converts blocks. A typed column is made from
the few rows of its type and spread over the batch by an index, so thirty columns cost as much as one.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from quorum_pipeline.rows.declared import RecordColumn, record_columns
from quorum_pipeline.rows.fields import json_of
from quorum_pipeline.rows.gathering import AnyRows
from quorum_pipeline.rows.keys import key_of
from quorum_pipeline.rows.table import MAX_TIMESTAMP_MS, Rows
from quorum_pipeline.rows.vectorized_arrow import struct_array, vectorized_column
from quorum_pipeline.rows.vectorized_rows import VectorizedRows

_TYPED = {column.name: column for column in record_columns()}


def record_batch(rows: AnyRows, schema: pa.Schema) -> pa.RecordBatch:
    """Return one batch with exactly these columns. Raises KeyError for an unknown column."""
    if isinstance(rows, VectorizedRows):
        arrays = [vectorized_column(rows, each) for each in schema]
    else:
        by_record = _by_record(rows)
        arrays = [
            _typed(_TYPED[each.name], by_record, rows, each.type)
            if each.name in _TYPED
            else pa.array(_COMMON[each.name](rows), type=each.type)
            for each in schema
        ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _by_record(rows: Rows) -> dict[type, list[int]]:
    found: dict[type, list[int]] = {}
    for index, content in enumerate(rows.contents):
        found.setdefault(type(content.record), []).append(index)
    return found


def _typed(
    column: RecordColumn, by_record: dict[type, list[int]], rows: Rows, type: pa.StructType
) -> pa.Array:
    indexes = by_record.get(column.record)
    if indexes is None:
        return pa.nulls(len(rows), type)
    dense = struct_array(column, [rows.contents[index].record for index in indexes], type)
    if len(indexes) == len(rows):
        return dense
    places: list[int | None] = [None] * len(rows)
    for place, index in enumerate(indexes):
        places[index] = place
    return dense.take(pa.array(places, type=pa.int32()))


def _data(rows: Rows) -> list[str | None]:
    return [None if c.record is None else json_of(c.record) for c in rows.contents]


_COMMON: dict[str, Callable[[Rows], Sequence[Any]]] = {
    "offset": lambda rows: rows.offsets,
    "epoch": lambda rows: rows.epochs,
    "timestamp": lambda rows: [
        each * 1000 if abs(each) <= MAX_TIMESTAMP_MS else None for each in rows.timestamps_ms
    ],
    "control": lambda rows: rows.controls,
    "type": lambda rows: [content.type for content in rows.contents],
    "version": lambda rows: [content.version for content in rows.contents],
    "key": lambda rows: [key_of(content.record) for content in rows.contents],
    "data": _data,
    "record_key": lambda rows: rows.record_keys,
    "value": lambda rows: rows.values,
    "batch_offset": lambda rows: rows.batch_offsets,
    "batch_crc": lambda rows: rows.batch_crcs,
    "source": lambda rows: [rows.source] * len(rows),
    "position": lambda rows: rows.positions,
    "problem": lambda rows: [content.problem for content in rows.contents],
}
