"""Blocks of rows decoded type by type, as Arrow columns. PURE. The result equals that of `arrow.py`."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from quorum_node.records.metadata import record_type_name
from quorum_node.schema.source import wire_fields
from quorum_pipeline.compiled import Numbers
from quorum_pipeline.rows.column_arrays import spread
from quorum_pipeline.rows.columnar import Indexes
from quorum_pipeline.rows.content import Content
from quorum_pipeline.rows.declared import RecordColumn, plain, record_columns
from quorum_pipeline.rows.fields import json_of
from quorum_pipeline.rows.keys import key_array, key_of
from quorum_pipeline.rows.table import MAX_TIMESTAMP_MS
from quorum_pipeline.rows.vectorized_rows import OneByOne, OneType, VectorizedRows

_TYPED = {column.name: column for column in record_columns()}


def vectorized_column(rows: VectorizedRows, field: pa.Field) -> pa.Array:
    """Return a column of the table. Raises KeyError for an unknown column."""
    typed = _TYPED.get(field.name)
    if typed is None:
        if pa.types.is_dictionary(field.type):
            return _one_value(rows, field)
        return _COMMON[field.name](rows).cast(field.type)
    found = []
    for group in rows.groups:
        if isinstance(group, OneByOne):
            found += _one_by_one(group, typed, field.type)
        elif group.cls is typed.record:
            found.append((group.indexes, _of_one_type(group, field.type)))
    if not found:
        return pa.nulls(len(rows), field.type)
    indexes = np.concatenate([each for each, _ in found])
    return spread([each for _, each in found], indexes, len(rows))


def type_schema(rows: VectorizedRows, schema: pa.Schema) -> pa.Schema | None:
    """Return the columns that have values in rows of one type; None if there are rows of several types.

    A text that all rows share is one value of a dictionary. A field that can't be null by its declaration is not nullable:
    writing a validity flag per row would take as long as writing a number.
    """
    (group, *others) = rows.groups
    if others or isinstance(group, OneByOne):
        return None
    columns = []
    for field in schema:
        typed = _TYPED.get(field.name)
        if field.name in _ONE_VALUE:
            same = pa.dictionary(pa.int32(), field.type)
            columns.append(pa.field(field.name, same, nullable=False))
        elif typed is None and field.name not in _ALWAYS_NULL:
            columns.append(field.with_nullable(field.name in _SOMETIMES_NULL))
        elif typed is not None and typed.record is group.cls:
            columns.append(pa.field(field.name, _declared(group, field.type), nullable=False))
    return pa.schema(columns)


def struct_array(
    column: RecordColumn, records: list[object], type: pa.StructType
) -> pa.StructArray:
    """Return the typed column of records that were decoded one by one, all of its type."""
    wanted = {field.name: field for field in column.fields}
    parts = [pa.array(list(map(wanted[each.name].value, records)), type=each.type) for each in type]
    return pa.StructArray.from_arrays(parts, fields=list(type))


def _declared(group: OneType, type: pa.StructType) -> pa.StructType:
    """Return the same type with nullability as declared."""
    specs = dict(wire_fields(group.cls))
    fields = []
    for each in type:
        spec = specs[each.name]
        kind = each.type
        if pa.types.is_list(kind):
            # An element is never null; its fields may be.
            kind = pa.list_(kind.value_field.with_nullable(False))
        may_be_null = spec.nullable_in(group.version) or plain(spec.default) is None
        fields.append(pa.field(each.name, kind, nullable=may_be_null))
    return pa.struct(fields)


def _of_one_type(group: OneType, type: pa.StructType) -> pa.StructArray:
    parts = [group.columns[each.name].cast(each.type) for each in type]
    return pa.StructArray.from_arrays(parts, fields=list(type))


def _one_by_one(
    group: OneByOne, column: RecordColumn, type: pa.StructType
) -> list[tuple[Indexes, pa.Array]]:
    chosen = [(n, c.record) for n, c in group.records if isinstance(c.record, column.record)]
    if not chosen:
        return []
    indexes = np.array([index for index, _ in chosen], np.intp)
    return [(indexes, struct_array(column, [record for _, record in chosen], type))]


def _of_groups(
    of_type: Callable[[OneType, int], pa.Array],
    of_one: Callable[[Content], object],
    kind: pa.DataType,
) -> Callable[[VectorizedRows], pa.Array]:
    """Return a function that makes a common column. `of_type`: values for a group of one type; `of_one`: value for one record."""

    def column(rows: VectorizedRows) -> pa.Array:
        parts = [
            pa.array([of_one(content) for content in group.contents], kind)
            if isinstance(group, OneByOne)
            else of_type(group, len(group.indexes)).cast(kind)
            for group in rows.groups
        ]
        return spread(parts, np.concatenate([each.indexes for each in rows.groups]), len(rows))

    return column


def _one_value(rows: VectorizedRows, field: pa.Field) -> pa.Array:
    (group,) = rows.groups
    assert isinstance(group, OneType)
    value = _ONE_VALUE[field.name](rows, group)
    indexes = pa.array(np.zeros(len(rows), np.int32))
    return pa.DictionaryArray.from_arrays(indexes, pa.array([value], field.type.value_type))


def _repeated(value: object, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value), count)


def _timestamps(times_ms: Numbers) -> pa.Array:
    beyond = (times_ms > MAX_TIMESTAMP_MS) | (times_ms < -MAX_TIMESTAMP_MS)
    return pa.array(times_ms * 1000, mask=beyond)


_COMMON: dict[str, Callable[[VectorizedRows], pa.Array]] = {
    "offset": lambda rows: pa.array(rows.offsets),
    "epoch": lambda rows: pa.array(rows.epochs),
    "timestamp": lambda rows: _timestamps(rows.timestamps_ms),
    "control": lambda rows: _repeated(value=False, count=len(rows)),
    "type": _of_groups(
        lambda group, count: _repeated(record_type_name(group.cls.RECORD_TYPE), count),
        lambda content: content.type,
        pa.string(),
    ),
    "version": _of_groups(
        lambda group, count: _repeated(group.version, count),
        lambda content: content.version,
        pa.int32(),
    ),
    "key": _of_groups(
        lambda group, count: key_array(group.cls, group.columns, count),
        lambda content: key_of(content.record),
        pa.string(),
    ),
    "data": lambda rows: pa.array(
        [None if each.record is None else json_of(each.record) for each in rows.contents]
    ),
    "record_key": lambda rows: pa.nulls(len(rows), pa.binary()),
    "value": VectorizedRows.value_array,
    "batch_offset": lambda rows: pa.array(rows.batch_offsets),
    "batch_crc": lambda rows: pa.array(rows.batch_crcs),
    "source": lambda rows: _repeated(rows.source, len(rows)),
    "position": lambda rows: pa.array(rows.positions),
    "problem": _of_groups(
        lambda group, count: pa.nulls(count), lambda content: content.problem, pa.string()
    ),
}
_ONE_VALUE: dict[str, Callable[[VectorizedRows, OneType], str]] = {
    "type": lambda rows, group: record_type_name(group.cls.RECORD_TYPE),
    "source": lambda rows, group: rows.source,
}
_SOMETIMES_NULL = {"timestamp", "key"}
_ALWAYS_NULL = {"record_key", "problem"}
"""Columns that are null in rows that were decoded type by type."""
