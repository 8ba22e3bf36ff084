"""Converts declared column types to Arrow types, with the same result as Spark but without it. PURE."""

from collections.abc import Mapping

import pyarrow as pa

_SCALARS = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}


def arrow_schema(columns: Mapping[str, str]) -> pa.Schema:
    """Return the Arrow schema of declared columns. `columns`: name → type as text."""
    return pa.schema([(name, _arrow_type(kind)) for name, kind in columns.items()])


def _arrow_type(text: str) -> pa.DataType:
    """Return the Arrow type of a declared type."""
    if text.startswith("array<"):
        return pa.list_(pa.field("element", _arrow_type(text[6:-1])))
    if not text.startswith("struct<"):
        return _SCALARS[text]
    fields, depth, begin = [], 0, 0
    inner = text[7:-1] + ","
    for at, letter in enumerate(inner):
        depth += (letter == "<") - (letter == ">")
        if letter == "," and not depth:
            name, _, kind = inner[begin:at].partition(":")
            fields.append((name.strip("`"), _arrow_type(kind)))
            begin = at + 1
    return pa.struct(fields)
